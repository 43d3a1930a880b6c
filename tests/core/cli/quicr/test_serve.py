"""``aqueduct quicr origin`` and ``relay``: media through three processes, and what they tell."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.core.cli.quicr.running import serving, trust
from tests.core.cli.running import Listener, aqueduct, one_error
from tests.support.ports import free_port


def test_media_go_through_two_relays(origin: Listener, certificates: Path) -> None:
    own = trust(certificates)
    lines = b"".join(b"%d\n" % number for number in range(300))
    with (
        serving(certificates, "relay", origin.url, *own, "--datagrams") as near,
        serving(certificates, "relay", near.url, *own, "-J", "--interval", "20ms") as far,
    ):
        done = aqueduct("quicr", "post", far.url, "m", *own, "--group-size", "7", stdin=lines)
        assert done.returncode == 0, done.stderr
        for server in (far, near, origin):
            got = aqueduct("quicr", "get", server.url, "m", *own, "--datagrams", "--timeout", "9s")
            assert (got.returncode, got.stdout) == (0, lines), got.stderr
        far.process.send_signal(signal.SIGTERM)
        code, out = far.end()
    assert code == 143
    rows = [json.loads(line) for line in out.splitlines()]
    last = rows[-1]
    assert (last["type"], last["url"], last["gone"]) == ("media", "m", False)
    assert (last["objects"], last["bytes"], last["final"]) == (300, len(lines) - 300, True)
    assert (last["dropped"], last["missed"], last["given_up"]) == (0, 0, 0)
    assert {"readers", "posts"} <= last.keys()


def test_without_json_comments_tell_the_same(certificates: Path) -> None:
    with serving(certificates, "origin", "--interval", "20ms") as origin:
        aqueduct("quicr", "post", origin.url, "m", *trust(certificates), stdin=b"one\ntwo\n")
        line = origin.line(r"# m: (.* 2 objects, 6 bytes, 0 lost or dropped)")
        assert line.startswith("0 readers, ")


def test_a_relay_tells_that_nobody_is_upstream(certificates: Path) -> None:
    nobody, own = f"127.0.0.1:{free_port()}", trust(certificates)
    with serving(certificates, "relay", f"quicr://{nobody}", *own) as relay:
        aqueduct("quicr", "post", relay.url, "m", *own, stdin=b"one\n")
        assert relay.line(rf".*({nobody} cannot be reached)")


def test_a_server_without_certificate_is_refused() -> None:
    done = aqueduct("quicr", "origin", "127.0.0.1:0")
    assert "a listener needs a certificate" in one_error(done, "AQUEDUCT_INVALID_OPTION.MISSING")

"""``aqueduct listen``: what it says, and when it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.core.cli.running import (
    aqueduct,
    listening,
    messages,
    totals,
)


def test_every_token_of_a_format(certificates: Path) -> None:
    format = r"%c %n %N %p %r %i %k %S %% %T\t%s\0"
    with listening(certificates, "-f", format, "-c", "1") as listener:
        aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--channel", "c",
            "--producer", "p", "-H", "a=1", "-H", "b=2", stdin=b"x",
        )  # fmt: skip
        code, out = listener.end()
    assert code == 0
    message, _ = out.split(b"\0")
    head, value = message.split(b"\t")
    *fields, stamp = head.split(b" ")
    assert fields == [b"8", b"0", b"c", b"p", b"reliable", b"1", b"a=1,b=2", b"1", b"%"]
    assert abs(int(stamp) / 1000 - time.time()) < 60
    assert value == b"x"


def test_what_is_listened_to_into_a_file_is_the_input(certificates: Path, tmp_path: Path) -> None:
    """No line for the message that only brings the channel along, nor events among the lines."""
    lines = b"".join(b"line %d\n" % number for number in range(500))
    with listening(certificates, "-e") as listener:
        sent = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--channel", "c", stdin=lines
        )
        assert sent.returncode == 0, sent.stderr
        code, out = listener.end()
    assert (code, out) == (0, lines)


def test_quiet_is_quiet(certificates: Path) -> None:
    with listening(certificates, "-q", "-e") as listener:
        aqueduct("send", listener.url, "--ca", certificates / "ca.pem", stdin=b"x\n")
        code, out = listener.end()
    assert (code, out) == (0, b"x\n")
    assert [line for line in listener.errors if not line.startswith("listening on")] == []


def test_a_count_stops_the_listener_and_the_sender_learns_it(certificates: Path) -> None:
    with listening(certificates, "-J", "-c", "3") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", stdin=b"x\n" * 2_000_000
        )
        assert done.returncode == 1
        assert b"AQUEDUCT_" in done.stderr
        assert totals(done)["sent"] > 3
        assert len(messages(listener.rows())) == 3


def test_self_signed_prints_its_fingerprint_and_only_json_on_stdout(certificates: Path) -> None:
    with listening(certificates, "-J", "-c", "1", "--self-signed") as listener:
        assert len(listener.line(r"fingerprint (\S+)").split(":")) == 32
        done = aqueduct("send", listener.url, "--insecure", stdin=b"x")
        assert done.returncode == 0, done.stderr
        assert [row["value"] for row in messages(listener.rows())] == ["x"]
        assert not any("warning" in line for line in listener.errors)


def test_a_listener_that_everybody_can_reach_says_so(certificates: Path) -> None:
    with listening(certificates, address="0.0.0.0:0") as listener:
        assert "--token-file" in listener.line(r"warning: (.*)")


def test_a_reader_that_leaves_ends_the_listener_quietly(certificates: Path) -> None:
    """As in ``aqueduct listen … | head -1``."""
    head = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.readline()"], stdin=subprocess.PIPE
    )
    assert head.stdin is not None
    with head, listening(certificates, stdout=head.stdin.fileno()) as listener:
        head.stdin.close()
        aqueduct("send", listener.url, "--ca", certificates / "ca.pem", stdin=b"x\n" * 200_000)
        assert listener.end()[0] == 141
        assert [line for line in listener.errors if line.startswith(("Traceback", "["))] == []

"""``aqueduct telehash send``: lines and files as packets, answers, and what goes wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, one_error
from tests.core.cli.telehash.running import taking, trust


def test_the_last_line_says_what_was_sent(certificates: Path) -> None:
    with taking(certificates, "telehash") as listener:
        where = ("telehash", "send", listener.url, *trust(certificates))
        done = aqueduct(*where, "_t", stdin=b"one\n\ntwo\n")
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        assert done.stderr.startswith(b"3 packets, 6 bytes in ")
        done = aqueduct(*where, "_t", "-J", "--unreliable", stdin=b"one\n")
        row = json.loads(done.stdout)
        assert row.pop("seconds") >= 0
        assert row == {"type": "end", "packets": 1, "bytes": 3}
        assert aqueduct(*where, "_t", "-q", stdin=b"x").stderr == b""


def test_nothing_to_send_is_an_end_alone(certificates: Path) -> None:
    with taking(certificates, "udp", "-e", "-J") as listener:
        done = aqueduct("telehash", "send", listener.url, "_t", stdin=b"")
        assert done.returncode == 0
        assert done.stderr.startswith(b"0 packets, 0 bytes")
        packet, _ = listener.rows()
        assert (packet["seq"], packet["end"]) == (0, True)


def test_files_are_packets(certificates: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    files[0].write_bytes(b"1\n2\n")
    files[1].write_bytes(bytes(1_000))
    with taking(certificates, "telehash", "-e", "-J") as listener:
        done = aqueduct(
            *("telehash", "send", listener.url, "_t", *files, *trust(certificates)),
            "--whole-file",
        )
        assert done.returncode == 0, done.stderr
        one, two, *_ = listener.rows()
        assert (one["value"], len(two["value"])) == ("1\n2\n", 1_000)


def test_answers_are_printed_until_the_peer_ends_it(certificates: Path) -> None:
    with taking(certificates, "telehash", "--reply", "welcome") as listener:
        where = ("telehash", "send", listener.url, "_t", *trust(certificates), "--answers")
        done = aqueduct(*where, "-q", stdin=b"hello")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"welcome\n", b"")
        done = aqueduct(*where, "-J", stdin=b"hello")
        answer, end = [json.loads(line) for line in done.stdout.splitlines()]
        assert (answer["value"], answer["seq"], answer["end"]) == ("welcome", 0, True)
        assert end["packets"] == 1
    with taking(certificates, "udp") as silent:
        done = aqueduct(
            *("telehash", "send", silent.url, "_t", "--answers", "--timeout", "300ms"), stdin=b"?"
        )
        assert "Nothing came" in one_error(done, "AQUEDUCT_CHANNEL.NO_REPLY")


def test_what_does_not_fit_is_named_by_its_place(certificates: Path) -> None:
    with taking(certificates, "udp") as listener:
        done = aqueduct(
            *("telehash", "send", listener.url, "_t"), stdin=b"one\n" + bytes(1_600) + b"\n"
        )
        error = one_error(done, "AQUEDUCT_SINK.MESSAGE_TOO_LARGE")
        assert "packet 2 of the input" in error
        assert "1472 fit" in error


@pytest.mark.parametrize("js", ["[1]", "{", "7"])
def test_json_that_is_no_object(js: str) -> None:
    done = aqueduct("telehash", "send", "udp://127.0.0.1:9", "_t", "--js", js)
    assert done.returncode == 2
    assert b"is no JSON object" in done.stderr


def test_mistakes_are_told_by_name(certificates: Path) -> None:
    for words, name, text in (
        (("quicr://127.0.0.1:9", "_t"), "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "none of our carrier"),
        (("telehash://127.0.0.1:9", "_t"), "AQUEDUCT_CONNECT.REFUSED", "127.0.0.1"),
        (("udp://127.0.0.1:9", "_t"), "AQUEDUCT_CHANNEL.LOST", "unreachable"),
        (("udp://192.0.2.1:9", "_t"), "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "not a loopback"),
        (
            ("udp://127.0.0.1:9", "_t", "--hashname", "f00"),
            "AQUEDUCT_INVALID_OPTION.BAD_VALUE",
            "64 hexadecimal digits",
        ),
        (
            ("udp://127.0.0.1:9", "_t", "--window", "101"),
            "AQUEDUCT_INVALID_OPTION.BAD_VALUE",
            "from 1 to 100",
        ),
        (("udp://127.0.0.1:9", "_t", "nowhere"), "AQUEDUCT_INVALID_OPTION.BAD_VALUE", "nowhere"),
    ):
        done = aqueduct("telehash", "send", *words, *trust(certificates), stdin=b"x")
        assert text in one_error(done, name)


def test_a_peer_that_never_acks(certificates: Path) -> None:
    with taking(certificates, "udp") as listener:
        listener.process.send_signal(signal.SIGSTOP)
        done = aqueduct(
            *("telehash", "send", listener.url, "_t", "--channel-timeout", "500ms"), stdin=b"x"
        )
        assert "nothing was acked for 0.5 s" in one_error(done, "AQUEDUCT_CHANNEL.TIMEOUT")

"""``aqueduct telehash listen``: packets as bytes and as JSON lines, types, answers and ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, one_error
from tests.core.cli.telehash.running import CARRIERS, taking, trust

LINES = [b"one", b"", b"three", b"f\xc3\xbcnf", b"\xff"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_bodies_are_printed_as_they_are(carrier: str, certificates: Path) -> None:
    with taking(certificates, carrier, "-e") as listener:
        done = aqueduct(
            *("telehash", "send", listener.url, "_log", *trust(certificates)),
            stdin=b"\n".join(LINES),
        )
        assert done.returncode == 0, done.stderr
        assert listener.end() == (0, b"\n".join([*LINES, b""]))
        assert listener.errors[-1].startswith("# channel 1 '_log' of 127.0.0.1:")
        assert listener.errors[-1].endswith("ended: 5 packets")


@pytest.mark.parametrize("carrier", CARRIERS)
def test_json_lines_say_whose_they_are(carrier: str, certificates: Path) -> None:
    with taking(certificates, carrier, "-e", "-J") as listener:
        done = aqueduct(
            *("telehash", "send", listener.url, "_log", "--js", '{"n": 1}', *trust(certificates)),
            stdin=b"one\n\xff",
        )
        assert done.returncode == 0, done.stderr
        *packets, end = listener.rows()
    assert [(row["seq"], row["js"], row["value"], row["end"]) for row in packets] == [
        (0, {"n": 1}, "one", False),
        (1, {"n": 1}, {"base64": "/w=="}, False),
        (2, None, "", True),
    ]
    assert {(row["type"], row["channel"], row["channelType"]) for row in packets} == {
        ("packet", 1, "_log")
    }
    assert {row["peer"] for row in packets} == {end["peer"]}
    assert (end["type"], end["packets"], end["dropped"], end["error"]) == ("end", 2, 0, None)


def test_other_types_are_refused(certificates: Path) -> None:
    with taking(certificates, "udp", "-e", "-J", "--type", "_a", "--type", "_b") as listener:
        done = aqueduct("telehash", "send", listener.url, "_c", stdin=b"x")
        assert "by an error: unknown type" in one_error(done, "AQUEDUCT_CHANNEL.FAILED")
        assert aqueduct("telehash", "send", listener.url, "_b", stdin=b"x").returncode == 0
        assert [row["channelType"] for row in listener.rows()] == ["_b", "_b", "_b"]


def test_it_stops_after_as_many_as_were_asked_for(certificates: Path) -> None:
    with taking(certificates, "telehash", "-c", "2", "-q", "--delimiter", r"\0") as listener:
        done = aqueduct(
            *("telehash", "send", listener.url, "_t", *trust(certificates)), stdin=b"1\n2\n3\n4\n"
        )
        assert "by an error: no more is taken" in one_error(done, "AQUEDUCT_CHANNEL.FAILED")
        assert listener.end() == (0, b"1\0002\0")


def test_a_signal_ends_it(certificates: Path) -> None:
    with taking(certificates, "udp") as listener:
        listener.process.send_signal(signal.SIGTERM)
        assert listener.end() == (143, b"")


def test_a_listener_without_certificate_is_refused() -> None:
    done = aqueduct("telehash", "listen", "telehash://127.0.0.1:0")
    assert "a listener needs a certificate" in one_error(done, "AQUEDUCT_INVALID_OPTION.MISSING")


def test_plain_udp_is_for_this_machine_or_a_network_that_is_trusted(certificates: Path) -> None:
    done = aqueduct("telehash", "listen", "udp://0.0.0.0:0")
    error = one_error(done, "AQUEDUCT_INVALID_OPTION.BAD_VALUE")
    assert "not a loopback address" in error
    assert "--udp-trusted" in error
    with taking(certificates, "udp", "--udp-trusted", host="0.0.0.0") as listener:
        warning = listener.line("warning: (.*)")
        assert "neither encrypted nor authenticated" in warning


def test_json_rows_have_one_form(certificates: Path) -> None:
    with taking(certificates, "udp", "-J", "--reply", "welcome", "-e") as listener:
        done = aqueduct("telehash", "send", listener.url, "_ask", "--answers", stdin=b"hello")
        assert (done.returncode, done.stdout) == (0, b"welcome\n"), done.stderr
        packet, end = listener.rows()
    assert {*packet} == {"type", "peer", "channel", "channelType", "seq", "js", "value", "end"}
    assert {*end} == {
        *("type", "peer", "channel", "channelType", "packets", "dropped", "seconds", "error")
    }

"""``aqueduct send`` to ``aqueduct listen``, as processes over UDP."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.core.cli.running import (
    AQUEDUCT,
    TIMEOUT,
    aqueduct,
    events,
    listening,
    messages,
    totals,
)

reliabilities = pytest.mark.parametrize("reliability", ["ordered", "unordered", "unreliable"])


@reliabilities
def test_lines_arrive_as_json(certificates: Path, reliability: str) -> None:
    """Empty lines and bytes that are no UTF-8 too; the last line needs no newline."""
    with listening(certificates, "-J", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem",
            "--reliability", reliability, "-H", "k=v=w", "-H", "k=2",
            stdin=b"one\n\ntwo \xff\r\nthree",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        counts = totals(done)
        assert (counts["sent"], counts["acked"], counts["nacked"]) == (4, 4, 0)
        assert counts["bytes"] == 3 + 0 + 6 + 5
        rows = listener.rows()
    got = {row["num"]: row for row in messages(rows)}
    assert [got[i]["value"] for i in range(4)] == [
        "one",
        "",
        {"base64": base64.b64encode(b"two \xff\r").decode()},
        "three",
    ]
    first = got[0]
    assert set(first) == {
        "type", "connection", "channel", "name", "producer", "num", "reliable", "headers",
        "attachments", "value", "timestamp",
    }  # fmt: skip
    assert first["headers"] == [["k", "v=w"], ["k", "2"]]
    assert first["attachments"] == []
    assert first["reliable"] is (reliability != "unreliable")
    assert first["timestamp"].endswith("Z")
    assert events(rows)[0] == "connected"
    assert "finished" in events(rows)


@reliabilities
def test_a_named_channel_hangs_on_an_entrypoint_message(
    certificates: Path, reliability: str
) -> None:
    with listening(certificates, "-J", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--channel", "größe",
            "--reliability", reliability, stdin=b"1\n2\n",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows = listener.rows()
    carrier, *rest = sorted(messages(rows), key=lambda row: (row["channel"], row["num"]))
    assert (carrier["channel"], carrier["attachments"], carrier["name"]) == (0, [8], None)
    assert [(row["channel"], row["name"], row["value"]) for row in rest] == [
        (8, "größe", "1"),
        (8, "größe", "2"),
    ]
    finished = [row for row in rows if row.get("kind") == "finished" and row["channel"] == 8]
    counts = finished[0]["counts"]
    assert counts["reliableReceived"] + counts["acked"] >= 2


def test_a_hundred_thousand_lines_in_order(certificates: Path) -> None:
    lines = b"".join(b"line %d\n" % i for i in range(100_000))
    with listening(certificates, "-f", "%s\\n", "-e") as listener:
        done = aqueduct("send", listener.url, "--ca", certificates / "ca.pem", stdin=lines)
        assert done.returncode == 0, done.stderr
        assert totals(done)["acked"] == 100_000
        code, out = listener.end()
    assert code == 0
    assert out == lines


def test_a_producer_sends_on_a_channel_that_can_resume(certificates: Path) -> None:
    with listening(certificates, "-J", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--producer", "p-1",
            stdin=b"a\nb\n",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(b"warning: the server does not tell where channels stand")
        assert totals(done)["acked"] == 2
        rows = listener.rows()
    got = [row for row in messages(rows) if row["name"] == "lines"]
    assert [(row["producer"], row["value"]) for row in got] == [("p-1", "a"), ("p-1", "b")]


def test_whole_files_of_ten_megabytes_and_of_nothing(certificates: Path, tmp_path: Path) -> None:
    large, empty = tmp_path / "large", tmp_path / "empty"
    content = bytes(range(256)) * 40_000
    large.write_bytes(content)
    empty.write_bytes(b"")
    with listening(certificates, "-f", "%S:%s|", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--whole-file", large, empty
        )
        assert done.returncode == 0, done.stderr
        counts = totals(done)
        assert (counts["sent"], counts["acked"], counts["bytes"]) == (2, 2, len(content))
        code, out = listener.end()
    assert code == 0
    assert out == b"%d:" % len(content) + content + b"|0:|"


def test_large_payloads_go_by_stream_in_unreliable_mode(certificates: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100_000))
    with listening(certificates, "-f", "%r %S", "-c", "1") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--whole-file",
            "--reliability", "unreliable", file,
        )  # fmt: skip
        assert totals(done)["acked"] == 1
        assert listener.end() == (0, b"reliable 100000")


def test_other_delimiters_and_several_files(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1;;2;;")
    (tmp_path / "b").write_bytes(b"3;4")
    with listening(certificates, "-f", r"[%s]", "-e") as listener:
        done = aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--delimiter", ";;",
            tmp_path / "a", tmp_path / "b",
        )  # fmt: skip
        assert totals(done)["sent"] == 3
        assert listener.end() == (0, b"[1][2][3;4]")


def test_no_input_is_no_message(certificates: Path) -> None:
    with listening(certificates, "-J", "-e") as listener:
        done = aqueduct("send", listener.url, "--ca", certificates / "ca.pem")
        assert done.returncode == 0
        assert totals(done)["sent"] == 0
        assert messages(listener.rows()) == []


def test_every_token_of_a_format(certificates: Path) -> None:
    format = r"%c %n %N %p %r %i %k %S %% %T\t%s\0"
    with listening(certificates, "-f", format, "-c", "2") as listener:
        aqueduct(
            "send", listener.url, "--ca", certificates / "ca.pem", "--channel", "c",
            "--producer", "p", "-H", "a=1", "-H", "b=2", stdin=b"x",
        )  # fmt: skip
        code, out = listener.end()
    assert code == 0
    carrier, message, _ = out.split(b"\0")
    head, value = message.split(b"\t")
    *fields, stamp = head.split(b" ")
    assert fields == [b"8", b"0", b"c", b"p", b"reliable", b"1", b"a=1,b=2", b"1", b"%"]
    assert abs(int(stamp) / 1000 - time.time()) < 60
    assert value == b"x"
    assert carrier.startswith(b"0 0  p reliable 1  0 % ")


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


def test_a_slow_standard_input_is_sent_as_it_comes(certificates: Path) -> None:
    with listening(certificates, "-f", r"%s\n", "-c", "2") as listener:
        command = [*AQUEDUCT, "send", listener.url, "--ca", str(certificates / "ca.pem")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sending:
            assert sending.stdin is not None
            sending.stdin.write(b"first\n")
            sending.stdin.flush()
            listener.line(r"# (connected).*")
            sending.stdin.write(b"second\n")
            sending.stdin.flush()
            assert listener.end() == (0, b"first\nsecond\n")
            sending.stdin.close()
            sending.wait(TIMEOUT)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_end_quietly(certificates: Path, name: str, code: int) -> None:
    with listening(certificates, "-J") as listener:
        listener.process.send_signal(getattr(signal, name))
        assert listener.end()[0] == code
        assert [line for line in listener.errors if "listening" not in line] == []


def test_a_sender_that_waits_for_input_ends_quietly_too(certificates: Path) -> None:
    with listening(certificates) as listener:
        command = [*AQUEDUCT, "send", listener.url, "--ca", str(certificates / "ca.pem")]
        with subprocess.Popen(
            [*command, "--channel", "c"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as sending:
            listener.line(r"# (opened).*")
            sending.send_signal(signal.SIGINT)
            out, errors = sending.communicate(timeout=TIMEOUT)
            assert sending.returncode == 130
            assert out.startswith(b"sent=0 acked=0")
            assert errors == b""


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


def test_a_terminal_shows_progress(certificates: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"x\n" * 8_000)
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with listening(certificates, "-f", "", "-e") as listener:
        command = [*AQUEDUCT, "send", listener.url, "--ca", str(certificates / "ca.pem")]
        with subprocess.Popen(
            [*command, "--reliability", "unordered", str(tmp_path / "lines")],
            stdout=subprocess.PIPE,
            stderr=end,
        ) as sending:
            os.close(end)
            shown = bytearray()
            with contextlib.suppress(OSError):  # the terminal is gone with its last user
                while piece := os.read(terminal, 4096):
                    shown += piece
            os.close(terminal)
            out, _ = sending.communicate(timeout=TIMEOUT)
        assert sending.returncode == 0
        assert out.startswith(b"sent=8000 acked=8000")
        assert b"acked:" in shown
        assert b"messages/s" in shown

"""``aqueduct send`` to ``aqueduct listen``, as processes over UDP."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.core.cli.running import (
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


def test_quiet_it_counts_nothing_where_all_was_acked_and_still_tells_errors(
    certificates: Path,
) -> None:
    trust = ("--ca", certificates / "ca.pem")
    with listening(certificates, "-J", "-c", "3") as listener:
        done = aqueduct("send", listener.url, *trust, "-q", stdin=b"one\ntwo\nthree\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    gone = aqueduct("send", listener.url, *trust, "-q", stdin=b"one\n")
    assert gone.returncode == 1
    assert b"AQUEDUCT_CONNECT" in gone.stderr

"""What a peer may send to one intake goes through our sink into the next one as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import Connection
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import ReceiverClosed
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.conventions.headers import (
    BATCH,
    CHECKSUMS,
    MAX_SEQUENCE,
    NAME,
    PARTITION,
    POSITION_OF,
    ROW,
    SEQUENCE_START,
    SOURCE,
    SOURCE_OFFSET,
)
from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders
from aqueduct_core.intake.aqueduct.rows import HEADERS
from tests.spark.producing import INSECURE
from tests.spark.write.sinking import Attempt, options, patiently
from tests.support.intake_process import IntakeProcess, Site

LIMIT = 64_000
"""Bytes of header data that an intake takes, unless told otherwise."""

OURS = (BATCH, CHECKSUMS, NAME, PARTITION, POSITION_OF, ROW, SEQUENCE_START, SOURCE, SOURCE_OFFSET)

KINDS: dict[str, Headers] = {
    "empty": ((b"", b""), (b"", b"v")),
    "not ASCII": (("é".encode(), b"1"), ("\0\u202e😀".encode(), b"2")),
    "no UTF-8": ((b"\xff", b"1"), (b"\xed\xa0\x80", b"2"), (b"a\xc3", b"3"), (b"\x80\\", b"4")),
    "as if escaped": ((b"\\xff", b"1"), (b"\\xc3\\xa9", b"2"), (b"\xff\\xc3\\xa9\\", b"3")),
    "our own": tuple((key, b"7") for key in OURS),
    "our own, repeated": tuple((key, b"\xff") for key in (*OURS, *OURS)),
    "long": ((b"k", b"v" * (LIMIT - 5)),),
    "long key": ((b"k" * (LIMIT - 4), b""),),
    "long key, no UTF-8": ((b"\xff" * (LIMIT - 4), b""),),
    "long key, mixed": ((b"\\xc3\\xa9" + b"\xff" * (LIMIT - 12), b""),),
    "many": ((b"k", b"v" * 240),) * 256,
}

ODD_NAMES = ("0", "é" * 128, "\u202e\n\t/../", "\\xff", "spark", " ", "_aqueduct", "%2F{name}")


async def named(connection: Connection, mode: str = "ordered", **given: Any) -> Sender:
    sender, receiver = channel(mode, **given)
    await connection.entrypoint.send(b"", attach=receiver)
    return sender


def frame(rows: list[dict[str, Any]], *, by_source: bool = False) -> pa.RecordBatch:
    """As a query would select it."""
    columns = {
        "value": pa.array([row["value"] for row in rows], pa.binary()),
        "channel": pa.array([row["channel"] for row in rows], pa.string()),
        "headers": pa.array([row["headers"] for row in rows], HEADERS),
        "reliability": ["ordered" if row["reliable"] else "unreliable" for row in rows],
    }
    if by_source:
        columns |= {
            "spool": ["a-spool"] * len(rows),
            "partition": pa.array([row["partition"] for row in rows], pa.int32()),
            "offset": pa.array([row["offset"] for row in rows], pa.int64()),
        }
    return pa.record_batch(columns)


def seen(intake: IntakeProcess, *, but: str = "0") -> list[tuple[Any, ...]]:
    """What a row says, without the one that only attaches channels."""
    return sorted(
        (row["channel"], row["value"], str(row["headers"]), row["reliable"])
        for row in intake.rows(metadata=True)
        if row["channel"] != but or row["headers"]
    )


def site(directory: Path) -> Site:
    directory.mkdir()
    return Site(directory)


@pytest.mark.parametrize("idempotence", ["auto", "source"])
@patiently
async def test_headers_of_any_kind(tmp_path: Path, idempotence: str) -> None:
    with site(tmp_path / "a").intake() as first, site(tmp_path / "b").intake() as second:
        async with connect(first.url, tls=INSECURE) as connection:
            for name, headers in KINDS.items():
                sender = await named(connection, name=name)
                await sender.send(name.encode(), headers=ReceivedHeaders(headers))
                await sender.finish()
        rows = [row for row in first.rows(metadata=True) if row["channel"] != "0"]
        assert len(rows) == len(KINDS)
        by_source = idempotence == "source"
        given = {"idempotence": "source"} if by_source else {}
        counts = await Attempt(options(second.url, **given)).run([frame(rows, by_source=by_source)])
        assert counts.acked == len(KINDS)
        assert seen(second) == seen(first)


@patiently
async def test_channels_and_payloads_of_any_kind(tmp_path: Path) -> None:
    with site(tmp_path / "a").intake() as first, site(tmp_path / "b").intake() as second:
        async with connect(first.url, tls=INSECURE, producer="p") as connection:
            for name in ODD_NAMES:
                start = [("sequence-start", b"%d" % (MAX_SEQUENCE - 9))]
                sender = await named(connection, name=name, headers=start)
                await sender.send_many([b"", b"\0\xff", name.encode()])
                await sender.finish()
            big = await named(connection, name="big")
            await big.send_many([bytes(16_000_000)])
            await big.finish()
            lossy = await named(connection, "unreliable", name="lossy")
            await lossy.send_many([b"", bytes(1_000), bytes(100_000)])
            await lossy.finish()
            halves = [await named(connection)]
            for _ in range(200):  # a tree too deep for its whole path to be a name
                sender, receiver = channel()
                await halves[-1].send(b"deep", attach=receiver)
                halves.append(sender)
            await halves[-1].send(b"deep")
            await halves[-1].flush()
        rows = [row for row in first.rows(metadata=True) if row["value"] or row["channel"] != "0"]
        assert max(len(row["channel"].encode()) for row in rows) == 256
        counts = await Attempt(options(second.url)).run([frame(rows)])
        assert counts.sent == len(rows)
        # what is sent as unreliable may be lost
        assert [row for row in seen(second) if row[3]] == [row for row in seen(first) if row[3]]


@pytest.mark.parametrize("headers", [((b"k", b"v" * (LIMIT - 4)),), ((b"k", b"v"),) * 257])
@patiently
async def test_what_is_too_much_is_refused_by_the_first(tmp_path: Path, headers: Headers) -> None:
    with site(tmp_path / "a").intake() as first:
        generous = Config(max_headers_bytes=LIMIT + 30, max_header_pairs=300)
        async with connect(first.url, tls=INSECURE, config=generous) as connection:
            sender = await named(connection, name="c")
            await sender.send(b"", headers=headers)
            with pytest.raises(ReceiverClosed):
                await sender.finish()
        assert not [row for row in first.rows() if row["channel"] == "c"]

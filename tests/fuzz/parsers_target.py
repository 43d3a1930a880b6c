"""Target: what else the project reads that somebody else wrote.

Header conventions, Flight tickets and error details, offsets in a checkpoint, and the segment
files of a spool after a crash.

Invariant: a value, or the one exception that the parser's contract names; what is a value writes
and reads back as itself. A segment with changed bytes gives the records that are unchanged and
names every other stretch as damage; it never gives a changed record and never fails.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from aqueduct_core.aqueduct.conventions import headers, positions
from aqueduct_core.aqueduct.conventions.headers import BadHeader
from aqueduct_core.errors import AqueductError, CheckpointVersion
from aqueduct_core.flight import error_codec
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.spool.format.record import Codec, Damaged, verify
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.format.segment import Index
from aqueduct_spark.model.offsets import StreamOffset
from tests.fuzz.byte_source import ByteSource

_KEYS = (
    headers.AUTHORIZATION, headers.PRODUCER, headers.SEQUENCE_START,
    headers.NAME, headers.RECEIPTS, b"", b"other", headers.RUN, headers.RUN_START,
    headers.STOOD_AT, headers.POSITION_OF,
)  # fmt: skip
_PREFIXES = (b"", b"Bearer ", b"12", b"4611686018427387903", b"\xff")
SEGMENT = 7
STAMP = "0123456789abcdef"


def _headers(source: ByteSource) -> None:
    pairs = tuple(
        (source.choice(_KEYS), source.choice(_PREFIXES) + source.take(source.below(80)))
        for _ in range(source.below(5))
    )
    try:
        claims = headers.read_connection(pairs)
    except BadHeader:
        pass
    else:
        number = claims.sequence_start
        assert number is None or 0 <= number < headers.MAX_SEQUENCE
        made = headers.connection_headers(
            producer=claims.producer, sequence_start=number, run=claims.run
        )
        assert headers.read_connection(made) == replace(claims, token=None)
    try:
        channel = headers.read_channel(pairs)
    except BadHeader:
        pass
    else:
        made = headers.channel_headers(
            name=channel.name,
            sequence_start=channel.sequence_start,
            run_start=channel.run_start,
        )
        assert headers.read_channel(made) == channel
    try:
        name = headers.read_position_of(pairs)
    except BadHeader:
        pass
    else:
        assert name is None or headers.read_position_of((headers.position_of(name),)) == name
    shown = headers.without_secrets(pairs)
    assert all(key != headers.AUTHORIZATION for key, _ in shown)


def _position(source: ByteSource) -> None:
    try:
        position = positions.from_payload(source.rest())
    except positions.BadPosition:
        return
    kept = position._replace(stored=position.stored[-positions.MAX_RANGES :])
    assert positions.from_payload(positions.to_payload(position)) == kept


def _ticket(source: ByteSource) -> None:
    try:
        ticket = Ticket.from_bytes(source.rest())
    except ValueError:
        return
    assert Ticket.from_bytes(ticket.to_bytes()) == ticket


def _error(source: ByteSource) -> None:
    error = error_codec.unpack(source.rest())
    assert error is None or isinstance(error, AqueductError)
    if error is not None:
        assert str(error_codec.unpack(error_codec.pack(error))) == str(error)


def _offset(source: ByteSource) -> None:
    try:
        raw = json.loads(source.rest())
    except ValueError:
        return
    try:
        offset = StreamOffset.from_json(raw, "aqueduct")
    except CheckpointVersion:
        return
    text = json.dumps(offset.to_json())
    assert StreamOffset.from_json(json.loads(text), "aqueduct") == offset


def _index(source: ByteSource) -> None:
    partitions = 1 + source.below(3)
    firsts = Index(partitions).pack()
    data = source.rest()
    assert Index.unpack(firsts, partitions) is not None
    index = Index.unpack(data, partitions)
    if index is not None:
        assert index.pack() == data


def _record(source: ByteSource) -> None:
    data = source.rest()
    try:
        record = verify(memoryview(data), 0, SEGMENT)
    except Damaged:
        return
    assert 0 < record.end <= len(data)


@cache
def segment() -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """A segment file of a head and three groups, and where its records lie."""
    schema = pa.schema([("value", pa.binary())])
    codec = Codec(schema)
    state = {"id": "x", "epoch": 1, "partitions": 1, "ends": [0], "cursors": {}, "marks": {}}
    data = codec.preamble
    places = []
    builders = [
        codec.head(
            segment=SEGMENT,
            stamp=STAMP,
            group=0,
            durable=0,
            previous=(SEGMENT - 1, STAMP[::-1]),
            state=state,
        )
    ]
    for group in (1, 2, 3, None):
        metadata, body = builders.pop().pieces(last=True)
        places.append((len(data), len(data) + len(metadata) + len(body)))
        data += metadata + bytes(body)
        if group is not None:
            batch = pa.record_batch([pa.array([b"row" * group], pa.binary())], schema)
            builders.append(
                codec.rows(
                    batch,
                    segment=SEGMENT,
                    stamp=STAMP,
                    at=len(data),
                    group=group,
                    durable=group - 1,
                    part=0,
                    partition=0,
                    first=group - 1,
                    marks=(),
                )
            )
    return data, tuple(places)


@cache
def _file() -> Path:
    handle = tempfile.NamedTemporaryFile(prefix="fuzz-segment-", delete=False)  # noqa: SIM115
    handle.close()
    return Path(handle.name)


def _segment(source: ByteSource) -> None:
    data, places = segment()
    changed = bytearray(data)
    for _ in range(source.below(6)):
        at, kind = source.below(len(data)), source.byte()
        if kind < 128 and at < len(changed):
            changed[at] ^= 1 << kind % 8
        elif kind < 160:
            del changed[at:]
        elif kind < 200:
            changed[at:at] = source.block()
        elif kind < 230:
            changed += data[at : at + 8 * source.byte()]
        else:
            changed[at : at + source.byte()] = b""
    path = _file()
    path.write_bytes(changed)
    found = scan(path, SEGMENT)
    whole = {place for place in places if changed[slice(*place)] == data[slice(*place)]}
    assert {(record.at, record.end) for record in found.records} == whole
    stretches = sorted([*((record.at, record.end) for record in found.records), *found.damage])
    covered = 0
    for start, stop in stretches:
        assert 0 <= start <= stop <= len(changed)
        if start > covered:
            # only the schema message in front of an unchanged head is neither
            assert covered == 0
            assert start == places[0][0]
        covered = max(covered, stop)
    assert covered == len(changed)


PARSERS: tuple[Callable[[ByteSource], None], ...] = (
    _headers, _ticket, _error, _offset, _index, _record, _segment, _position,
)  # fmt: skip


def run(data: bytes) -> None:
    """The first byte names the parser; the others are its input."""
    source = ByteSource(data)
    PARSERS[source.byte() % len(PARSERS)](source)

"""One object of the log: a group of rows, or the fence with which an owner begins. An Arrow IPC
stream, which pyarrow alone can read; its records are those of a segment file (`record`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from aqueduct_core.spool.format.record import Codec, Damaged, Record, RecordBatchDraft, verify
from aqueduct_core.spool.format.settings import ContentSum, SequenceMark

_PREFIX = struct.Struct("<Ii")


@dataclass(frozen=True, slots=True)
class LogFence:
    """An owner of an ``epoch`` writes from ``resume`` on, with up to ``window`` groups in flight.

    Whoever wrote before cannot create the object in whose place this is, so it reports nothing
    from there on: what it still stores below ``resume`` is void.
    """

    epoch: int
    window: int
    resume: int


@dataclass(frozen=True, slots=True)
class LogObject:
    """The object of a sequence number, verified: the records of a group, or a fence. ``life`` is
    that of its owner, ``size`` in bytes."""

    sequence: int
    life: str
    size: int
    records: tuple[Record, ...] = ()
    fence: LogFence | None = None


@dataclass(slots=True)
class GroupDraft:
    """A group that rows are put into, until `data` makes an object of it. Used by one thread."""

    codec: Codec
    sequence: int
    life: str
    durable: int
    size: int = 0
    _drafts: list[RecordBatchDraft] = field(default_factory=list)
    _records: list[Record] = field(default_factory=list)

    def add(
        self,
        partition: int,
        batch: pa.RecordBatch,
        first: int,
        marks: Sequence[SequenceMark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> None:
        at = self.size or len(self.codec.preamble)
        part = len(self._drafts)
        draft = self.codec.rows(
            batch,
            segment=self.sequence,
            stamp=self.life,
            at=at,
            group=self.sequence,
            durable=self.durable,
            part=part,
            partition=partition,
            first=first,
            marks=marks,
            sums=sums,
        )
        self._drafts.append(draft)
        self.size = at + draft.size
        stop = first + batch.num_rows
        self._records.append(
            Record(
                *(at, self.size, self.sequence, self.durable, False, part, partition, first, stop),
                stamp=self.life,
            )
        )

    def finished(self) -> LogObject:
        """What `read_log_object` will make of `data`, but for marks and sums."""
        return LogObject(self.sequence, self.life, self.size, tuple(self._records))

    def data(self) -> bytes:
        last = len(self._drafts) - 1
        pieces = (piece for i, each in enumerate(self._drafts) for piece in each.pieces(i == last))
        return b"".join((self.codec.preamble, *pieces))


def fence_data(codec: Codec, sequence: int, life: str, fence: LogFence) -> bytes:
    """The object of a fence."""
    head = codec.head(
        segment=sequence,
        stamp=life,
        group=sequence,
        durable=sequence - 1,
        previous=(0, ""),
        state={"epoch": fence.epoch, "window": fence.window, "resume": fence.resume},
    )
    return b"".join((codec.preamble, *head.pieces(last=True)))


def read_log_object(data: bytes, sequence: int) -> LogObject:
    """
    Raises:
        Damaged: it is not whole and unchanged, or was written under another number.
    """
    records = tuple(records_in(data, sequence))
    if not records or not records[-1].last:
        raise Damaged("the last record of the group is missing")
    life, state = records[0].stamp, records[0].state
    if state is None:
        return LogObject(sequence, life, len(data), records)
    fence = LogFence(state["epoch"], state["window"], state["resume"])
    return LogObject(sequence, life, len(data), fence=fence)


def records_in(data: bytes, number: int) -> Iterator[Record]:
    """The records of a whole object, which must follow each other to its end.

    Raises:
        Damaged: one of them is not whole and unchanged.
    """
    if len(data) < _PREFIX.size:
        raise Damaged(f"{len(data)} bytes are too few for an object")
    view = memoryview(data)
    at = _PREFIX.size + _PREFIX.unpack_from(data)[1]
    if at < _PREFIX.size:
        raise Damaged("no schema is at the beginning of the object")
    while at < len(data):
        record = verify(view, at, number)
        yield record
        at = record.end

"""Who a row is, the same in every attempt to send it: (writer, batch, partition, row), or (writer,
spool, partition of the spool, offset) where it says where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_ROWS, batch_floor, first_number
from aqueduct_core.aqueduct.conventions.headers import (
    BATCH,
    PARTITION,
    ROW,
    SEQUENCE_START,
    SOURCE,
    SOURCE_OFFSET,
    decimal,
)
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.ranges import stretches
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.sink import WriteIdentity

SPARSE = 16
"""Where fewer than one message in so many has headers, the others go apart from them: plain ones in
a row cost least."""


@dataclass(frozen=True, slots=True)
class RowIdentity(WriteIdentity):
    """The same, as channels and messages of Aqueduct say it.

    The writer is named for the connection, so that connections serve any partition of it. A
    reliable channel names partition, batch and the number of its first row; numbers go on from
    there, so a receiver that counts knows every row without a byte more.

    A channel with a source of its own names that instead, and its messages their offsets there:
    the same ones in whatever task, batch and order they come.
    """

    @classmethod
    def of(cls, identity: WriteIdentity) -> RowIdentity:
        return cls(
            identity.writer,
            identity.batch,
            identity.partition,
            identity.numbered,
            identity.rising,
        )

    def channel_headers(self, destination: Destination, row: int) -> Headers:
        """Headers of a channel whose first message is row ``row`` of its destination.

        Raises:
            SinkFailed: MESSAGE_TOO_LARGE when the rows of this channel have no numbers left.
        """
        if destination.source:
            return ((SOURCE, destination.source.encode()),)
        reliability = destination.reliability
        headers: list[tuple[bytes, bytes]] = [(PARTITION, decimal(self.partition))]
        if self.numbered and reliability != "unreliable":
            if row >= MAX_ROWS:
                raise SinkFailed(
                    "MESSAGE_TOO_LARGE",
                    f"Partition {self.partition} has over {MAX_ROWS} rows for one channel",
                    "Repartition the frame, or write it in several batches",
                )
            start = self.number(reliability, row)
            headers += [(SEQUENCE_START, decimal(start)), (BATCH, decimal(self.batch))]
        return tuple(headers)

    def messages(
        self, batch: RowBatch, keyed: bool
    ) -> Iterator[tuple[HeaderColumn | None, list[bytes]]]:
        """The payloads of a batch in order, with the headers of those that have any. ``keyed``:
        every message says who it is, for a receiver that looks at messages only.
        """
        payloads, column = batch.payloads, self.headers(batch, keyed)
        saying = [] if column is None else list(column.indexes())
        if column is None or len(saying) * SPARSE > len(payloads):
            yield column, payloads
            return
        done = 0
        for low, high in stretches(np.array(saying)) if saying else ():
            first, stop = saying[low], saying[high - 1] + 1
            if done < first:
                yield None, payloads[done:first]
            yield column.part(first, stop), payloads[first:stop]
            done = stop
        if done < len(payloads):
            yield None, payloads[done:]

    def headers(self, batch: RowBatch, keyed: bool) -> HeaderColumn | None:
        """What messages say of themselves, and behind it the headers of the rows; None where there
        are none."""
        keys = self._keys(batch, keyed)
        if keys is None or batch.headers is None:
            return batch.headers if keys is None else keys
        return keys.plus(batch.headers)

    def _keys(self, batch: RowBatch, keyed: bool) -> HeaderColumn | None:
        numbers = batch.numbers
        if numbers is None:
            if not keyed:
                return None
            before = ((BATCH, decimal(self.batch)),)
            return HeaderColumn.rising(before, ROW, [b"%d" % row for row in batch.rows])
        # On an ordered channel a message without a number has the next one. But a header of the row
        # with this key would be taken for ours, were there none before it.
        own = batch.headers is not None and SOURCE_OFFSET in batch.headers.keys
        said = [b"%d" % number for number in numbers.tolist()]
        if keyed or own or batch.destination.reliability != "ordered":
            return HeaderColumn.rising((), SOURCE_OFFSET, said)
        pairs: list[Headers] = [()] * len(said)
        for low, _ in stretches(numbers):
            pairs[low] = ((SOURCE_OFFSET, said[low]),)
        return HeaderColumn.of(pairs)

    def number(self, reliability: str, row: int) -> int:
        """The logical number of row ``row`` of a channel name that is sent in a reliable way."""
        return first_number(self.batch, unordered=reliability == "unordered") + row

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers ``[first, stop)`` of all rows of the batch, in either way."""
        return batch_floor(self.batch), batch_floor(self.batch + 1)

"""Who a row is, the same in every attempt to send it: (writer, batch, partition, row), or (writer,
spool, partition of the spool, offset) where it says where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.ranges import stretches
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.sink import WriteIdentity


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

    def messages(self, batch: RowBatch, keyed: bool) -> Iterator[tuple[Headers, list[bytes]]]:
        """The payloads of a batch in order, each with its headers; those that have none come as
        one. ``keyed``: every message says who it is, for a receiver that looks at messages only.
        """
        payloads, done = batch.payloads, 0
        keys = self.keys(batch, keyed)
        indexes = sorted(keys) if batch.headers is None else range(len(payloads))
        for index in indexes:
            own = batch.headers[index] if batch.headers is not None else ()
            headers = ReceivedHeaders((*keys.get(index, ()), *own))
            if headers:
                if done < index:
                    yield (), payloads[done:index]
                yield headers, payloads[index : index + 1]
                done = index + 1
        if done < len(payloads):
            yield (), payloads[done:]

    def keys(self, batch: RowBatch, keyed: bool) -> dict[int, Headers]:
        """What messages say of themselves, by their place in the row batch."""
        numbers = batch.numbers
        if numbers is None:
            if not keyed:
                return {}
            key = (BATCH, decimal(self.batch))
            return {i: (key, (ROW, decimal(row))) for i, row in enumerate(batch.rows)}
        # On an ordered channel a message without a number has the next one.
        every = keyed or batch.destination.reliability != "ordered"
        saying = range(len(numbers)) if every else [low for low, _ in stretches(numbers)]
        if batch.headers is not None and not every:
            # A header of the row with this key would be taken for ours, were there none before it.
            own = enumerate(batch.headers)
            saying = [
                *saying,
                *(i for i, pairs in own if any(k == SOURCE_OFFSET for k, _ in pairs)),
            ]
        return {i: ((SOURCE_OFFSET, decimal(int(numbers[i]))),) for i in saying}

    def number(self, reliability: str, row: int) -> int:
        """The logical number of row ``row`` of a channel name that is sent in a reliable way."""
        return first_number(self.batch, unordered=reliability == "unordered") + row

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers ``[first, stop)`` of all rows of the batch, in either way."""
        return batch_floor(self.batch), batch_floor(self.batch + 1)

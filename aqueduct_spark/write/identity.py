"""Who a row is, the same in every attempt to send it: (writer, batch, partition, row)."""

from __future__ import annotations

from dataclasses import dataclass

from aqueduct_core.aqueduct.conventions import BATCH, PARTITION, ROW, SEQUENCE_START, decimal
from aqueduct_core.aqueduct.news import Headers
from aqueduct_core.dedupe.numbering import MAX_ROWS, batch_floor, first_number
from aqueduct_core.errors import SinkFailed


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """What a task attempt says of its rows.

    The writer is told for the connection, so that connections serve any partition of it. A
    reliable channel tells partition, batch and the number of its first row; numbers go on from
    there, so a receiver that counts knows every row without a byte more. ``numbered`` False: the
    rows of two attempts are not the same ones, and nothing is said that would make them so.
    """

    writer: str
    batch: int
    partition: int
    numbered: bool = True

    def channel_headers(self, reliability: str, row: int) -> Headers:
        """Headers of a channel whose first message is row ``row`` of its channel name.

        Raises:
            SinkFailed: MESSAGE_TOO_LARGE when the rows of this channel have no numbers left.
        """
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

    def number(self, reliability: str, row: int) -> int:
        """The logical number of row ``row`` of a channel name that is sent in a reliable way."""
        return first_number(self.batch, unordered=reliability == "unordered") + row

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers ``[first, stop)`` of all rows of the batch, in either way."""
        return batch_floor(self.batch), batch_floor(self.batch + 1)

    def row_headers(self, row: int) -> Headers:
        """Headers of row ``row`` of the task, for a receiver that looks at messages only."""
        return (BATCH, decimal(self.batch)), (ROW, decimal(row))

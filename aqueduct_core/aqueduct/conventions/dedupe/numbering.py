"""The logical numbers of a writer's rows: a space of its own for each batch, rising with it.

A writer sends batch after batch, and a batch only when the one before it is done. Row ``n`` of a
channel in batch ``b`` has the number ``first_number(b, …) + n`` wherever and however often it is
sent. Since numbers rise with the batches, all that a receiver has to remember of a channel is one
range, however many batches there were: what is below the space of the present batch is done.
"""

from __future__ import annotations

ROW_BITS = 31
MODE_BITS = 1
BATCH_BITS = 62 - MODE_BITS - ROW_BITS

MAX_ROWS = 1 << ROW_BITS
"""Rows of one channel and mode that one partition of one batch may have."""

MAX_BATCH = (1 << BATCH_BITS) - 1
"""The last batch of a writer: with ten a second it comes after three years."""


def first_number(batch: int, *, unordered: bool = False) -> int:
    """The number of row 0. Ordered and unordered rows of one name are two sequences.

    Raises: ValueError for a batch outside of 0 to ``MAX_BATCH``.
    """
    return batch_floor(batch) + (int(unordered) << ROW_BITS)


def batch_floor(batch: int) -> int:
    """Below it are the numbers of earlier batches. Raises: ValueError as `first_number`."""
    if not 0 <= batch <= MAX_BATCH:
        raise ValueError(f"batch {batch} is not in 0 … {MAX_BATCH}")
    return batch << (MODE_BITS + ROW_BITS)


def in_batch(number: int, batch: int) -> bool:
    """Whether a number belongs to a batch."""
    return 0 <= batch <= MAX_BATCH and number >> (MODE_BITS + ROW_BITS) == batch


def space(number: int) -> tuple[int, int]:
    """The numbers ``[first, stop)`` of the rows of one batch and mode, one of which this is."""
    first = number >> ROW_BITS << ROW_BITS
    return first, first + MAX_ROWS

"""Who sends a channel's messages, and which numbers they have: read from headers, pure.

A sink says ``producer`` (its writer id) for the connection, and for each channel ``name``,
``partition``, ``batch`` and ``sequence-start``. Together with the number of a message these are the
identity of a row: (writer, batch, partition, row), the same in every attempt to send it. Or it says
``source`` for the channel: then a row is known by where it comes from (`source_rows`).
A producer that is no sink leaves ``partition`` and ``batch`` out.
"""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.aqueduct.conventions.dedupe.numbering import batch_floor, in_batch
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import source_of
from aqueduct_core.aqueduct.conventions.headers import (
    BATCH,
    PARTITION,
    BadHeader,
    parse_decimal,
    read_channel,
    read_connection,
    single,
)
from aqueduct_core.engine.message_batch import Headers


class ChannelKey(NamedTuple):
    """The sequence that a channel carries a part of.

    ``start`` is the logical number of its reliable message 0. What is below ``floor`` was dealt
    with in earlier batches.
    """

    producer: str
    channel: str
    start: int
    floor: int = 0


def channel_key(connection: Headers, channel: Headers) -> ChannelKey | None:
    """The key of a channel; None: its messages have no identity, and cannot be told apart.

    Raises: BadHeader.
    """
    who, what = read_connection(connection), read_channel(channel)
    if who.producer is None or what.name is None:
        return None
    if source_of(channel) is not None:
        return ChannelKey(sent_by(who.producer, channel), what.name, 0)
    if what.sequence_start is None:
        return None
    return ChannelKey(
        sent_by(who.producer, channel),
        what.name,
        what.sequence_start,
        floor_of(channel, what.sequence_start) or 0,
    )


def sent_by(producer: str, channel: Headers) -> str:
    """The identity under which a channel's messages are numbered: that of the connection, of one
    partition of its writer, or of what its writer reads one source. Raises: BadHeader."""
    source = source_of(channel)
    if source is not None:
        return f"{producer}/{source}"
    partition = single(channel, PARTITION)
    return producer if partition is None else f"{producer}/{parse_decimal(PARTITION, partition)}"


def floor_of(channel: Headers, start: int) -> int | None:
    """The number below which all was done before this channel's batch; None: it has no batches.

    Raises: BadHeader, also for a ``batch`` that ``start`` does not belong to.
    """
    value = single(channel, BATCH)
    if value is None:
        return None
    batch = parse_decimal(BATCH, value)
    if not in_batch(start, batch):
        raise BadHeader(f"header {BATCH.decode()} does not fit the sequence-start")
    return batch_floor(batch)

"""How much a connection has done, and what a peer makes it hold.

Everything is counted where it comes and goes; here it is put together, and for the footprint
weighed. The weights of objects are measured, and tests hold them to what ``tracemalloc`` says.
"""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.aqueduct.channels import Channels
from aqueduct_core.aqueduct.context import ConnectionContext
from aqueduct_core.aqueduct.handshake import Handshake
from aqueduct_core.aqueduct.ingress import Ingress
from aqueduct_core.engine.engine import Footprint

ENGINE_BYTES = 12 << 10
"""An engine with its tables, that carries nothing."""
CHANNEL_BYTES = 850
"""A channel with one half here, its timers and its streams' places in tables."""
STREAM_BYTES = 600
"""A stream of the peer that is not over: its reader."""
PIECE_BYTES = 512
"""A batch of messages, or a change of stream in one, that the application is not done with."""
RANGE_BYTES = 200
"""A range of numbers with holes beside it, in all the sets that it is in."""
RECORD_BYTES = 180
"""A channel that ended before anybody knew it, or whose carrier's fate is open."""


class Statistics(NamedTuple):
    """Totals of the connection; ``queued_bytes`` were delivered and not consumed, ``waiting``
    messages of ours have no number yet, ``outstanding`` bytes of ours are with the peer's
    receivers (flow control). ``short_of_credit``: a channel of which messages, or an application
    with more of them, wait for credit of the peer's receivers (AQ-FLOW-4); None: there is none."""

    messages_received: int
    messages_sent: int
    queued_bytes: int
    open_channels: int
    datagrams_dropped: int
    overflows: int
    waiting: int
    outstanding: int
    short_of_credit: int | None


def footprint(
    context: ConnectionContext, channels: Channels, ingress: Ingress, handshake: Handshake
) -> Footprint:
    """The memory that a peer makes this side hold, about. ``waiting`` are messages that were
    delivered and that nobody has consumed; those of channels that no message has carried wait for
    the peer."""
    credit = context.credit
    held = credit.total + PIECE_BYTES * credit.pieces
    unclaimed, pieces = channels.unclaimed
    return Footprint(
        ENGINE_BYTES
        + CHANNEL_BYTES * len(channels.halves)
        + STREAM_BYTES * ingress.streams
        + RANGE_BYTES * (context.ranges + channels.ranges)
        + RECORD_BYTES * channels.records
        + handshake.size
        + ingress.unread
        + context.queues.bytes
        + held,
        held - unclaimed - PIECE_BYTES * pieces,
    )

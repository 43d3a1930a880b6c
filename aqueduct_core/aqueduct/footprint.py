"""What a peer makes an engine hold: memory in bytes, about.

Everything is counted where it comes and goes; here it is weighed. The weights of objects are
measured, and tests hold them to what ``tracemalloc`` says.
"""

from __future__ import annotations

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
"""A run of messages, or a change of stream in one, that the application is not done with."""
RANGE_BYTES = 200
"""A range of numbers with holes beside it, in all the sets that it is in."""
RECORD_BYTES = 180
"""A channel that ended before anybody knew it, or whose carrier's fate is open."""


def footprint(
    wiring: ConnectionContext, channels: Channels, inflow: Ingress, handshake: Handshake
) -> Footprint:
    """``waiting`` are messages that were told and that nobody has consumed. Those of channels that
    no message has carried wait for the peer."""
    credit = wiring.credit
    held = credit.total + PIECE_BYTES * credit.pieces
    unclaimed, pieces = channels.unclaimed
    return Footprint(
        ENGINE_BYTES
        + CHANNEL_BYTES * len(channels.halves)
        + STREAM_BYTES * inflow.streams
        + RANGE_BYTES * (wiring.ranges + channels.ranges)
        + RECORD_BYTES * channels.records
        + handshake.size
        + inflow.unread
        + wiring.queues.bytes
        + held,
        held - unclaimed - PIECE_BYTES * pieces,
    )

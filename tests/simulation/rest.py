"""What an engine holds: within bounds after every step, nothing when all is over.

The only tests that look into an engine; every table of state that it has is named here.
"""

from __future__ import annotations

from collections.abc import Iterator

from aqueduct_core.aqueduct.connection import Connection
from aqueduct_core.aqueduct.sender import SenderHalf
from tests.simulation.ledger import hold

_LARGEST_MESSAGE = 30_000
"""One MESSAGE of a simulation, attachments and all; a queue may exceed its limit by one."""


def check_bounds(engine: Connection) -> None:
    """After a step: nothing is over its limit, and no count went below zero."""
    config = engine.config
    channels, inflow, wiring = engine._channels, engine._inflow, engine._wiring
    credit, lineage, claims = wiring.credit, channels.lineage, channels._claims
    hold(len(channels.halves) <= config.max_channels, "too many state machines")
    hold(0 <= inflow._partial <= config.max_partial_bytes, "partial bytes", inflow._partial)
    hold(inflow._held_bytes >= 0, "held bytes", inflow._held_bytes)
    hold(
        0 <= credit.total <= config.max_connection_queue_bytes + _LARGEST_MESSAGE,
        "queued bytes", credit.total,
    )  # fmt: skip
    hold(0 <= claims.bytes <= config.max_unclaimed_bytes, "unclaimed bytes", claims.bytes)
    hold(0 <= lineage.links <= config.max_links, "links", lineage.links)
    hold(
        0 <= lineage.carriers <= config.max_unacked_attachment_messages,
        "carriers", lineage.carriers,
    )  # fmt: skip
    hold(len(channels.forgets._due) <= config.max_pending_forgets, "forgets")
    queues = wiring.queues
    most = config.send_queue_connection_bytes + _LARGEST_MESSAGE
    hold(0 <= queues.bytes <= most, "send queues", queues.bytes)
    hold(wiring.flow.total >= 0, "outstanding", wiring.flow.total)
    hold(len(wiring.timers._heap) <= 2 * len(wiring.timers._due) + 64, "stale timers")


def leftovers(engine: Connection) -> Iterator[str]:
    """What is left when every channel has ended and time has passed; nothing should be."""
    channels, inflow, wiring, outbox = (
        engine._channels, engine._inflow, engine._wiring, engine._outbox,
    )  # fmt: skip
    lineage, claims, forgets = channels.lineage, channels._claims, channels.forgets
    tables = {
        "state machines": channels.halves,
        "lineage records": lineage._nodes,
        "links": lineage.links,
        "carriers": lineage.carriers,
        "routes to send back": channels._route_back,
        "unclaimed machines": claims._waiting,
        "unclaimed records": claims._records,
        "unclaimed bytes": claims.bytes,
        "forgets": forgets._due,
        "lingering streams": forgets._lingering,
        "timers": wiring.timers._due,
        "channels with acks due": wiring.due,
        "streams of the peer": inflow._streams,
        "held sequences": inflow._held,
        "held bytes": inflow._held_bytes,
        "partial bytes": inflow._partial,
        "withheld credit": inflow._withheld,
        "owed credit": wiring.credit._owed,
        "queued bytes": wiring.credit.total,
        "heirs": len(wiring.heirs),
        "idle watches": channels.idle._last,
        "send queues": wiring.queues._queues,
        "starved senders": wiring.queues.starved,
        "queued messages' bytes": wiring.queues.bytes,
        "outstanding bytes": wiring.flow.total,
        "a turn": wiring.flow.turn is not None,
        "streams of ours": outbox._live,
        "unwritten bytes": outbox._pending,
    }
    for name, table in tables.items():
        if table:
            yield f"{name}: {table}"


def check_nothing_left(engine: Connection) -> None:
    left = list(leftovers(engine))
    hold(not left, f"{engine.side.name} holds", "; ".join(left)[:600])
    hold(engine.wake_at is None, "a deadline is left:", engine.wake_at)
    hold(engine.drained, "not drained")


def check_lost(engine: Connection) -> None:
    """After the connection is lost: no machine, no deadline, no order."""
    hold(not engine._channels.halves, "state machines of a lost connection")
    hold(engine.wake_at is None, "a deadline of a lost connection")
    hold(not engine.orders(), "orders of a lost connection")


def check_tombstones(engine: Connection) -> None:
    config = engine.config
    for kind, ranges in engine._channels._tombstones._channels._kinds.items():
        young = sum(channel & 7 == kind for _, channel in engine._channels._tombstones._recent)
        hold(len(ranges) <= config.max_tombstone_ranges + young, "tombstone ranges", len(ranges))


def senders(engine: Connection) -> list[int]:
    """The channels whose sender is still alive here."""
    halves = engine._channels.halves
    return [channel for channel, half in halves.items() if isinstance(half, SenderHalf)]

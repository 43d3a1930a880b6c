"""What an engine holds: within bounds after every step, nothing when all is over.

The only tests that look into an engine; every table of state that it has is named here.
"""

from __future__ import annotations

from collections.abc import Iterator

from aqueduct_core.aqueduct.engine import AqueductEngine
from tests.simulation.ledger import hold

_LARGEST_MESSAGE = 30_000
"""One MESSAGE of a simulation, attachments and all; a queue may exceed its limit by one."""


def check_bounds(engine: AqueductEngine) -> None:
    """After a step: nothing is over its limit, and no count went below zero."""
    config = engine.config
    channels, ingress, context = engine._channels, engine._ingress, engine._context
    credit, lineage, claims = context.credit, channels.lineage, channels._remote_channels
    hold(len(channels.halves) <= config.max_channels, "too many state machines")
    hold(0 <= ingress._partial <= config.max_partial_bytes, "partial bytes", ingress._partial)
    hold(ingress._held_bytes >= 0, "held bytes", ingress._held_bytes)
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
    queues = context.queues
    most = config.send_queue_connection_bytes + _LARGEST_MESSAGE
    hold(0 <= queues.bytes <= most, "send queues", queues.bytes)
    hold(context.flow.total >= 0, "outstanding", context.flow.total)
    hold(len(context.timers._heap) <= 2 * len(context.timers._due) + 64, "stale timers")


def tables(engine: AqueductEngine) -> dict[str, int]:
    """How much an engine holds, by table; each entry is gone when what it is for is over."""
    channels, ingress, context, outbox = (
        engine._channels, engine._ingress, engine._context, engine._outbox,
    )  # fmt: skip
    lineage, claims, forgets = channels.lineage, channels._remote_channels, channels.forgets
    return {
        "state machines": len(channels.halves),
        "lineage records": len(lineage),
        "links": lineage.links,
        "carriers": lineage.carriers,
        "remote lineage": len(context.remote_lineage),
        "routes to send back": len(channels._route_back),
        "unclaimed machines": len(claims._waiting),
        "unclaimed records": len(claims._records),
        "unclaimed bytes": claims.bytes,
        "forgets": len(forgets._due),
        "lingering streams": len(forgets._lingering),
        "timers": len(context.timers._due),
        "channels with acks shortly": len(context.acks_due),
        "channels with credit shortly": len(context.credit_due),
        "idle watches": len(channels.idle._last),
        "channels with acks due": len(context.due),
        "streams of the peer": len(ingress._streams),
        "held sequences": len(ingress._held),
        "held bytes": ingress._held_bytes,
        "partial bytes": ingress._partial,
        "unread bytes": ingress.unread,
        "ranges of numbers": context.ranges,
        "withheld credit": len(ingress._withheld),
        "owed credit": len(context.credit._owed),
        "queued bytes": context.credit.total,
        "send queues": len(context.queues._queues),
        "starved senders": len(context.queues.awaiting_writable),
        "bytes in send queues": context.queues.bytes,
        "datagrams in the link": len(context.link),
        "bytes in the link": context.link.size,
        "outstanding bytes": context.flow.total,
        "heads of line": int(context.flow.head_of_line is not None),
        "streams of ours": len(outbox._live),
        "unwritten streams": len(outbox._pending),
    }


def leftovers(engine: AqueductEngine) -> Iterator[str]:
    """What is left when every channel has ended and time has passed; nothing should be."""
    for name, count in tables(engine).items():
        if count:
            yield f"{name}: {count}"
    if engine._channels.halves:
        yield f"machines of {sorted(engine._channels.halves)}"
    if engine._ingress._streams:
        yield f"streams {sorted(engine._ingress._streams)}"


def check_nothing_left(engine: AqueductEngine) -> None:
    left = list(leftovers(engine))
    hold(not left, f"{engine.side.name} holds", "; ".join(left)[:600])
    hold(engine.wake_at is None, "a deadline is left:", engine.wake_at)
    hold(engine.drained, "not drained")


def check_lost(engine: AqueductEngine) -> None:
    """After the connection is lost: no machine, no deadline, no order."""
    hold(not engine._channels.halves, "state machines of a lost connection")
    hold(engine.wake_at is None, "a deadline of a lost connection")
    hold(not engine.actions(), "actions of a lost connection")


def check_tombstones(engine: AqueductEngine) -> None:
    config = engine.config
    for kind, ranges in engine._channels._tombstones._channels._kinds.items():
        young = sum(channel & 7 == kind for _, channel in engine._channels._tombstones._recent)
        hold(len(ranges) <= config.max_tombstone_ranges + young, "tombstone ranges", len(ranges))

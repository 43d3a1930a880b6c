"""Many channels: deep cascades by work list, and state only for what is open, not what was."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config
from aqueduct_core.aqueduct.events import Delivered, End, Ended, Event
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.primitives import varint
from tests.simulation.rest import tables
from tests.support.rules import rule
from tests.support.shuttle import Shuttle
from tests.support.wire import Wire

DEEP = [20_000, pytest.param(100_000, marks=pytest.mark.long)]
BOTH_SIDES = 5_000


def roomy(depth: int, ack_mode: AckMode = AckMode.ON_RECEIPT) -> Config:
    return Config(
        auto_accept=True,
        ack_mode=ack_mode,
        max_channels=depth + 10,
        max_unacked_attachment_messages=depth + 10,
    )


def chain(engine: AqueductEngine, depth: int) -> None:
    """Each channel carries the next one."""
    parent = 0
    for _ in range(depth):
        (parent,) = engine.send(parent, b"", now=0, attach=[Attach(True)]).attached


def lost(events: list[Event]) -> int:
    return sum(isinstance(item, Ended) and item.end is End.LOST for item in events)


@rule("AQ-LOST-3", "AQ-LOST-7")
@pytest.mark.parametrize("depth", DEEP)
def test_a_deep_chain_is_lost(depth: int) -> None:
    client = Wire.client(roomy(depth))
    chain(client.engine, depth)
    client.stream("03000a")
    assert lost(client.all_events()) == depth
    assert client.engine.open_channels == 0
    assert len(client.engine._channels.lineage) == 0


@rule("AQ-LOST-2", "AQ-LOST-7")
@pytest.mark.parametrize("depth", DEEP)
def test_a_deep_chain_becomes_accessible_from_the_top(depth: int) -> None:
    """The entrypoint's ack comes last, so that all of it hangs there."""
    client = Wire.client(roomy(depth))
    chain(client.engine, depth)
    client.pump()
    for index in range(1, depth):
        client.stream("03" + varint.encode(index << 3).hex() + "08020001", end=True)
    lineage = client.engine._channels.lineage
    assert lineage.links == depth
    client.stream("0300" + "08020001")
    assert lineage.links == 0
    assert lineage.carriers == 0
    assert client.engine.open_channels == depth + 1


@rule("AQ-LOST-3", "AQ-LOST-7")
def test_a_deep_chain_that_was_read_and_not_stored_is_lost_on_both_sides() -> None:
    pair = Shuttle(roomy(BOTH_SIDES), roomy(BOTH_SIDES, AckMode.ON_STORED))
    chain(pair.client, BOTH_SIDES)
    _, events = pair.turn()
    assert sum(isinstance(item, MessageBatch) for item in events) == BOTH_SIDES
    assert pair.server.open_channels == BOTH_SIDES + 1
    # all of it hangs on the entrypoint's first message
    pair.server.close(0, pair.now)
    assert [lost(seen) for seen in pair.turn()] == [BOTH_SIDES, BOTH_SIDES]
    pair.wait(2)
    for engine in (pair.client, pair.server):
        assert engine.closed is None
        assert sum(tables(engine).values()) == 0


def cycle(pair: Shuttle, count: int) -> None:
    """``count`` channels, each opened, used and finished before the next one."""
    for _ in range(count):
        (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
        pair.client.send(channel, b"message", now=pair.now)
        pair.client.finish(channel, pair.now)
        _, events = pair.turn()
        for item in events:
            if isinstance(item, MessageBatch):
                pair.server.consumed(item.channel, item.size, pair.now)
        pair.now += 0.001
    pair.wait(1.1)


def test_channels_that_were_leave_nothing() -> None:
    pair = Shuttle()
    cycle(pair, 200)
    before = tables(pair.client), tables(pair.server)
    cycle(pair, 2000)
    assert (tables(pair.client), tables(pair.server)) == before
    for engine in (pair.client, pair.server):
        assert len(engine._context.timers._heap) < 200
        kinds = engine._channels._tombstones._channels._kinds.values()
        assert all(len(ranges) == 1 for ranges in kinds)
        assert not engine._channels._tombstones._recent or engine is pair.server


def test_state_goes_with_what_is_open() -> None:
    pair = Shuttle()
    sizes = []
    for _ in range(3):
        for _ in range(500):
            pair.client.send(0, b"", now=pair.now, attach=[Attach(True)])
        pair.wait(1)
        sizes.append(sum(tables(pair.server).values()) + sum(tables(pair.client).values()))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]
    assert sizes[2] < 20 * 1500


def test_acks_and_credit_of_many_channels_are_no_timers() -> None:
    """They have the same delay, so they are due in the order in which they came."""
    config = Config(auto_accept=True, flow_per_channel=1 << 20)
    pair = Shuttle(config, config)
    channels = [
        pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached[0] for _ in range(40)
    ]
    pair.wait(1)
    timers = pair.server._context.timers
    before, outstanding = timers._serial, pair.client.statistics.outstanding
    for channel in channels:
        pair.client.send(channel, b"message", now=pair.now)
    _, events = pair.turn()
    for item in events:
        assert isinstance(item, MessageBatch)
        pair.server.consumed(item.channel, item.size, pair.now)
    assert len(pair.server._context.acks_due) == 40
    pair.now += config.ack_delay
    pair.server.tick(pair.now)
    acked, _ = pair.turn()
    assert sum(isinstance(item, Delivered) for item in acked) == 40
    assert pair.client.statistics.outstanding == outstanding
    assert timers._serial == before

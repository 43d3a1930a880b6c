"""A receiver whose finish the application notes before the peer learns it; and one that rests."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.engine import Attach, Mode, Side
from aqueduct_core.aqueduct.events import Complete, Delivered, End, Ended, Event, Nacked
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.pair import LinkShape, Pair
from tests.support.rules import rule

STORED = Config(ack_mode=AckMode.ON_STORED, confirm_finish=True, auto_accept=True)


def ends(events: list[Event], channel: int) -> list[End]:
    return [item.end for item in events if isinstance(item, Ended) and item.channel == channel]


def complete(events: list[Event]) -> list[Complete]:
    return [item for item in events if isinstance(item, Complete)]


def store(pair: Pair, events: list[Event]) -> None:
    for item in events:
        if isinstance(item, MessageBatch):
            stop = item.first + item.count
            pair.server.stored(item.channel, item.first, stop, reliable=item.reliable, now=pair.now)
            pair.server.consumed(item.channel, item.size, pair.now)


@rule("AQ-LIFE-15")
def test_a_finish_waits_for_the_application_and_for_storage() -> None:
    pair = Pair(server=STORED).connect()
    (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
    pair.client.send(channel, b"a", now=pair.now)
    pair.client.finish(channel, pair.now)
    pair.run(1.0)
    events = pair.events(Side.SERVER)
    (seen,) = complete(events)
    assert (seen.channel, seen.counts.reliable_sent, seen.counts.reliable_received) == (
        channel, 1, 1,
    )  # fmt: skip
    assert events.index(seen) > next(
        i
        for i, item in enumerate(events)
        if isinstance(item, MessageBatch) and item.channel == channel
    )
    pair.server.confirm(channel, pair.now)
    pair.run(1.0)
    assert ends(pair.events(Side.CLIENT), channel) == []
    store(pair, events)
    pair.run(1.0)
    client, server = pair.events(Side.CLIENT), pair.events(Side.SERVER)
    assert ends(client, channel) == ends(server, channel) == [End.FINISHED]
    assert complete(server) == []


def test_without_the_answer_of_the_application_everything_but_the_end_goes_on() -> None:
    pair = Pair(server=STORED).connect()
    (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
    pair.client.send(channel, b"a", now=pair.now)
    pair.client.finish(channel, pair.now)
    pair.run(0.1)
    store(pair, pair.events(Side.SERVER))
    pair.run(1.0)
    client = pair.events(Side.CLIENT)
    assert any(isinstance(item, Delivered) and item.channel == channel for item in client)
    assert ends(client, channel) == []
    pair.server.confirm(channel, pair.now)
    pair.settle()
    assert ends(pair.events(Side.CLIENT), channel) == [End.FINISHED]


@pytest.mark.parametrize("seed", range(8))
@rule("AQ-ACK-6", "AQ-ACK-12")
def test_the_counts_that_are_told_are_final(seed: int) -> None:
    shape = LinkShape(0.01, 0.05, loss=0.3 if seed % 2 else 0.0)
    pair = Pair(seed, shape, server=STORED).connect()
    (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
    for number in range(100):
        pair.client.send(channel, b"%d" % number, now=pair.now, mode=Mode.UNRELIABLE)
    pair.client.finish(channel, pair.now)
    seen: list[Event] = []
    for _ in range(80):
        pair.run(0.05)
        events = pair.events(Side.SERVER)
        store(pair, events)
        seen += events
    (done,) = complete(seen)
    nacked = sum(item.stop - item.first for item in seen if isinstance(item, Nacked))
    assert done.counts.unreliable_sent == 100
    assert done.counts.unreliable_acked + done.counts.nacked == 100
    assert done.counts.nacked == nacked == pair.lost_datagrams
    assert all(seen.index(item) < seen.index(done) for item in seen if isinstance(item, Nacked))
    pair.server.confirm(channel, pair.now)
    pair.settle()
    (end,) = [
        item
        for item in pair.events(Side.SERVER)
        if isinstance(item, Ended) and item.channel == channel
    ]
    assert end.end is End.FINISHED
    assert end.counts._replace(late=0) == done.counts._replace(late=0)


def test_a_channel_that_was_over_before_it_was_known_is_told_complete_too() -> None:
    pair = Pair(server=STORED).connect()
    sent = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)])
    (outer,) = sent.attached
    (inner,) = pair.client.send(outer, b"", now=pair.now, attach=[Attach(True)]).attached
    pair.client.finish(inner, pair.now)
    pair.client.finish(outer, pair.now)
    pair.run(1.0)
    events = pair.events(Side.SERVER)
    assert {item.channel for item in complete(events)} == {outer, inner}
    store(pair, events)
    for channel in (outer, inner):
        pair.server.confirm(channel, pair.now)
    pair.server.confirm(4242, pair.now)
    pair.settle()
    seen = pair.events(Side.CLIENT)
    assert ends(seen, outer) == ends(seen, inner) == [End.FINISHED]


def test_a_connection_that_rests_takes_nothing_in_and_gives_no_credit() -> None:
    pair = Pair(3, LinkShape(0.01, cut=0.5), server=STORED).connect()
    attached = pair.client.send(0, b"", now=pair.now, attach=[Attach(True), Attach(True)]).attached
    pair.run(0.5)
    store(pair, pair.events(Side.SERVER))
    pair.run(0.1)
    pair.server.pause()
    given = pair.tally[Side.SERVER].credited
    for channel in attached:
        pair.client.send(channel, b"x" * 1000, now=pair.now)
    pair.client.send(attached[0], b"lost", now=pair.now, mode=Mode.ORDERED)
    pair.client.cancel(attached[1], pair.now)
    pair.run(2.0)
    assert pair.events(Side.SERVER) == []
    assert pair.tally[Side.SERVER].credited == given
    assert pair.server.open_channels == 3
    pair.server.resume(pair.now)
    pair.run(0.5)
    events = pair.events(Side.SERVER)
    batches = [(item.channel, item.count) for item in events if isinstance(item, MessageBatch)]
    assert batches[:1] == [(attached[0], 2)]
    assert ends(events, attached[1]) == [End.CANCELLED]
    store(pair, events)
    pair.run(0.5)
    assert pair.tally[Side.SERVER].credited == pair.tally[Side.SERVER].arrived


def test_datagrams_of_a_connection_that_rests_are_nacked() -> None:
    pair = Pair(server=STORED).connect()
    (channel,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
    pair.run(0.5)
    store(pair, pair.events(Side.SERVER))
    pair.server.pause()
    for _ in range(3):
        pair.client.send(channel, b"u", now=pair.now, mode=Mode.UNRELIABLE)
    pair.run(0.2)
    pair.server.resume(pair.now)
    pair.run(3.0)
    assert [item for item in pair.events(Side.SERVER) if isinstance(item, Nacked)] == [
        Nacked(channel, 0, 3)
    ]
    assert pair.server.statistics.datagrams_dropped == 3

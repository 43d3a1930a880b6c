"""Flow control between two engines: whatever the buffers and the order of operations, nobody
sends more than the rule allows, nothing deadlocks, and everything comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Side
from aqueduct_core.aqueduct.events import Dropped, End, Ended, Event, Numbered, Writable
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.flow import SendVerdict, channel_header
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.pair import LinkShape, Pair
from tests.support.rules import rule

LARGEST = 700
"""No frame here is larger: payloads of up to 600 bytes with a few attachments."""


class End_:
    """One side's application: what it sent, what came, and what it has not consumed."""

    def __init__(self, pair: Pair, side: Side) -> None:
        self.pair = pair
        self.side = side
        self.engine: AqueductEngine = pair.engines[side]
        self.senders = [0] if side is Side.CLIENT else []
        self.sent: Counter[int] = Counter()
        self.got: dict[int, list[int]] = {}
        self.held: list[tuple[int, int]] = []
        self.ends: dict[int, End] = {}
        self.finished: set[int] = set()
        self.writable = 0
        self.dropped = 0

    def read(self) -> None:
        for item in self.pair.events(self.side):
            self._take(item)

    def _take(self, item: Event) -> None:
        if isinstance(item, MessageBatch):
            if item.reliable:
                self.got.setdefault(item.channel, []).extend(
                    range(item.first, item.first + item.count)
                )
            self.held.append((item.channel, item.size))
            for attached in item.attachments.values():
                for channel, _ in attached:
                    if self._sends(channel):
                        self.senders.append(channel)
        elif isinstance(item, Numbered):
            self.senders += [c for c in item.attached if self._sends(c)]
            self.sent[item.channel] += (item.stop - item.first) * item.reliable
        elif isinstance(item, Ended):
            self.ends[item.channel] = item.end
        elif isinstance(item, Writable):
            self.writable += 1
        elif isinstance(item, Dropped):
            self.dropped += item.messages

    def _sends(self, channel: int) -> bool:
        return bool(channel & 2) is (self.side is Side.SERVER)

    def consume(self, count: int) -> None:
        for channel, size in self.held[:count]:
            self.engine.consumed(channel, size, self.pair.now)
        del self.held[:count]

    def send(self, which: int, size: int, how: int) -> None:
        if not self.senders:
            return
        channel = self.senders[which % len(self.senders)]
        half = self.engine._channels.halves.get(channel)
        mode = list(Mode)[how % 3]
        if isinstance(half, SenderHalf) and half.mode is not None:
            mode = half.mode
        attach = []
        if how >= 6:
            own = (channel_header(which * 40),) if how & 1 else ()
            attach = [Attach(True), Attach(False, headers=own)]
        sent = self.engine.send(channel, b"x" * size, now=self.pair.now, mode=mode, attach=attach)
        self.senders += [c for c in sent.attached if self._sends(c)]
        if sent.number is not None:
            self.sent[channel] += sent.reliable


def check(pair: Pair, sender: End_, receiver: End_, per_channel: int, all_channels: int) -> None:
    """The rule, as the sender counts and as the receiver sees it (AQ-FLOW-4, H5)."""
    flow = sender.engine._context.flow
    halves = [h for h in sender.engine._channels.halves.values() if isinstance(h, SenderHalf)]
    assert flow.total == sum(half.account.outstanding for half in halves)
    for half in halves:
        account = half.account
        limit = per_channel if account.limit is None else account.limit
        assert 0 <= account.outstanding <= (max(limit, LARGEST) if limit else 1 << 40)
        queued = receiver.engine._context.credit.queued(half.channel)
        assert queued <= account.outstanding
    if all_channels:
        assert flow.total <= max(all_channels, LARGEST)
    config = sender.engine.config
    assert sender.engine._context.queues.bytes < config.send_queue_connection_bytes + 4 * LARGEST


def operate(
    ends: tuple[End_, End_], operation: tuple[str, str, int, int, int], look: Callable[[], None]
) -> None:
    """What one end's application does, or time that passes."""
    who, name, which, size, how = operation
    app, other = ends if who == "client" else ends[::-1]
    pair = app.pair
    if name == "send":
        app.send(which, size, how)
    elif name == "many" and app.senders:
        channel = app.senders[which % len(app.senders)]
        mode = getattr(app.engine._channels.halves.get(channel), "mode", None)
        if mode is not Mode.UNRELIABLE:
            payloads = [b"m" * (size // 8)] * which
            first, stop = app.engine.send_many(
                channel, payloads, now=pair.now, mode=mode or Mode.ORDERED
            )
            app.sent[channel] += stop - first
    elif name == "consume":
        app.consume(which)
    elif name in ("finish", "end") and app.senders:
        channel = app.senders[which % len(app.senders)]
        if name == "finish":
            app.engine.finish(channel, pair.now)
            app.finished.add(channel)
        elif how & 1:
            app.engine.cancel(channel, pair.now)
        else:
            other.engine.close(channel, pair.now)
    else:
        for _ in range(which):
            pair.step()
            look()


OPERATION = st.tuples(
    st.sampled_from(("client", "server")),
    st.sampled_from(("send", "send", "send", "many", "consume", "run", "finish", "end")),
    st.integers(0, 12),
    st.integers(0, 600),
    st.integers(0, 8),
)


@rule("AQ-FLOW-4", "AQ-FLOW-5", "AQ-FLOW-6", "AQ-FLOW-7", "AQ-FLOW-10", "AQ-FLOW-11", "AQ-FLOW-12")
@given(
    operations=st.lists(OPERATION, min_size=1, max_size=40),
    buffers=st.tuples(*[st.sampled_from((0, 1, 7, 50, 300, 1000, 5000))] * 4),
    seed=st.integers(0, 1 << 16),
    loss=st.sampled_from((0.0, 0.3)),
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_deadlock_and_no_excess(
    operations: list[tuple[str, str, int, int, int]],
    buffers: tuple[int, int, int, int],
    seed: int,
    loss: float,
) -> None:
    common = Config(auto_accept=True, send_queue_messages=5, send_queue_connection_bytes=4000)
    client = replace(common, flow_per_channel=buffers[0], flow_all_channels=buffers[1])
    server = replace(common, flow_per_channel=buffers[2], flow_all_channels=buffers[3])
    shape = LinkShape(latency=0.01, jitter=0.03, loss=loss, cut=0.3)
    pair = Pair(seed, shape, client, server).connect()
    ends = (End_(pair, Side.CLIENT), End_(pair, Side.SERVER))
    # what each end announced binds the other one
    bounds = {Side.CLIENT: buffers[2:], Side.SERVER: buffers[:2]}

    def look() -> None:
        for each, other in (ends, ends[::-1]):
            each.read()
            check(pair, each, other, *bounds[each.side])

    for operation in operations:
        try:
            operate(ends, operation, look)
        except LocalError:
            pass
        pair.collect()
        look()

    for _ in range(400):
        pair.settle()
        look()
        if not any(app.held or app.engine.statistics.waiting for app in ends):
            break
        for app in ends:
            app.consume(1000)
    pair.settle()
    look()
    for app, other in (ends, ends[::-1]):
        assert app.engine.closed is None
        assert app.engine.statistics.waiting == 0
        assert app.engine.statistics.outstanding == 0
        for channel in app.senders:
            end = app.ends.get(channel)
            if end is None or end is End.FINISHED:
                assert sorted(other.got.get(channel, [])) == list(range(app.sent[channel]))
            if end is None and app.engine.can_send(channel):
                app.engine.finish(channel, pair.now)
            assert end is not None or channel not in app.finished
    for _ in range(20):
        pair.settle()
        look()
        for app in ends:
            app.consume(1000)
    for app in ends:
        for channel in app.senders:
            assert app.ends[channel] is not None


@rule("AQ-FLOW-9", "AQ-FLOW-12")
@given(
    per_channel=st.integers(1, 400),
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_a_sender_that_ignores_credit_meets_the_hard_limits(
    per_channel: int, sizes: list[int], seed: int
) -> None:
    """Its channel is closed with OVERFLOW; the connection and our memory stay as they are."""
    most, most_total = 2000, 5000
    server = Config(
        auto_accept=True,
        flow_per_channel=per_channel,
        flow_all_channels=per_channel,
        max_channel_queue_bytes=most,
        max_connection_queue_bytes=most_total,
    )
    pair = Pair(seed, LinkShape(cut=0.2), Config(flow_per_channel=0), server).connect()
    pair.client._context.flow.verdict = lambda *_: SendVerdict.GO  # type: ignore[method-assign]
    (child,) = pair.client.send(0, b"", now=pair.now, attach=[Attach(True)]).attached
    for i, size in enumerate(sizes):
        for channel, mode in ((0, Mode.ORDERED), (child, list(Mode)[seed % 3])):
            if pair.client.can_send(channel):
                pair.client.send(channel, b"x" * size, now=pair.now, mode=mode)
        for _ in range(i % 5):
            pair.step()
        assert pair.server.statistics.queued_bytes <= most_total + LARGEST
        assert pair.server._context.credit.queued(child) <= most + LARGEST
    pair.settle()
    assert pair.server.closed is None
    assert pair.client.closed is None
    ends = [event.end for event in pair.events(Side.SERVER) if isinstance(event, Ended)]
    assert set(ends) <= {End.OVERFLOW}


@rule("AQ-FLOW-2")
@pytest.mark.parametrize("knows", [Side.CLIENT, Side.SERVER])
def test_a_pair_of_which_one_knows_only_the_specification(knows: Side) -> None:
    """Neither end is limited, no DEQUEUED goes either way, and credit is never spoken of."""
    tight = Config(auto_accept=True, flow_per_channel=1, flow_all_channels=1)
    plain = Config(auto_accept=True)
    pair = Pair(
        client=tight if knows is Side.CLIENT else plain,
        server=tight if knows is Side.SERVER else plain,
    ).connect()
    sent = pair.client.send(0, b"a", now=pair.now, attach=[Attach(False)])
    pair.settle()
    back = sent.attached[0]
    for number in range(50):
        assert pair.client.send(0, b"x" * 100, now=pair.now).number == number + 1
        assert pair.server.send(back, b"x" * 100, now=pair.now).number == number
    pair.settle()
    for side, engine in pair.engines.items():
        sizes = [(n.channel, n.size) for n in pair.events(side) if isinstance(n, MessageBatch)]
        for channel, size in sizes:
            engine.consumed(channel, size, pair.now)
    pair.settle()
    for engine in pair.engines.values():
        assert engine.closed is None
        assert engine.statistics.outstanding == 0
        assert not engine._context.flow.active

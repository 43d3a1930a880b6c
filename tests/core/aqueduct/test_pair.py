"""Two engines over a bad link: whatever is sent is delivered once, in order, and accounted for."""

from __future__ import annotations

import logging
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.engine import AckMode, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Delivered, End, Ended, Nacked
from aqueduct_core.aqueduct.faults import Code, LocalError
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.pair import LinkShape, Pair
from tests.support.rules import rule

BAD = LinkShape(latency=0.02, jitter=0.3, loss=0.3, cut=0.4)


class App:
    """One end's application: reads everything, stores and consumes it, remembers all."""

    def __init__(self, pair: Pair, side: Side) -> None:
        self.pair = pair
        self.engine = pair.engines[side]
        self.side = side
        self.received: dict[int, dict[tuple[bool, int], bytes]] = defaultdict(dict)
        self.action: dict[int, list[tuple[bool, int]]] = defaultdict(list)
        self.outcome: dict[int, dict[tuple[bool, int], bool]] = defaultdict(dict)
        self.ended: dict[int, End] = {}
        self.nacked: dict[int, set[int]] = defaultdict(set)
        self.known: set[int] = {0}
        self.to_drop: list[int] = []

    def read(self) -> None:
        for event in self.pair.events(self.side):
            if isinstance(event, MessageBatch):
                self._batch(event)
            elif isinstance(event, Delivered):
                for number in range(event.first, event.stop):
                    key = (event.reliable, number)
                    assert key not in self.outcome[event.channel], "told twice"
                    self.outcome[event.channel][key] = event.acked
            elif isinstance(event, Ended):
                assert event.channel not in self.ended, "ended twice"
                self.ended[event.channel] = event.end
            elif isinstance(event, Nacked):
                self.nacked[event.channel] |= set(range(event.first, event.stop))

    def _batch(self, batch: MessageBatch) -> None:
        assert batch.channel in self.known, "a run of a channel that nobody told of"
        assert batch.channel not in self.ended, "a run after the end"
        for message in batch.messages():
            key = (batch.reliable, message.number)
            assert key not in self.received[batch.channel], "delivered twice"
            self.received[batch.channel][key] = message.payload
            self.action[batch.channel].append(key)
            for attachment in message.attachments:
                assert attachment.channel not in self.known, "attached twice"
                self.known.add(attachment.channel)
        if self.engine.closed is None:
            if self.engine.config.ack_mode is AckMode.ON_STORED:
                self.engine.stored(
                    batch.channel, batch.first, batch.first + batch.count, reliable=batch.reliable,
                    now=self.pair.now,
                )  # fmt: skip
            self.engine.consumed(batch.channel, batch.size, self.pair.now)


def both(pair: Pair) -> tuple[App, App]:
    return App(pair, Side.CLIENT), App(pair, Side.SERVER)


def settle(pair: Pair, *apps: App) -> None:
    """Run until the applications have nothing left to answer."""
    while True:
        pair.settle()
        if not any(pair.seen.values()):
            return
        for app in apps:
            app.read()


def check_accounts(pair: Pair, sender: App, receiver: App, channel: int) -> None:
    """What was acked was received; what was nacked in a datagram was not.

    On receipt alone, an ack does not promise that the application saw the message: its channel
    may be cancelled or lost before its carrier comes. And where a channel did not finish, what
    the application saw and did not store in time counts as nacked.
    """
    received = receiver.received[channel]
    unseen = receiver.engine.config.ack_mode is AckMode.ON_RECEIPT and (
        channel not in receiver.known or receiver.ended.get(channel) in (End.CANCELLED, End.LOST)
    )
    for key, acked in sender.outcome[channel].items():
        if acked:
            assert key in received or unseen, "acked and not received"
        elif not key[0] and receiver.ended.get(channel) in (None, End.FINISHED):
            assert key not in received, "nacked and received"


@rule("AQ-SEND-1", "AQ-SEND-2", "AQ-SEND-3", "AQ-ACK-1", "AQ-LIFE-15", "AQ-SEQ-9")
@pytest.mark.parametrize("ack_mode", list(AckMode))
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("seed", range(6))
def test_all_messages_in_every_mode(seed: int, mode: Mode, ack_mode: AckMode) -> None:
    pair = Pair(seed, BAD, server=Config(auto_accept=True, ack_mode=ack_mode)).connect()
    client, server = both(pair)
    sent = {}
    for i in range(60):
        payload = bytes([i]) * pair.random.choice([0, 1, 40, 300, 3000])
        result = pair.client.send(0, payload, now=pair.now, mode=mode)
        sent[result.reliable, result.number] = payload
        if pair.random.random() < 0.3:
            pair.run(pair.random.random() * 0.2)
            client.read()
            server.read()
    pair.client.finish(0, pair.now)
    settle(pair, client, server)
    assert client.ended == {0: End.FINISHED}
    assert server.ended == {0: End.FINISHED}
    assert client.outcome[0].keys() == sent.keys()
    assert server.received[0].items() <= sent.items()
    check_accounts(pair, client, server, 0)
    assert {key for key in sent if key[0]} <= server.received[0].keys()
    if mode is Mode.ORDERED:
        assert server.action[0] == sorted(server.action[0])
    assert server.nacked[0] == {n for (r, n), acked in client.outcome[0].items() if not acked}
    check_credit(pair)


def check_credit(pair: Pair) -> None:
    for side, tally in pair.tally.items():
        assert tally.credited == tally.arrived, side


OPERATION = st.tuples(
    st.sampled_from(
        ["send", "send", "send", "attach", "attach", "finish", "cancel", "close", "drop", "run",
         "many"]
    ),
    st.integers(0, 1),
    st.integers(0, 40),
    st.integers(0, 2),
)  # fmt: skip


@rule("AQ-LOST-6", "AQ-LOST-1", "AQ-LIFE-6", "AQ-LIFE-13")
@given(
    operations=st.lists(OPERATION, min_size=1, max_size=40),
    seed=st.integers(0, 1 << 16),
    stored=st.booleans(),
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_operations_in_any_order(
    operations: list[tuple[str, int, int, int]], seed: int, stored: bool
) -> None:
    mode = AckMode.ON_STORED if stored else AckMode.ON_RECEIPT
    pair = Pair(seed, BAD, Config(ack_mode=mode), Config(auto_accept=True, ack_mode=mode)).connect()
    apps = both(pair)
    used: dict[tuple[int, int], Mode] = {}
    for name, who, which, how in operations:
        app = apps[who]
        engine = app.engine
        channels = sorted(app.known)
        channel = channels[which % len(channels)]
        now = pair.now
        try:
            if name == "run":
                pair.run(which * 0.05)
                for each in apps:
                    each.read()
            elif name == "finish":
                engine.finish(channel, now)
            elif name == "cancel":
                engine.cancel(channel, now)
            elif name == "close":
                engine.close(channel, now)
            else:
                chosen = used.setdefault((who, channel), list(Mode)[how])
                if name == "many" and chosen is not Mode.UNRELIABLE:
                    engine.send_many(channel, [b"m" * which] * (which + 1), now=now, mode=chosen)
                else:
                    attach = []
                    if name == "attach":
                        attach = [Attach(bool(how & 1), oneshot=which % 5 == 0), Attach(True)]
                    sent = engine.send(
                        channel, b"s" * which * 30, now=now, mode=chosen, attach=attach
                    )
                    app.known |= set(sent.attached)
        except LocalError:
            pass
    settle(pair, *apps)
    for side, engine in pair.engines.items():
        assert engine.closed is None, (side, engine.closed)
    for sender, receiver in (apps, apps[::-1]):
        for channel in list(sender.outcome):
            check_accounts(pair, sender, receiver, channel)
    check_credit(pair)
    check_nothing_left(pair, *apps)


def check_nothing_left(pair: Pair, *apps: App) -> None:
    """A half is alive at one end only if it is alive at the other, or nobody can know."""
    for app, other in (apps, apps[::-1]):
        for channel in app.ended:
            assert not app.engine.half_open(channel)
        for channel in app.known - {0}:
            if app.engine.half_open(channel):
                assert other.engine.half_open(channel), (app.side, channel, other.ended)
    for engine in pair.engines.values():
        lineage = engine._channels.lineage
        assert lineage.links == sum(not node.accessible for node in lineage._nodes.values())
        assert engine._channels._remote_channels.bytes >= 0


@rule("AQ-ERR-1", "AQ-ERR-3")
@given(data=st.binary(max_size=200), datagram=st.booleans(), cut=st.integers(0, 200))
@settings(max_examples=300, deadline=None)
def test_no_bytes_raise_an_exception(data: bytes, datagram: bool, cut: int) -> None:
    from tests.support.wire import Wire

    for wire in (Wire.server(), Wire.client()):
        if datagram:
            wire.datagram(data.hex())
        else:
            stream = wire.stream(data[:cut].hex())
            wire.stream(data[cut:].hex(), stream, end=True)
        wire.advance(2)
        assert wire.code != Code.INTERNAL
        if wire.code is not None:
            before = wire.all_events()
            wire.stream("030004000000026869")
            assert wire.all_events() == []
            assert before


FRAME = st.one_of(
    st.sampled_from(
        ["0300", "0301", "0302", "0303", "0308", "0304", "0306", "07", "0a", "0b", "0c01", "0100"]
    ),
    st.builds(lambda n: f"04{n:02x}0000" + "0161", st.integers(0, 4)),
    st.builds(lambda n: "0500"[:2] + f"{n:02x}", st.integers(0, 4)),
    st.builds(lambda n: f"06{n:02x}", st.integers(0, 4)),
    st.builds(lambda a, b: f"0802{a:02x}{b:02x}", st.integers(0, 3), st.integers(1, 3)),
    st.builds(lambda a, b: f"0902{a:02x}{b:02x}", st.integers(0, 3), st.integers(1, 3)),
    st.builds(lambda n, c: f"04{n:02x}0002{c:02x}0000", st.integers(0, 4),
              st.sampled_from([8, 16, 2, 10, 4, 1, 3, 9])),
)  # fmt: skip


@rule("AQ-ERR-1", "AQ-ERR-4")
@given(
    sequences=st.lists(
        st.tuples(
            st.sampled_from(["0300", "0301", "0302", "0303", "0308", "0304", "0310", "0306"]),
            st.lists(FRAME, max_size=5),
            st.sampled_from(["end", "open", "reset", "datagram"]),
            st.floats(0, 1.2),
        ),
        max_size=12,
    ),
    server=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_no_frames_raise_an_exception(sequences: list[tuple[str, list[str], str, float]],
                                      server: bool) -> None:  # fmt: skip
    from tests.support.wire import Wire

    wire = Wire.server() if server else Wire.client()
    engine = wire.engine
    if not server:
        engine.send(0, b"x", now=0, attach=[Attach(True), Attach(False)])
        engine.send(8, b"y", now=0, attach=[Attach(True)])
    for route, frames, how, pause in sequences:
        text = route + "".join(frames)
        if how == "datagram":
            wire.datagram(text)
        else:
            stream = wire.stream(text, end=how == "end")
            if how == "reset":
                wire.reset(stream)
        for batch in wire.events(MessageBatch):
            if engine.closed is None:
                engine.consumed(batch.channel, batch.size, wire.now)
        wire.advance(pause)
        assert wire.code != Code.INTERNAL, caught_log()


def caught_log() -> str:
    return logging.getLogger("aqueduct_core.aqueduct").name

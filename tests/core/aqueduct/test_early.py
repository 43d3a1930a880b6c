"""Engines whose client speaks before the handshake is complete, on a virtual clock."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Delivered, End, Ended, Nacked, Opened
from aqueduct_core.engine.actions import SendDatagram, WriteStream
from aqueduct_core.engine.inputs import EarlyReady, EarlyRejected
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.transport.in_memory.early import EarlyMemoryLink
from tests.support.rules import rule

DELAY = 0.05
ENTRY = AqueductEngine.ENTRYPOINT


def linked(accepts: bool, **options: object) -> EarlyMemoryLink:
    config = Config(ack_mode=AckMode.ON_RECEIPT)
    return EarlyMemoryLink(
        AqueductEngine(Side.CLIENT, (), config),
        AqueductEngine(Side.SERVER, (), Config(auto_accept=True)),
        accepts=accepts,
        delay=DELAY,
        **options,
    )


def messages(link: EarlyMemoryLink) -> dict[tuple[int, bool], list[tuple[int, bytes]]]:
    """What the server was told, by channel and number space: number and payload, as it came."""
    seen: dict[tuple[int, bool], list[tuple[int, bytes]]] = defaultdict(list)
    for event in link.server.events:
        if isinstance(event, MessageBatch):
            seen[event.channel, event.reliable] += [
                (single.number, single.payload) for single in event.messages()
            ]
    return seen


def ends(link: EarlyMemoryLink, side: str) -> dict[int, End]:
    end = link.client if side == "client" else link.server
    return {event.channel: event.end for event in end.events if isinstance(event, Ended)}


@rule("AQ-0RTT-1", "AQ-0RTT-3")
@pytest.mark.parametrize("accepts", [True, False])
def test_everything_that_a_client_can_send_goes_out_early_and_arrives_once(accepts: bool) -> None:
    link = linked(accepts, cut=0.3)
    client: AqueductEngine = link.client.engine  # type: ignore[assignment]
    link.kick()
    ordered = Attach(sends=True)
    unordered = Attach(sends=True)
    loose = Attach(sends=True)
    back = Attach(sends=False)
    sent = client.send(ENTRY, b"take", attach=[ordered, unordered, loose, back], now=link.now)
    first, second, third, fourth = sent.attached
    for i in range(5):
        client.send(first, b"o%d" % i, now=link.now)
        client.send(second, b"u%d" % i, mode=Mode.UNORDERED, now=link.now)
        client.send(third, b"l%d" % i, mode=Mode.UNRELIABLE, now=link.now)
    for channel in (first, second, third):
        client.finish(channel, link.now)
    client.finish(ENTRY, link.now)
    link.run_for(1.9 * DELAY)
    early = link.early_actions
    assert sum(isinstance(action, WriteStream) for action in early) >= 8
    assert sum(isinstance(action, SendDatagram) for action in early) == 5
    assert link.server.events == []
    # The handshake is complete at the server after one and a half round trips.
    if accepts:
        link.run_for(1.2 * DELAY)
        assert any(isinstance(event, Opened) for event in link.server.events)
    link.run_until(lambda: set(ends(link, "client")) >= {first, second, third})
    got = messages(link)
    assert got[ENTRY, True] == [(0, b"take")]
    assert got[first, True] == [(i, b"o%d" % i) for i in range(5)]
    assert sorted(got[second, True]) == [(i, b"u%d" % i) for i in range(5)]
    assert sorted(got[third, False]) == ([(i, b"l%d" % i) for i in range(5)] if accepts else [])
    carried = [event.attachments for event in link.server.events if isinstance(event, MessageBatch)]
    assert [entry.channel for entry in carried[0][0]] == [first, second, third, fourth]
    assert {ends(link, "server")[channel] for channel in (first, second, third)} == {End.FINISHED}
    assert {ends(link, "client")[channel] for channel in (first, second, third)} == {End.FINISHED}


@rule("AQ-0RTT-2")
def test_rejected_datagrams_stay_sent_and_are_nacked() -> None:
    link = linked(False)
    client: AqueductEngine = link.client.engine  # type: ignore[assignment]
    link.kick()
    for i in range(4):
        client.send(ENTRY, b"early %d" % i, mode=Mode.UNRELIABLE, now=link.now)
    link.run_for(3 * DELAY)
    client.send(ENTRY, b"late", mode=Mode.UNRELIABLE, now=link.now)
    link.run_until(lambda: any(isinstance(event, Nacked) for event in link.server.events))
    link.run_for(2.0)
    assert messages(link)[ENTRY, False] == [(4, b"late")]
    fates = {
        number: event.acked
        for event in link.client.events
        if isinstance(event, Delivered) and not event.reliable
        for number in range(event.first, event.stop)
    }
    assert fates == {0: False, 1: False, 2: False, 3: False, 4: True}


@rule("AQ-0RTT-2")
def test_the_second_try_has_the_same_bytes_on_the_same_handles() -> None:
    """The streams that the engine holds go on behind what was repeated: it repeats nothing."""
    link = linked(False)
    client: AqueductEngine = link.client.engine  # type: ignore[assignment]
    link.kick()
    client.send(ENTRY, b"one", now=link.now)
    link.run_for(DELAY)
    carried: list[tuple[int, bytes, bool]] = []
    carry = link._write

    def watch(end: object, stream_id: int, data: bytes, ending: bool) -> None:
        if end is link.client:
            carried.append((stream_id, data, ending))
        carry(link.client if end is link.client else link.server, stream_id, data, ending)

    link._write = watch  # type: ignore[method-assign]
    early = [action[:3] for action in link.early_actions if isinstance(action, WriteStream)]
    link.run_for(1.5 * DELAY)
    assert carried == early
    client.send(ENTRY, b"two", now=link.now)
    link.kick()
    (more,) = carried[len(early) :]
    assert more[0] in {stream_id for stream_id, _, _ in early}
    link.run_until(lambda: len(messages(link)[ENTRY, True]) == 2)
    assert messages(link)[ENTRY, True] == [(0, b"one"), (1, b"two")]


@rule("AQ-0RTT-2")
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_done_early_ends_as_if_it_had_been_done_later(seed: int) -> None:
    rng = random.Random(seed)
    accepts = bool(seed % 2)
    link = linked(accepts, seed=seed, cut=0.4, jitter=0.02, loss=0.1)
    client: AqueductEngine = link.client.engine  # type: ignore[assignment]
    link.kick()
    sent: dict[int, list[bytes]] = {ENTRY: []}
    modes: dict[int, Mode] = {ENTRY: Mode.ORDERED}
    cancelled: set[int] = set()
    for step in range(rng.randrange(5, 25)):
        alive = [c for c in sent if client.half_open(c) and client.can_send(c)]
        what = rng.random()
        if what < 0.3:
            done = client.send(ENTRY, b"take %d" % step, attach=[Attach(sends=True)], now=link.now)
            (made,) = done.attached
            sent[ENTRY].append(b"take %d" % step)
            sent[made] = []
            modes[made] = rng.choice([Mode.ORDERED, Mode.UNORDERED])
        elif what < 0.8 and alive:
            channel = rng.choice(alive)
            payload = rng.randbytes(rng.choice((0, 5, 2_000)))
            client.send(channel, payload, mode=modes[channel], now=link.now)
            sent[channel].append(payload)
        elif what < 0.9 and len(alive) > 1:
            client.finish(rng.choice([c for c in alive if c != ENTRY]), link.now)
        elif len(alive) > 1:
            channel = rng.choice([c for c in alive if c != ENTRY])
            client.cancel(channel, link.now)
            cancelled.add(channel)
        link.run_for(rng.random() * DELAY / 4)
    for channel in sent:
        if client.half_open(channel) and client.can_send(channel):
            client.finish(channel, link.now)
    link.run_until(lambda: set(ends(link, "client")) == set(sent))
    got = messages(link)
    assert link.client.lost is None
    for channel, payloads in sent.items():
        expected = list(enumerate(payloads))
        seen = sorted(got[channel, True])
        if channel in cancelled:
            assert all(item in expected for item in seen)
            assert len(set(seen)) == len(seen)
        else:
            assert seen == expected
            assert ends(link, "client")[channel] is End.FINISHED


@rule("AQ-0RTT-1")
def test_datagrams_are_as_large_as_the_last_connection_allowed() -> None:
    client = AqueductEngine(Side.CLIENT, (), Config())
    client.handle(EarlyReady(0), 0.0)
    sent = client.send(ENTRY, b"small", mode=Mode.UNRELIABLE, now=0.0)
    assert sent.reliable
    client.handle(EarlyRejected(2), 0.1)
    assert client.closed is None
    assert not [action for action in client.actions() if isinstance(action, SendDatagram)]

"""A path with a rate and a queue: what it carries and drops, and what waits in the link."""

from __future__ import annotations

import hashlib
import random

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Counts, Dropped, End, Ended, Opened
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramOutcome, Input, LinkRoom
from aqueduct_core.transport.in_memory.early import EarlyMemoryLink
from aqueduct_core.transport.in_memory.link import MemoryLink
from aqueduct_core.transport.in_memory.path import PACKET, MemoryPath
from tests.core.transport.probe import Probe
from tests.support.rules import rule


def test_a_path_carries_its_rate_and_drops_what_its_queue_does_not_hold() -> None:
    path = MemoryPath(rate=1_000.0, queue=2_000, delay=0.5)
    path.window = 10_000
    path.datagrams.extend(SendDatagram(bytes(500), token) for token in range(6))
    passages = path.advance(0.0)
    assert [passage.arrives for passage in passages] == [1.0, 1.5, 2.0, 2.5, None, None]
    assert path.dropped == 2
    assert path.next_at == 1.5  # the first answer: half a second back


def test_the_window_bounds_what_is_under_way_and_is_halved_once_for_one_loss() -> None:
    path = MemoryPath(rate=100_000.0, queue=10 * PACKET, delay=0.05)
    path.datagrams.extend(SendDatagram(bytes(PACKET), token) for token in range(1_000))
    assert len(path.advance(0.0)) == 10
    before, largest, halvings = path.window, path.window, 0
    while path.dropped == 0:
        assert path.next_at is not None
        path.advance(path.next_at)
        largest = max(largest, path.window)
    while path.datagrams:
        assert path.next_at is not None
        path.advance(path.next_at)
        halvings += path.window < before
        before = path.window
    # what a round trip and the queue hold together is where it settles
    held = 100_000 * 0.1 + 10 * PACKET
    assert held / 2.5 < path.window < 2 * held
    assert 1 <= halvings < path.dropped


def memory(**options: float) -> tuple[MemoryLink, Probe, Probe, list[Input]]:
    inputs: list[Input] = []
    client, server = Probe(client=True, on_input=inputs.append), Probe(client=False)
    return MemoryLink(client, server, **options), client, server, inputs  # type: ignore[arg-type]


def test_the_link_says_what_has_left_and_how_much_it_holds() -> None:
    link, client, server, inputs = memory(rate=10_000.0, queue=5_000, delay=0.1)
    for token in range(40):
        client.datagram(bytes(1_000), token=token)
    link.kick()
    left = [input.token for input in inputs if isinstance(input, DatagramOutcome)]
    assert left == [11]  # the first window
    assert any(isinstance(input, LinkRoom) for input in inputs)
    assert link.client.unsent == 28_000
    link.run_until(lambda: link.client.unsent == 0)
    left = [input.token for input in inputs if isinstance(input, DatagramOutcome)]
    assert left == sorted(set(left))
    assert left[-1] == 39
    link.run_for(2.0)
    assert len(server.datagrams) == 40 - link.client.counts.datagrams_lost < 40


@pytest.mark.parametrize("seed", range(3))
def test_streams_arrive_whole_over_a_narrow_path(seed: int) -> None:
    link, client, server, _ = memory(
        seed=seed, rate=50_000.0, queue=4_000, delay=0.02, jitter=0.01, cut=0.2
    )
    rng = random.Random(seed)
    sent = {}
    for _ in range(10):
        stream = client.open()
        sent[stream] = data = rng.randbytes(rng.randrange(1, 20_000))
        client.write(stream, data, end=True)
        for _ in range(10):
            client.datagram(bytes(1_000))
    link.run_until(lambda: len(server.ended) == 10)
    assert link.client.path is not None
    assert link.client.path.dropped > link.client.counts.datagrams_lost > 0
    for stream, data in sent.items():
        assert server.digests[stream].digest() == hashlib.sha256(data).digest()


def test_a_reset_gives_back_the_credit_of_what_waited_for_the_path() -> None:
    link, client, server, _ = memory(
        rate=10_000.0, queue=5_000, stream_window=20_000, connection_window=20_000
    )
    for _ in range(4):
        stream = client.open()
        client.write(stream, bytes(20_000))
        link.kick()
        client.reset(stream, 4)
        link.run_for(0.1)
    last = client.open()
    client.write(last, bytes(20_000), end=True)
    link.run_until(lambda: last in server.ended)
    assert server.streams[last] == 20_000
    assert link.client.unsent == 0


def over(link: MemoryLink, messages: int, seconds: float) -> tuple[Counts, Counts, int]:
    """Offer messages of 1 KB on a channel of their own: the totals of both ends when it has
    finished, and how many the sender dropped."""
    engine = link.client.engine
    assert isinstance(engine, AqueductEngine)
    link.run_until(lambda: any(isinstance(event, Opened) for event in link.client.events))
    sent = engine.send(0, b"", now=link.now, attach=[Attach(sends=True)])
    (channel,) = sent.attached
    for _ in range(messages):
        engine.send(channel, bytes(1_000), now=link.now, mode=Mode.UNRELIABLE)
        link.run_for(seconds / messages)
    engine.finish(channel, link.now)
    link.run_until(lambda: not engine.half_open(channel), limit=60)

    def end(events: list[object]) -> Counts:
        (ended,) = (n for n in events if isinstance(n, Ended) and n.channel == channel)
        assert ended.end is End.FINISHED
        return ended.counts

    dropped = sum(n.messages for n in link.client.events if isinstance(n, Dropped))
    return end(link.client.events), end(link.server.events), dropped


def engines(config: Config | None = None) -> tuple[AqueductEngine, AqueductEngine]:
    server = AqueductEngine(Side.SERVER, (), Config(auto_accept=True))
    return AqueductEngine(Side.CLIENT, (), config or Config()), server


@rule("AQ-SEND-6")
@pytest.mark.parametrize(
    ("queue", "delay", "loss"), [(10_000, 0.02, 0.0), (100_000, 0.01, 0.0), (50_000, 0.1, 0.01)]
)
def test_no_message_is_late_because_the_path_is_slow(queue: int, delay: float, loss: float) -> None:
    """2 Mbit/s for 6 s over 1 Mbit/s."""
    link = MemoryLink(*engines(), rate=125_000.0, queue=queue, delay=delay, loss=loss)
    sent, received, dropped = over(link, 1_500, 6.0)
    assert received.late == 0
    assert dropped == 0
    assert sent.unreliable_sent == 1_500
    assert sent.nacked == link.client.counts.datagrams_lost < 150


@rule("AQ-FLOW-5")
def test_the_oldest_make_way_where_the_path_stays_too_slow() -> None:
    config = Config(send_queue_messages=50)
    link = MemoryLink(*engines(config), rate=125_000.0, queue=50_000, delay=0.02)
    sent, received, dropped = over(link, 1_500, 6.0)
    assert received.late == 0
    assert sent.unreliable_sent + dropped == 1_500
    assert sent.nacked == link.client.counts.datagrams_lost
    assert sent.acked >= 0.9 * 750


@pytest.mark.parametrize("accepts", [True, False])
def test_early_datagrams_leave_before_the_link_is_ready(accepts: bool) -> None:
    """Those that a server does not take have left all the same, and are nacked."""
    link = EarlyMemoryLink(*engines(), accepts=accepts, rate=125_000.0, queue=50_000, delay=0.05)
    engine = link.client.engine
    assert isinstance(engine, AqueductEngine)
    link.kick()
    engine.send(0, b"early", now=link.now, mode=Mode.UNRELIABLE)
    engine.finish(0, link.now)
    link.run_until(lambda: not engine.half_open(0))
    (ended,) = (event for event in link.client.events if isinstance(event, Ended))
    assert (ended.counts.acked, ended.counts.nacked) == ((1, 0) if accepts else (0, 1))

"""Unreliable messages on a path slower than they are offered: real links on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from aqueduct_core.aqueduct.engine import Attach, Config, Mode
from aqueduct_core.aqueduct.events import Counts, Dropped, End, Ended, Opened
from aqueduct_core.engine.message_batch import MessageBatch
from tests.core.transport.narrow import NarrowPath
from tests.support.rules import rule

MEGABIT = 125_000.0
SIZE = 1_000
MESSAGES, SECONDS = 1_500, 6.0
"""2 Mbit/s."""


@dataclass
class Outcome:
    """When the unreliable channel has ended: the totals of both ends, the messages that were
    dropped without a number, and how long each ordered message took that was sent beside them."""

    sent: Counts
    received: Counts
    dropped: int
    delays: list[float]


def offer(path: NarrowPath, *, ordered: int = 0) -> Outcome:
    """Offer the messages evenly on a channel of their own, and wait until it has finished."""
    client, engine = path.client, path.client.engine
    path.wait_for(client, Opened)
    begun = path.now
    carrier = engine.send(0, b"", now=begun, attach=[Attach(sends=True)])
    (channel,) = carrier.attached
    given: list[float] = []

    def send() -> None:
        engine.send(channel, bytes(SIZE), now=path.now, mode=Mode.UNRELIABLE)

    def send_ordered() -> None:
        engine.send(0, bytes(200), now=path.now)
        given.append(path.now)

    for i in range(MESSAGES):
        path.at(begun + SECONDS * i / MESSAGES, send)
    for i in range(ordered):
        path.at(begun + SECONDS * i / ordered, send_ordered)
    path.at(begun + SECONDS, lambda: engine.finish(channel, path.now))
    mine = path.wait_for(client, Ended, channel)
    server = path.server
    assert server is not None
    (theirs,) = path.told(server, Ended, channel)
    assert mine.end is theirs.end is End.FINISHED
    runs = [(now, n) for now, n in server.events if isinstance(n, MessageBatch) and not n.channel]
    taken = [now for now, run in runs for number in range(run.first, run.first + run.count)]
    return Outcome(
        mine.counts,
        theirs.counts,
        sum(event.messages for event in path.told(client, Dropped, channel)),
        [there - here for here, there in zip(given, taken[1:], strict=True)],
    )


@rule("AQ-SEND-6")
@pytest.mark.parametrize(
    ("queue", "delay", "loss"),
    [
        (10_000, 0.02, 0.0),
        (100_000, 0.01, 0.0),
        pytest.param(50_000, 0.1, 0.0, marks=pytest.mark.long),
        (50_000, 0.02, 0.01),
    ],
)
def test_what_a_slow_path_carries_is_acked(queue: int, delay: float, loss: float) -> None:
    """2 Mbit/s for 6 s over 1 Mbit/s. A message is declared sent when it has left, so none is
    nacked because it waited, and only those that the path dropped are nacked at all."""
    path = NarrowPath(rate=MEGABIT, queue=queue, delay=delay, loss=loss)
    outcome = offer(path)
    sent, lost = outcome.sent, path.client.dropped
    assert sent.unreliable_sent == MESSAGES
    assert outcome.received.late == 0
    assert sent.nacked <= lost < MESSAGES // 15
    assert sent.acked == MESSAGES - sent.nacked
    assert sent.acked * SIZE >= 0.9 * path.client.carried


@rule("AQ-FLOW-5")
def test_what_waits_too_long_for_the_path_is_dropped_unnumbered() -> None:
    """The engine's queue, not the link's, holds what waits: so the oldest can be given up."""
    path = NarrowPath(rate=MEGABIT, queue=50_000, delay=0.02, client=Config(send_queue_messages=50))
    outcome = offer(path)
    sent = outcome.sent
    assert sent.unreliable_sent + outcome.dropped == MESSAGES
    assert outcome.dropped > MESSAGES // 3
    assert outcome.received.late == 0
    assert sent.nacked <= path.client.dropped
    # all that fits the path in that time, but for headers and what the queue held at the end
    assert sent.acked >= 0.9 * SECONDS * MEGABIT / SIZE


def test_ordered_messages_share_the_path() -> None:
    """A flood of datagrams does not hold up streams: those wait for the path alone."""
    path = NarrowPath(rate=MEGABIT, queue=20_000, delay=0.02)
    outcome = offer(path, ordered=100)
    assert outcome.received.late == 0
    assert outcome.sent.acked >= 0.9 * MESSAGES
    queue_seconds = 20_000 / MEGABIT
    assert max(outcome.delays) < 5 * (0.02 + queue_seconds)

"""The toy's two ends over a link in memory: stored is answered, readings have outcomes."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.engine.inputs import LinkLost, StreamBytes
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.toy.engine import MALFORMED, Settled, Stored, TopicFinished, TopicOpened, Toy, ToyEvent


class Ends:
    """A client, and a server that stores at once."""

    def __init__(self, **chances: float) -> None:
        self.client, self.server = Toy(client=True), Toy(client=False)
        self.told: list[ToyEvent] = []
        self.heard: list[ToyEvent] = []
        self.link = MemoryLink(
            self.client,
            self.server,
            max_streams_bidi=100,
            datagram_outcomes=True,
            on_client_events=self.told.extend,
            on_server_events=self.store,
            **chances,  # type: ignore[arg-type]
        )

    def store(self, events: list[ToyEvent]) -> None:
        self.heard += events
        now = self.link.network.now
        engine: StorageEngine[ToyEvent] = self.server
        for event in events:
            if isinstance(event, MessageBatch):
                stop = event.first + event.count
                engine.stored(event.channel, event.first, stop, reliable=event.reliable, now=now)
                engine.consumed(event.channel, event.size, now)
            elif isinstance(event, TopicFinished):
                engine.confirm(event.channel, now)

    def payloads(self, *, reliable: bool) -> list[bytes]:
        return [
            item.payload
            for batch in self.heard
            if isinstance(batch, MessageBatch) and batch.reliable is reliable
            for item in batch.messages()
        ]


@pytest.mark.parametrize("seed", range(20))
def test_messages_are_stored_in_order_and_answered(seed: int) -> None:
    ends = Ends(seed=seed, cut=0.5, jitter=0.02)
    topic = ends.client.open("weather")
    messages = [bytes(n % 300) for n in range(500)]
    for message in messages:
        ends.client.send(topic, message)
    ends.client.finish(topic)
    while ends.link.network.step():
        pass
    assert ends.payloads(reliable=True) == messages
    assert TopicOpened(topic, "weather") in ends.heard
    assert [event for event in ends.told if isinstance(event, Stored)][-1] == Stored(topic, 500)
    assert isinstance(ends.told[-1], TopicFinished)


def test_each_reading_has_its_outcome_and_the_lost_ones_are_those_that_did_not_come() -> None:
    ends = Ends(seed=3, loss=0.3)
    topic = ends.client.open("wind")
    ends.link.run_for(1.0)
    for n in range(200):
        ends.client.read_out(topic, b"%d" % n)
    ends.link.run_for(5.0)
    settled = [event for event in ends.told if isinstance(event, Settled)]
    assert sorted(event.number for event in settled) == list(range(200))
    came = {int(payload) for payload in ends.payloads(reliable=False)}
    assert {event.number for event in settled if event.acked} == came
    assert 100 < len(came) < 180


def test_what_cannot_be_read_closes_the_link_with_a_code() -> None:
    ends = Ends()
    ends.link.run_for(1.0)
    ends.server.handle(StreamBytes(0, b"\x80\x00", False), 1.0)
    assert ends.server.closed == LinkLost(
        MALFORMED, "a varint that is not in its shortest form", by_peer=False
    )

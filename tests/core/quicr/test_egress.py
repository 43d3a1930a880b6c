"""What one connection sends, where its peer does not read all of it."""

from __future__ import annotations

from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramOutcome,
    LinkReady,
    LinkRoom,
    StreamBytes,
)
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.egress import PARTS, STALL
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.wire.codec import encode
from aqueduct_core.quicr.wire.messages import RequestMessage
from tests.core.quicr.ends import media, queue_of
from tests.support.rules import rule

ROOM = 20_000


def serving(sizes: dict[int, int], *, datagrams: int) -> QuicrEngine:
    """A server of media of one object: on the streams of ``sizes``, and in datagrams of the other
    stream, which are sent first. Nobody reads the streams."""
    engine = QuicrEngine(client=False, config=QuicrConfig(dropping=None))
    engine.handle(LinkReady(1_200, datagram_outcomes=True, stream_progress=True), 0.0)
    engine.handle(LinkRoom(PARTS * ROOM), 0.0)
    for stream in (datagrams, *sizes):
        wanted = RequestMessage(b"m", 0 if stream == datagrams else None)
        engine.handle(StreamBytes(stream, encode(wanted), False), 0.0)
    engine.serve(datagrams, queue_of(media(1)), 0.0)
    for token in sent(engine):
        engine.handle(DatagramOutcome(token, DatagramFate.LEFT), 0.0)
    for stream, size in sizes.items():
        engine.serve(stream, queue_of(media(1, size=size)), 0.0)
        engine.actions()
    return engine


def sent(engine: QuicrEngine) -> list[int]:
    """The tokens of the datagrams that go now."""
    return [each.token for each in engine.actions() if isinstance(each, SendDatagram)]


@rule("Q-31")
def test_what_is_lost_does_not_wait_for_the_readers_of_streams() -> None:
    """All that else there was to send is in the link, and stays there."""
    engine = serving({0: 9_000, 4: 9_000, 8: 1_200}, datagrams=12)
    engine.handle(DatagramOutcome(1, DatagramFate.LOST), 1.0)
    assert sent(engine) == []
    assert engine.wake_at == 1.0 + STALL
    engine.tick(1.0 + STALL)
    assert sent(engine) == [2]

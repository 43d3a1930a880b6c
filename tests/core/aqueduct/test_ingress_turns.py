"""Streams of the peer on their way in."""

from __future__ import annotations

from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-SEQ-9")
def test_a_stream_that_waited_goes_on_after_the_rest() -> None:
    server = Wire.server()
    server.engine.pause()
    stream = server.stream("0300" + "0400000001")
    assert server.events(MessageBatch) == []
    server.engine.resume(0)
    server.stream("61" + "0401000001" + "62", stream)
    assert [batch.payload for batch in server.events(MessageBatch)] == [b"ab"]
    assert server.code is None


@rule("AQ-SEQ-4")
def test_a_reset_that_came_while_a_stream_waited_is_heeded_behind_its_frames() -> None:
    server = Wire.server()
    server.engine.pause()
    stream = server.stream("0300" + "0400000001" + "61" + "0401000005" + "62")
    server.reset(stream)
    assert server.events(MessageBatch) == []
    server.engine.resume(0)
    assert [batch.payload for batch in server.events(MessageBatch)] == [b"a"]
    server.stream("0300" + "0401000001" + "62")
    assert [batch.payload for batch in server.events(MessageBatch)] == [b"b"]
    assert server.code is None

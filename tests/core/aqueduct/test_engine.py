"""The connection as a whole: errors, ends, events, numbers, the engine contract."""

from __future__ import annotations

import logging
from collections.abc import Callable
from unittest.mock import ANY

import numpy as np
import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Closed, Delivered, End, Ended
from aqueduct_core.aqueduct.faults import Code, ConnectionOver, LocalError, ResetCode
from aqueduct_core.aqueduct.outbox import Outbox, Rank
from aqueduct_core.engine.actions import CloseLink, WriteStream
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import LinkLost, StreamStopped
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.pair import Pair
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-ERR-1", "AQ-ERR-2")
def test_the_first_error_ends_everything() -> None:
    server = Wire.server()
    server.stream("030004000004080002000" + "0")
    server.pump()
    server.engine.send(2, b"never sent", now=0)
    server.stream("ff")
    server.stream("0300ff")
    assert server.sent() == ["7: 0308", "11: 0302", "CLOSE 2"]
    events = server.all_events()
    assert [type(each) for each in events] == [MessageBatch, Ended, Ended, Ended, Closed]
    assert {each.end for each in events if isinstance(each, Ended)} == {End.CONNECTION_LOST}
    assert server.engine.closed == events[-1] == Closed(Code.ENCODING, ANY, by_peer=False)
    assert server.engine.wake_at is None
    server.stream("030004010000026869")
    server.engine.tick(100)
    assert server.sent() == []
    assert server.all_events() == []
    for act in (
        lambda: server.engine.send(2, b"", now=0),
        lambda: server.engine.stored(0, 0, 1, reliable=True, now=0),
        lambda: server.engine.close(0, 0),
        lambda: server.engine.drop([], 0),
    ):
        with pytest.raises(ConnectionOver):
            act()
    server.engine.consumed(0, 7, 0)
    server.engine.shutdown(0, "", 0)
    assert server.sent() == []


def test_error_codes() -> None:
    assert [code.value for code in Code] == list(range(11))
    assert [code.value for code in ResetCode] == [0, 1, 2]


@pytest.mark.parametrize("origin", CloseOrigin)
@rule("AQ-ERR-3", "AQ-LOST-1")
def test_a_lost_link_leaves_outcomes_open(origin: CloseOrigin) -> None:
    client = Wire.client()
    client.engine.send(0, b"x", now=0, attach=[Attach(True)])
    client.engine.handle(LinkLost(7, "gone", True, origin), 0)
    assert client.sent() == []
    events = client.all_events()
    assert not any(isinstance(each, Delivered) for each in events)
    assert [(each.channel, each.end) for each in events if isinstance(each, Ended)] == [
        (0, End.CONNECTION_LOST),
        (8, End.CONNECTION_LOST),
    ]
    assert events[-1] == Closed(7, "gone", True, origin)
    client.engine.handle(LinkLost(8, "again", True), 0)
    assert client.all_events() == []


@rule("AQ-LIFE-24")
def test_shutdown_sends_what_is_due_first() -> None:
    server = Wire.server(Config(auto_accept=True, ack_mode=AckMode.ON_STORED))
    server.stream("030004000000026869")
    server.pump()
    server.engine.stored(0, 0, 1, reliable=True, now=0)
    server.engine.shutdown(0, "done", 0)
    server.pump()
    assert server.actions[-1] == CloseLink(0, "done")
    assert server.sent() == ["7: 030008020001", "CLOSE 0"]
    assert server.all_events()[-1] == Closed(0, "done", False)


@rule("AQ-LIFE-24")
def test_a_shutdown_in_the_burst_of_the_handshake_answers_it_first() -> None:
    server = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True)))
    server.stream("V0200", end=True)
    server.engine.shutdown(0, "", 0)
    assert server.sent() == ["3: V020001 FIN", "CLOSE 0"]


@pytest.mark.parametrize(
    "command",
    [
        lambda engine: engine.send(2, b"", now=3.0),
        lambda engine: engine.send_many(2, [b"x"], now=3.0),
        lambda engine: engine.finish(2, 3.0),
        lambda engine: engine.cancel(2, 3.0),
        lambda engine: engine.close(8, 3.0),
        lambda engine: engine.drop((), 3.0),
        lambda engine: engine.stored(8, 0, 0, reliable=True, now=3.0),
        lambda engine: engine.refused(8, 0, 0, 3.0),
        lambda engine: engine.confirm(8, 3.0),
        lambda engine: engine.consumed(8, 0, 3.0),
        lambda engine: engine.resume(3.0),
        lambda engine: engine.shutdown(0, "", 3.0),
    ],
)
@rule("AQ-LOST-3")
def test_what_is_due_happens_whatever_was_commanded_last(
    command: Callable[[AqueductEngine], object],
) -> None:
    """Here it is the loss of channel 24, whose carrier was not stored."""
    server = Wire.server(Config(auto_accept=True, ack_mode=AckMode.ON_STORED))
    server.stream("0300" + "04000006" + "080010000200" + "00")
    server.stream("0310" + "04000002" + "1800" + "00")
    server.engine.stored(0, 0, 1, reliable=True, now=0)
    server.fresh()
    server.engine.close(16, 1.0)
    command(server.engine)
    assert (24, End.LOST) in [(ended.channel, ended.end) for ended in server.events(Ended)]
    assert not server.code


def test_a_bug_of_ours_closes_only_this_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Wire.server()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server.engine._ingress, "stream_bytes", broken)
    with caplog.at_level(logging.ERROR):
        server.stream("0300")
    assert server.code == Code.INTERNAL
    assert "internal error" in caplog.text


def test_it_is_an_engine() -> None:
    engine: Engine[object] = AqueductEngine(Side.CLIENT)  # type: ignore[assignment]
    assert engine.wake_at == 10.0
    assert [type(action) for action in engine.actions()] == [WriteStream]
    assert engine.actions() == []
    assert engine.events() == []


def test_runs_merge_within_a_burst() -> None:
    server = Wire.server()
    first = server.stream("030004000000016104010000016" + "2")
    server.stream("040200000163040304016b0176000164", first)
    server.stream("0300" + "0404000001" + "65")
    (batch,) = server.events(MessageBatch)
    assert (batch.first, batch.count, batch.payload) == (0, 5, b"abcde")
    assert batch.offsets.dtype == np.int64
    assert batch.offsets.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.headers == {3: ((b"k", b"v"),)}
    messages = list(batch.messages())
    assert [m.number for m in messages] == [0, 1, 2, 3, 4]
    assert messages[3].headers == ((b"k", b"v"),)
    assert batch.size == 6 * 5 + 4
    server.stream("0300" + "0405000001" + "66")
    (after,) = server.events(MessageBatch)
    assert after.first == 5


def test_a_gap_makes_two_runs() -> None:
    server = Wire.server()
    server.stream("0300" + "0401000001" + "62")
    server.stream("0300" + "0400000001" + "61")
    assert [(batch.first, batch.count) for batch in server.events(MessageBatch)] == [(1, 1), (0, 1)]


def test_deliveries_merge_within_a_burst() -> None:
    client = Wire.client()
    client.engine.send_many(0, [b"x"] * 9, now=0)
    stream = client.stream("030008020003")
    client.stream("08020303", stream)
    client.stream("08020603", stream)
    assert client.events(Delivered) == [Delivered(0, True, 0, 9, True)]


def test_statistics() -> None:
    pair = Pair().connect()
    pair.client.send_many(0, [b"abc"] * 10, now=pair.now)
    pair.settle()
    assert pair.client.statistics.messages_sent == 10
    assert pair.server.statistics.messages_received == 10
    assert pair.server.statistics.queued_bytes == 80
    assert pair.server.statistics.open_channels == 1


def test_misuse_is_the_callers_fault() -> None:
    assert not issubclass(LocalError, OSError)
    client = Wire.client()
    with pytest.raises(LocalError):
        client.engine.finish(1234, 0)
    assert client.code is None


# --- outbox --------------------------------------------------------------------------------


def outbox() -> Outbox:
    return Outbox(Side.CLIENT, lambda: b"")


def test_control_leaves_before_messages() -> None:
    box = outbox()
    for rank in (Rank.MESSAGE, Rank.SENDER, Rank.FORGET, Rank.RECEIVER, Rank.PREAMBLE):
        box.write(box.open(rank), b"x", rank)
    assert [action.stream_id for action in box.take()] == [18, 14, 10, 6, 2]  # type: ignore[union-attr]


def test_writes_of_one_burst_leave_as_one() -> None:
    box = outbox()
    stream = box.open(Rank.MESSAGE)
    box.write(stream, b"ab", Rank.MESSAGE)
    box.write(stream, b"cd", Rank.MESSAGE, end=True)
    box.write(stream, b"never", Rank.MESSAGE)
    assert box.take() == [WriteStream(stream, b"abcd", True)]
    assert box.take() == []


def test_a_reset_drops_what_has_not_left() -> None:
    client = Wire.client()
    client.engine.send(0, b"x", now=0, mode=Mode.UNORDERED)
    client.engine.handle(StreamStopped(10, 0), 0)
    assert client.sent() == ["RESET 10"]


def test_a_drop_leaves_only_the_close() -> None:
    box = outbox()
    box.write(box.open(Rank.MESSAGE), b"x", Rank.MESSAGE)
    box.consumed(3, 5)
    box.datagram(b"y")
    box.close(1, "why", drop=True)
    assert box.take() == [CloseLink(1, "why")]

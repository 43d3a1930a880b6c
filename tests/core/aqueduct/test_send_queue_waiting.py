"""Messages that wait in their queue for credit: bounds, order, and how the queue ends."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.events import (
    Dropped,
    End,
    Ended,
    Numbered,
    Writable,
)
from aqueduct_core.aqueduct.faults import NotAllowed, QueueFull
from aqueduct_core.aqueduct.wire import codec
from tests.support.flow import HI, client
from tests.support.rules import rule


@rule("AQ-FLOW-5")
def test_a_queue_that_is_full_refuses_until_there_is_room() -> None:
    wire = client(10, send_queue_messages=2)
    for number in (0, None, None):
        assert wire.engine.send(0, b"hi", now=0).number == number
    with pytest.raises(QueueFull):
        wire.engine.send(0, b"hi", now=0)
    assert wire.events(Writable) == []
    wire.stream("03000c07")
    assert wire.events(Writable) == [Writable(0)]
    assert wire.engine.send(0, b"hi", now=0).number is None
    assert wire.events(Writable) == []


@rule("AQ-FLOW-5")
@pytest.mark.parametrize(
    "limits", [{"send_queue_bytes": 150}, {"send_queue_connection_bytes": 150}]
)
def test_the_bytes_of_the_queues_are_bounded(limits: dict[str, int]) -> None:
    wire = client(10, **limits)
    wire.engine.send(0, b"hi", now=0)
    assert wire.engine.send(0, b"x" * 1000, now=0).number is None  # the first one always waits
    with pytest.raises(QueueFull):
        wire.engine.send(0, b"hi", now=0)
    wire.stream("03000c07")
    assert wire.events(Writable) == [Writable(0)]


@rule("AQ-FLOW-5", "AQ-SEND-12")
def test_a_blocked_unreliable_sender_drops_its_oldest() -> None:
    wire = client(10, send_queue_messages=2)
    wire.engine.send(0, b"aa", now=0, mode=Mode.UNRELIABLE)
    for text, attach in ((b"bb", [Attach(True)]), (b"cc", []), (b"dd", [])):
        sent = wire.engine.send(0, text, now=0, mode=Mode.UNRELIABLE, attach=attach)
        assert (sent.number, sent.attached) == (None, ())
    assert wire.events(Dropped) == [Dropped(0, 1)]  # with the channel that it would have carried
    assert wire.engine.open_channels == 1
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2)]
    assert wire.sent() == ["d: 0300" + "0401000002" + "6363"]


@rule("AQ-SEND-12", "AQ-CHANID-4")
def test_the_index_of_a_dropped_carrier_is_not_lost() -> None:
    wire = client(10, send_queue_messages=1)
    wire.engine.send(0, b"aa", now=0, mode=Mode.UNRELIABLE)
    wire.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    wire.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    assert wire.events(Dropped) == [Dropped(0, 1)]
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2, (8,))]
    assert not any("RESET" in text or text.endswith("0b FIN") for text in wire.sent())


@rule("AQ-SEND-11")
def test_a_channel_is_made_when_its_carrier_leaves() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    sent = wire.engine.send(0, b"hi", now=0, attach=[Attach(True)])
    assert sent.attached == ()
    assert not wire.engine.half_open(8)
    wire.sent()
    wire.stream("03000c07")
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2, (8,))]
    assert wire.engine.half_open(8)


@rule("AQ-FLOW-5", "AQ-SEND-11")
def test_a_message_with_attachments_that_waits_for_room_goes_when_a_channel_has_ended() -> None:
    wire = client(14, max_channels=3)
    (child,) = wire.engine.send(0, b"", now=0, attach=[Attach(True)]).attached
    wire.engine.send(0, b"hi", now=0)
    assert wire.engine.send(0, b"", now=0, attach=[Attach(True)]).number is None
    wire.engine.send(child, b"", now=0, attach=[Attach(False)])
    wire.stream("03000c0e")
    assert wire.events(Numbered) == []
    wire.stream("030207")
    assert [event.first for event in wire.events(Numbered)] == [2]


@rule("AQ-FLOW-11")
def test_a_finish_waits_for_what_is_queued_and_control_frames_never_wait() -> None:
    wire = client(10)
    for _ in range(3):
        wire.engine.send(0, b"hi", now=0)
    wire.engine.finish(0, now=0)
    for command in (wire.engine.finish, wire.engine.cancel):
        with pytest.raises(NotAllowed):
            command(0, 0)
    assert wire.sent() == ["10: 0300" + HI + "6869"]
    control = wire.stream("0300" + "0c07")
    assert wire.sent() == ["10: 0401000002" + "6869"]
    wire.stream("0c07", control)
    assert wire.sent() == ["10: 0402000002" + "6869" + "0603 FIN"]
    wire.stream("08020003" + "0a", control)
    assert wire.events(Ended)[0].end is End.FINISHED


@rule("AQ-FLOW-11")
def test_a_cancel_does_not_wait() -> None:
    wire = client(10)
    for _ in range(3):
        wire.engine.send(0, b"hi", now=0)
    wire.sent()
    wire.engine.cancel(0, now=0)
    assert wire.sent() == ["14: 030007 FIN", "RESET 10"]
    assert wire.events(Dropped) == [Dropped(0, 2)]


def test_a_close_before_the_queue_was_sent_is_no_good_end() -> None:
    wire = client(10)
    wire.engine.send(0, b"hi", now=0)
    wire.engine.send(0, b"hi", now=0)
    wire.engine.finish(0, now=0)
    wire.stream("0300" + "08020001" + "0a")
    assert wire.events(Dropped) == [Dropped(0, 1)]
    assert wire.events(Ended)[0].end is End.CLOSED


@rule("AQ-SEND-14", "AQ-FLOW-11")
def test_a_oneshot_that_waits_finishes_behind_its_message() -> None:
    wire = client(0, 10)
    (channel,) = wire.engine.send(0, b"hi", now=0, attach=[Attach(True, oneshot=True)]).attached
    assert wire.engine.send(channel, b"r", now=0).number is None
    with pytest.raises(NotAllowed):
        wire.engine.send(channel, b"r", now=0)
    wire.sent()
    wire.stream("0300" + "0c09")
    assert wire.sent() == [f"14: 03{channel:02x}" + "040000000172" + "0601 FIN"]


@rule("AQ-FLOW-4")
def test_bulk_sends_take_what_has_credit() -> None:
    wire = client(20)
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0) == (0, 2)
    assert wire.events(Writable) == []
    assert wire.engine.send_many(0, [b"hi"], now=0) == (2, 2)
    control = wire.stream("0300" + "0c07")
    assert wire.events(Writable) == [Writable(0)]
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0) == (2, 3)
    wire.stream("0c0e", control)
    assert wire.engine.send_many(0, [b"x" * 100] * 5, now=0) == (3, 4)
    assert wire.engine.statistics.outstanding == 105


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("mode", [Mode.UNORDERED, Mode.UNRELIABLE])
def test_bulk_sends_in_other_modes(mode: Mode) -> None:
    wire = client(20)
    assert wire.engine.send_many(0, [b"hi"] * 5, now=0, mode=mode) == (0, 2)
    wire.engine.send(0, b"hi", now=0, mode=mode)
    assert wire.engine.send_many(0, [b"hi"], now=0, mode=mode) == (2, 2)
    wire.stream("0300" + "0c0e")
    assert wire.events(Numbered) == [Numbered(0, mode is Mode.UNORDERED, 2, 3)]
    assert wire.events(Writable) == [Writable(0)]


@rule("AQ-FLOW-4", "AQ-SEND-10")
def test_a_cancelled_channel_gives_its_turn_for_the_total_to_others() -> None:
    wire = client(0, 60)
    attach = [Attach(True), Attach(True)]
    large, small = wire.engine.send(0, b"", now=0, attach=attach).attached
    wire.engine.send(0, b"x" * 20, now=0)
    assert wire.engine.send(large, b"x" * 30, now=0).number is None
    wire.stream("03000c01")  # too little for it, but it has the turn now
    wire.pump()
    assert wire.engine.send(small, b"x", now=0).number is None
    wire.fresh()
    wire.engine.cancel(large, 0)
    assert wire.events(Numbered) == [Numbered(small, True, 0, 1)]
    assert wire.engine.statistics.waiting == 0


@rule("AQ-FLOW-4")
def test_credit_of_one_channel_has_no_other_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = client(10)
    channels = wire.engine.send(0, b"", now=0, attach=[Attach(True)] * 100).attached
    for channel in channels:
        for number in (0, None):
            assert wire.engine.send(channel, b"hi", now=0).number == number
    wire.sent()
    looked: list[int] = []
    release = wire.engine._egress._release_one

    def noted(channel: int, now: float) -> bool:
        looked.append(channel)
        return release(channel, now)

    monkeypatch.setattr(wire.engine._egress, "_release_one", noted)
    control = codec.encode_route_to(channels[7]).hex()
    wire.stream(control + "0c07")
    assert wire.events(Numbered) == [Numbered(channels[7], True, 1, 2)]
    assert looked == [channels[7]]


@rule("AQ-FLOW-5")
def test_room_for_all_queues_is_told_to_those_of_other_channels() -> None:
    wire = client(10, send_queue_connection_bytes=150)
    one, other = wire.engine.send(0, b"", now=0, attach=[Attach(True)] * 2).attached
    wire.engine.send(one, b"hi", now=0)
    assert wire.engine.send(one, b"x" * 1000, now=0).number is None
    wire.engine.send(other, b"hi", now=0)
    with pytest.raises(QueueFull):
        wire.engine.send(other, b"hi", now=0)
    wire.sent()
    wire.engine.cancel(one, 0)
    wire.sent()
    assert wire.events(Writable) == [Writable(other)]

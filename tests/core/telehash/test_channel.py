"""A channel: when it acks, what it sends again, and when it is over."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import DatagramLimit, LinkReady
from aqueduct_core.telehash.config import MAX_SEQ
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelWritable,
    CloseReason,
    PacketsAcked,
)
from aqueduct_core.telehash.faults import (
    ChannelOver,
    PacketFault,
    PacketTooLarge,
    SequenceExhausted,
    WindowFull,
)
from tests.core.telehash.raw import Raw, receiving, sending
from tests.support.rules import rule

# --- acks -----------------------------------------------------------------------------------


@rule("T-6", "T-10")
def test_no_ack_before_the_first_packet_was_processed() -> None:
    raw = receiving(done=0)
    raw.wait(5)
    assert raw.sent() == []


@rule("T-6", "T-7", "T-8")
def test_the_ack_follows_what_was_processed_and_is_no_content() -> None:
    raw = receiving(done=0)
    raw.hear_all({"c": 2, "seq": 1}, {"c": 2, "seq": 2})
    raw.engine.done(2, 2, raw.now)
    raw.turn()
    raw.wait(0.1)
    assert raw.heads() == [{"c": 2, "ack": 1}]
    raw.engine.stored(2, 2, 3, reliable=True, now=raw.now)
    raw.turn()
    raw.wait(0.1)
    assert raw.heads() == [{"c": 2, "ack": 2}]


@rule("T-6")
def test_what_was_processed_out_of_order_is_acked_when_the_rest_was() -> None:
    raw = receiving(done=1)
    raw.hear_all(*({"c": 2, "seq": seq} for seq in range(1, 6)))
    raw.engine.stored(2, 3, 6, reliable=True, now=raw.now)
    raw.turn()
    raw.wait(0.5)
    assert raw.heads() == []
    raw.engine.stored(2, 1, 3, reliable=True, now=raw.now)
    raw.turn()
    raw.wait(0.5)
    assert raw.heads() == [{"c": 2, "ack": 5}]


@rule("T-10")
def test_an_ack_goes_within_a_second_though_nothing_new_was_processed() -> None:
    raw = receiving()
    raw.hear({"c": 2, "seq": 1})
    began = raw.now
    raw.wait(2.5)
    [ack] = raw.sent()
    assert ack.head == {"c": 2, "ack": 0}
    assert 0 < ack.at - began <= 1.0


@rule("T-10", "T-5")
def test_a_packet_that_comes_again_is_acked_again_and_not_delivered_again() -> None:
    raw = receiving(done=3)
    for seq in (1, 2, 0):
        raw.hear({"c": 2, "seq": seq} | ({"type": "_t"} if not seq else {}))
        began = raw.now
        raw.wait(0.5)
        [ack] = raw.sent()
        assert ack.head == {"c": 2, "ack": 2}
        assert ack.at - began <= 1.0
    assert raw.bodies(2) == [b"0", b"1", b"2"]
    assert raw.faults() == {}


def test_a_part_of_the_window_that_was_processed_is_acked_at_once() -> None:
    raw = receiving()
    raw.hear_all(*({"c": 2, "seq": seq} for seq in range(1, 9)))
    raw.engine.done(2, 8, raw.now)
    raw.turn()
    assert raw.heads() == []
    raw.engine.done(2, 9, raw.now)
    raw.turn()
    assert raw.heads() == [{"c": 2, "ack": 8}]


@rule("T-6", "T-15")
def test_every_packet_of_ours_has_the_newest_ack() -> None:
    raw = receiving()
    raw.engine.send(2, body=b"a", now=raw.now)
    raw.turn()
    assert raw.heads() == [{"c": 2, "seq": 0, "ack": 0}]
    raw.hear({"c": 2, "seq": 1})
    raw.engine.done(2, 2, raw.now)
    raw.hear({"c": 2, "seq": 3})
    raw.turn()
    raw.wait(0.1)
    raw.sent()
    raw.hear({"c": 2, "miss": [0]})
    assert raw.sent()[-1][1:3] == ({"c": 2, "seq": 0, "ack": 1, "miss": [2]}, b"a")


@rule("T-6", "T-9", "T-20")
def test_acks_of_the_peer_rise_and_none_is_of_what_was_not_sent() -> None:
    raw = sending(4)
    assert raw.hear({"c": 1, "ack": 1}) == [PacketsAcked(1, 2)]
    assert raw.hear({"c": 1, "ack": 0}) == []
    assert raw.hear({"c": 1, "ack": 1}) == []
    raw.hear({"c": 1, "ack": 4, "seq": 0}, b"counts all the same")
    assert raw.faults() == {PacketFault.ACK_BEYOND_SENT: 1}
    assert raw.bodies(1) == [b"counts all the same"]
    assert raw.hear({"c": 1, "ack": 3}) == [PacketsAcked(1, 4)]


# --- what is missing ------------------------------------------------------------------------


@rule("T-11")
def test_what_is_missing_goes_with_each_ack_while_it_is_missing() -> None:
    raw = receiving()
    raw.hear_all({"c": 2, "seq": 2}, {"c": 2, "seq": 4})
    raw.wait(0.1)
    assert raw.heads() == [{"c": 2, "ack": 0, "miss": [1, 3]}]
    raw.wait(2.0)
    assert raw.heads() == [{"c": 2, "ack": 0, "miss": [1, 3]}] * 2
    raw.hear_all({"c": 2, "seq": 1}, {"c": 2, "seq": 3})
    raw.wait(2.0)
    assert raw.heads() == [{"c": 2, "ack": 0}]


@rule("T-11")
def test_it_is_asked_for_no_longer_than_the_peer_is_heard() -> None:
    raw = receiving()
    raw.hear({"c": 2, "seq": 2})
    raw.wait(60)
    assert len(raw.sent()) < 15


@rule("T-11", "T-12")
def test_what_does_not_fit_a_packet_is_asked_for_later() -> None:
    raw = receiving(max_datagram=256)
    raw.hear({"c": 2, "seq": 90})
    raw.wait(0.1)
    [ack] = raw.sent()
    assert ack.size <= 256
    assert 10 < len(ack.head["miss"]) < 30


@rule("T-11")
def test_an_opening_that_is_late_is_asked_for_and_nothing_is_lost() -> None:
    raw = Raw()
    raw.hear_all({"c": 2, "seq": 2}, {"c": 2, "seq": 1})
    raw.wait(0.1)
    assert raw.heads() == [{"c": 2, "miss": [0]}]
    assert raw.events == []
    raw.hear({"c": 2, "seq": 0, "type": "_t"}, b"0")
    assert raw.bodies(2) == [b"0", b"1", b"2"]
    raw.engine.done(2, 3, raw.now)
    raw.turn()
    raw.wait(0.1)
    # telehash-js reads an ack behind a miss that had none only where there is a miss
    assert raw.heads() == [{"c": 2, "ack": 2, "miss": [2]}]


# --- windows and numbers --------------------------------------------------------------------


@rule("T-4")
def test_no_more_than_the_window_is_under_way() -> None:
    raw = sending(32)
    assert raw.engine.room(1) == 0
    with pytest.raises(WindowFull):
        raw.engine.send(1, body=b"x", now=0)
    assert len(raw.sent()) == 32
    assert raw.hear({"c": 1, "ack": 3}) == [PacketsAcked(1, 4), ChannelWritable(1)]
    assert raw.engine.room(1) == 4
    assert raw.hear({"c": 1, "ack": 5}) == [PacketsAcked(1, 6)]


@rule("T-4", "T-16")
def test_a_window_that_was_full_for_nine_seconds_goes_on() -> None:
    raw = sending(32)
    raw.wait(9)
    assert not raw.told(ChannelClosed)
    assert raw.hear({"c": 1, "ack": 31}) == [PacketsAcked(1, 32), ChannelWritable(1)]
    raw.sent()
    assert raw.engine.send(1, body=b"on", now=raw.now) == 32
    raw.turn()
    assert raw.heads() == [{"c": 1, "seq": 32}]
    raw.wait(9)
    assert not raw.told(ChannelClosed)


@rule("T-3")
def test_the_highest_number_is_of_an_end_and_there_is_none_behind() -> None:
    raw = sending(1)
    raw.hear({"c": 1, "ack": 0})
    half = raw.engine._channels.get(1)._sending  # type: ignore[union-attr]
    half.next_seq = half.sent = half.acked = MAX_SEQ  # type: ignore[union-attr]
    with pytest.raises(SequenceExhausted, match="4294967295"):
        raw.engine.send(1, body=b"x", now=0)
    raw.sent()
    assert raw.engine.send(1, body=b"last", end=True, now=0) == MAX_SEQ
    with pytest.raises(ChannelOver):
        raw.engine.send(1, body=b"x", now=0)
    raw.turn()
    assert raw.heads() == [{"c": 1, "seq": MAX_SEQ, "end": True}]
    assert raw.hear({"c": 1, "ack": MAX_SEQ})[-1] == ChannelClosed(1, CloseReason.ENDED)


@rule("P-1")
def test_what_does_not_fit_is_refused_before_it_has_a_number() -> None:
    raw = sending(1)
    with pytest.raises(PacketTooLarge) as refused:
        raw.engine.send(1, body=bytes(1_200), now=0)
    assert (refused.value.limit, refused.value.size) == (1_156, 1_200 + 2 + 7 + 17 + 17)
    fits = 1_156 - (2 + 7 + 17 + 17)
    assert raw.engine.send(1, body=bytes(fits), now=0) == 1
    with pytest.raises(PacketTooLarge):
        raw.engine.open("_t", reliable=False, body=bytes(1_156), now=0)
    assert raw.engine.open("_t", reliable=False, body=b"", now=0) == 3


def test_a_path_that_carries_less_fails_the_channel_whose_packet_is_too_large() -> None:
    raw = Raw()
    raw.engine.open("_t", reliable=True, body=b"0", now=0)
    raw.engine.send(1, body=bytes(1_000), now=0)
    raw.handle(DatagramLimit(300))
    [closed] = raw.told(ChannelClosed)
    assert closed.reason is CloseReason.FAILED
    assert "a packet of 1043 bytes: 300 fit" in closed.err
    assert raw.heads()[-1]["err"] == closed.err


def test_what_was_sent_before_the_link_was_ready_goes_then() -> None:
    raw = Raw()
    raw.engine = type(raw.engine)(odd=True)
    raw.engine.open("_t", reliable=True, now=0)
    raw.turn()
    assert raw.heads() == []
    raw.handle(LinkReady(1_156))
    assert raw.heads() == [{"c": 1, "seq": 0, "type": "_t"}]


# --- resends --------------------------------------------------------------------------------


@rule("T-16", "P-7")
def test_the_last_packet_goes_every_two_seconds_and_then_the_channel_fails() -> None:
    raw = sending(1)
    raw.wait(11)
    assert [(each.at, each.head.get("seq")) for each in raw.out] == [
        (0, 0), (2, 0), (4, 0), (6, 0), (8, 0), (10, None),
    ]  # fmt: skip
    assert raw.out[-1].head == {"c": 1, "err": "timeout"}
    assert raw.told(ChannelClosed) == [
        ChannelClosed(1, CloseReason.TIMED_OUT, "timeout", unacked=1)
    ]


@rule("T-15", "T-16")
def test_what_goes_again_is_what_went_first() -> None:
    raw = Raw()
    raw.engine.open("_t", reliable=True, js={"a": 1}, body=b"0", now=0)
    raw.turn()
    raw.wait(2)
    first, again = raw.sent()
    assert (first.head, first.body) == (again.head, again.body)

"""A channel: when it acks, what it sends again, and when it is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aqueduct_core.engine.inputs import DatagramLimit, LinkReady
from aqueduct_core.telehash.config import MAX_SEQ, TelehashConfig
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelWritable,
    CloseReason,
    PacketBatch,
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


# --- how it ends ----------------------------------------------------------------------------


@rule("P-5", "T-17", "T-18")
def test_an_end_of_ours_is_over_when_it_was_acked() -> None:
    raw = sending(2)
    raw.engine.send(1, body=b"last", end=True, now=0)
    raw.turn()
    with pytest.raises(ChannelOver, match="we have ended channel 1"):
        raw.engine.send(1, body=b"more", now=0)
    assert not raw.told(ChannelClosed)
    assert raw.hear({"c": 1, "ack": 2}) == [PacketsAcked(1, 3), ChannelClosed(1, CloseReason.ENDED)]


@rule("P-5", "T-17", "T-18")
def test_an_end_of_the_peer_is_over_when_it_was_processed() -> None:
    raw = receiving()
    raw.hear({"c": 2, "seq": 1, "end": True}, b"last")
    assert raw.told(PacketBatch)[-1].end
    raw.engine.send(2, body=b"an answer", now=raw.now)
    raw.turn()
    raw.hear({"c": 2, "ack": 0})
    raw.engine.done(2, 2, raw.now)
    assert raw.turn() == [ChannelClosed(2, CloseReason.PEER_ENDED, by_peer=True)]
    assert raw.heads()[-1] == {"c": 2, "ack": 1}
    with pytest.raises(ChannelOver):
        raw.engine.send(2, body=b"more", now=raw.now)


@rule("T-17")
def test_the_end_is_acked_again_for_as_long_as_it_comes_again() -> None:
    raw = receiving()
    raw.hear({"c": 2, "seq": 1, "end": True})
    raw.engine.done(2, 2, raw.now)
    raw.turn()
    raw.sent()
    for _ in range(3):
        raw.wait(9)
        raw.hear({"c": 2, "seq": 1, "end": True})
        raw.wait(0.5)
        assert raw.heads() == [{"c": 2, "ack": 1}]
    raw.wait(11)
    raw.hear({"c": 2, "seq": 1, "end": True})
    raw.wait(1)
    assert raw.heads() == []
    assert raw.faults() == {PacketFault.UNKNOWN_CHANNEL: 1}


def test_the_ack_of_an_end_waits_for_what_is_under_way_to_its_sender() -> None:
    raw = receiving()
    raw.engine.send(2, body=b"an answer", now=raw.now)
    raw.hear({"c": 2, "seq": 1, "end": True})
    raw.engine.done(2, 2, raw.now)
    raw.turn()
    raw.wait(1)
    assert {head["ack"] for head in raw.heads()} == {0}
    assert raw.hear({"c": 2, "ack": 0})[-1] == ChannelClosed(2, CloseReason.PEER_ENDED, None, True)
    assert raw.heads()[-1] == {"c": 2, "ack": 1}


def test_where_both_have_ended_who_opened_does_not_wait() -> None:
    raw = sending(1)
    raw.engine.send(1, body=b"last", end=True, now=0)
    raw.hear({"c": 1, "seq": 0, "end": True, "ack": 0})
    raw.engine.done(1, 1, raw.now)
    raw.turn()
    raw.wait(0.1)
    assert raw.heads()[-1] == {"c": 1, "ack": 0}
    assert raw.hear({"c": 1, "ack": 1})[-1] == ChannelClosed(1, CloseReason.ENDED)


@rule("P-7")
def test_an_answer_that_is_never_acked_does_not_keep_a_channel_that_the_peer_ended() -> None:
    raw = receiving()
    raw.engine.send(2, body=b"an answer", now=raw.now)
    raw.hear({"c": 2, "seq": 1, "end": True})
    raw.engine.done(2, 2, raw.now)
    events = raw.wait(11)
    assert events == [ChannelClosed(2, CloseReason.PEER_ENDED, None, True, unacked=1)]
    assert raw.heads()[-1] == {"c": 2, "ack": 1}


def test_our_end_waits_for_what_came_of_the_peer_to_be_processed_but_not_for_ever() -> None:
    for processed in (True, False):
        raw = sending(1)
        raw.hear({"c": 1, "ack": 0, "seq": 0}, b"an answer")
        raw.engine.send(1, end=True, now=0)
        raw.turn()
        raw.hear({"c": 1, "ack": 1})
        assert not raw.told(ChannelClosed)
        if processed:
            raw.engine.done(1, 1, raw.now)
            raw.turn()
            assert raw.heads()[-1] == {"c": 1, "ack": 0}
        else:
            raw.wait(11)
        assert raw.told(ChannelClosed) == [ChannelClosed(1, CloseReason.ENDED)]


@rule("P-6", "T-2", "T-19")
def test_err_of_ours_goes_at_once_and_nothing_behind_it() -> None:
    raw = receiving(done=3)
    raw.engine.send(2, body=b"waits", now=raw.now)
    raw.hear({"c": 2, "seq": 3})
    raw.engine.fail(2, "no such type", raw.now)
    raw.turn()
    assert raw.told(ChannelClosed) == [
        ChannelClosed(2, CloseReason.FAILED, "no such type", unacked=1)
    ]
    assert raw.heads()[-1] == {"c": 2, "err": "no such type"}
    raw.wait(20)
    assert raw.heads() == []


@rule("P-6")
def test_who_has_not_heard_of_a_failure_hears_it_again() -> None:
    raw = receiving()
    raw.engine.fail(2, "no", raw.now)
    raw.turn()
    raw.sent()
    for _ in range(5):
        raw.hear({"c": 2, "seq": 1})
        raw.wait(0.1)
    assert raw.heads() == [{"c": 2, "err": "no"}]


@rule("P-6", "T-19")
def test_err_of_the_peer_drops_what_waits_even_ahead_of_what_is_missing() -> None:
    raw = receiving()
    raw.engine.send(2, body=b"waits", now=raw.now)
    raw.hear({"c": 2, "seq": 2})
    raw.sent()
    assert raw.hear({"c": 2, "err": "because"}) == [
        ChannelClosed(2, CloseReason.FAILED, "because", by_peer=True, unacked=1)
    ]
    raw.hear({"c": 2, "seq": 1})
    raw.hear({"c": 2, "ack": 0})
    raw.wait(20)
    assert raw.bodies(2) == [b"0"]
    assert [head for head in raw.heads() if "seq" in head] == []
    assert raw.faults() == {}
    assert raw.engine.footprint.size == 0


@pytest.mark.parametrize("text", ["x" * 1_000, "\x00" * 1_000, "\ud800", "\U0001f600" * 200])
def test_any_text_of_a_failure_fits(text: str) -> None:
    raw = receiving(max_datagram=700)
    raw.engine.fail(2, text, raw.now)
    raw.turn()
    assert len(raw.sent()) == 1
    assert raw.out[-1].size <= 700


def test_an_unreliable_channel_has_no_numbers_and_no_acks() -> None:
    raw = Raw()
    raw.hear({"c": 2, "type": "_t", "_": {"a": 1}}, b"0")
    raw.hear({"c": 2}, b"1")
    raw.engine.send(2, body=b"back", now=0)
    raw.engine.done(2, 2, 0)
    raw.turn()
    assert raw.hear({"c": 2, "end": True}, b"2") == [
        raw.events[-2],
        ChannelClosed(2, CloseReason.PEER_ENDED, by_peer=True),
    ]
    assert raw.bodies(2) == [b"0", b"1", b"2"]
    assert [batch.first for batch in raw.told(PacketBatch)] == [0, 1, 2]
    raw.wait(20)
    assert raw.heads() == [{"c": 2}]


def test_an_unreliable_channel_of_ours_is_over_when_its_end_was_sent() -> None:
    raw = Raw(config=TelehashConfig(window=2))
    channel = raw.engine.open("_t", reliable=False, body=b"0", now=0)
    assert raw.engine.send(channel, end=True, now=0) is None
    with pytest.raises(ChannelOver):
        raw.engine.send(channel, body=b"x", now=0)
    assert raw.turn() == [ChannelClosed(channel, CloseReason.ENDED)]
    assert raw.heads() == [{"c": 1, "type": "_t"}, {"c": 1, "end": True}]


# --- the states, as a table -----------------------------------------------------------------

STATES: dict[str, Callable[[Raw], None]] = {
    "open": lambda raw: None,
    "we have ended": lambda raw: _command(raw, lambda: raw.engine.send(1, end=True, now=raw.now)),
    "peer's end came": lambda raw: _hear(raw, {"c": 1, "seq": 0, "end": True, "ack": 0}),
    "peer's end processed": lambda raw: _process_end(raw),
    "failed": lambda raw: _command(raw, lambda: raw.engine.fail(1, "no", raw.now)),
}
INPUTS: dict[str, Callable[[Raw], None]] = {
    "ack of all": lambda raw: _hear(raw, {"c": 1, "ack": raw.out[-1].head.get("seq", 0)}),
    "content": lambda raw: _hear(raw, {"c": 1, "seq": 5}),
    "err": lambda raw: _hear(raw, {"c": 1, "err": "x"}),
    "silence": lambda raw: _wait(raw),
}
TABLE = {
    # state: ack of all, content, err, silence
    "open": (None, None, CloseReason.FAILED, CloseReason.TIMED_OUT),
    "we have ended": (CloseReason.ENDED, None, CloseReason.FAILED, CloseReason.TIMED_OUT),
    "peer's end came": (None, None, CloseReason.FAILED, None),
    "peer's end processed": (
        CloseReason.PEER_ENDED,
        None,
        CloseReason.FAILED,
        CloseReason.PEER_ENDED,
    ),
    "failed": (CloseReason.FAILED,) * 4,
}


def _hear(raw: Raw, head: dict[str, object]) -> None:
    raw.hear(head)


def _command(raw: Raw, command: Callable[[], object]) -> None:
    command()
    raw.turn()


def _process_end(raw: Raw) -> None:
    raw.hear({"c": 1, "seq": 0, "end": True})
    raw.engine.done(1, 1, raw.now)
    raw.turn()


def _wait(raw: Raw) -> None:
    raw.wait(11)


@rule("P-5", "P-6", "T-16", "T-17", "T-18", "T-19")
@pytest.mark.parametrize("state", STATES)
def test_each_state_goes_where_its_row_says(state: str) -> None:
    for input, expected in zip(INPUTS, TABLE[state], strict=True):
        raw = sending(1)
        STATES[state](raw)
        INPUTS[input](raw)
        closed = raw.told(ChannelClosed)
        assert [each.reason for each in closed] == ([expected] if expected else []), input

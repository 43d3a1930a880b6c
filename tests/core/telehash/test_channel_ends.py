"""How a channel ends: by an end or an err of either side, by silence, and in which state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.events import (
    ChannelClosed,
    CloseReason,
    PacketBatch,
    PacketsAcked,
)
from aqueduct_core.telehash.faults import ChannelOver, PacketFault
from tests.core.telehash.raw import Raw, receiving, sending
from tests.support.rules import rule


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

"""Datagrams that are not acknowledged: repeated, or counted as received."""

from __future__ import annotations

from aqueduct_core.engine.inputs import DatagramFate
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.sending import MediaSender
from aqueduct_core.quicr.sent_datagrams import ENTRY_BYTES, SentDatagrams, SentPiece
from tests.support.rules import rule

PIECE = Fragment(0, 1, 0, b"data", True, 0x81, 30)


def sender_of(unconfirmed: int) -> MediaSender:
    sender = MediaSender(0, ObjectQueue(), 0, None)
    sender.unconfirmed = unconfirmed
    return sender


def sent_of(sender: MediaSender, *tokens: int, told: bool = True) -> SentDatagrams:
    """Each 10 ms after the one before, from 5.0 on."""
    sent = SentDatagrams(0.1)
    sent.told = told
    for at, token in enumerate(tokens):
        now = 5.0 + at / 100
        sent.add(token, SentPiece(sender, PIECE, now), now)
    return sent


def test_what_is_acknowledged_is_let_go() -> None:
    sender = sender_of(2)
    sent = sent_of(sender, 1, 2)
    assert sent.size == 2 * (ENTRY_BYTES + 4)
    for token in (2, 1):
        assert sent.outcome(token, DatagramFate.LEFT, 5.1) is None
        assert sent.outcome(token, DatagramFate.ACKED, 5.1) is sender
        assert sent.outcome(token, DatagramFate.ACKED, 5.1) is None
    assert (sender.unconfirmed, sent.size, sent.repeats) == (0, 0, 0)


@rule("Q-31")
def test_what_is_lost_is_repeated_and_says_how_long_it_waited() -> None:
    """In milliseconds, rounded, beside those of the hops before; from its first sending on."""
    sender = sender_of(1)
    sent = sent_of(sender, 1)
    for token, now, delay in ((1, 5.0424, 72), (2, 5.0976, 128)):
        assert sent.outcome(token, DatagramFate.LOST, now) is None
        assert sent.repeats == 1
        assert sent.size == ENTRY_BYTES + 4
        piece = sent.take_repeat()
        assert sent.size == 0
        assert piece.repeated(now).queue_delay == delay
        sent.add(token + 1, piece, now)
    assert sender.unconfirmed == 1


def test_what_the_link_refused_is_repeated() -> None:
    sent = sent_of(sender_of(1), 1)
    sent.outcome(1, DatagramFate.REFUSED, 5.0)
    assert sent.take_repeat().repeated(5.0) == PIECE


@rule("Q-33")
def test_without_word_of_the_link_each_is_sent_twice_and_counts_then() -> None:
    sender = sender_of(2)
    sent = sent_of(sender, 1, 2, told=False)
    assert sent.wake_at == 5.1
    assert sent.expire(5.05) == []
    assert sent.expire(5.1) == []
    assert sent.repeats == 1
    sent.add(3, sent.take_repeat(), 5.1)
    assert sent.expire(5.15) == []
    sent.add(4, sent.take_repeat(), 5.15)
    assert sent.expire(5.3) == [sender, sender]
    assert (sender.unconfirmed, sent.size, sent.wake_at) == (0, 0, None)


def test_what_is_known_to_be_there_is_not_repeated() -> None:
    sender = sender_of(1)
    sent = sent_of(sender, 1, told=False)
    assert sent.outcome(1, DatagramFate.ACKED, 5.01) is sender
    assert sent.expire(6.0) == []
    assert sent.repeats == 0


def test_of_a_transaction_that_is_over_nothing_is_repeated() -> None:
    over, other = sender_of(2), sender_of(1)
    sent = sent_of(over, 1, 2)
    sent.add(3, SentPiece(other, PIECE, 5.0), 5.0)
    for token in (1, 3):
        sent.outcome(token, DatagramFate.LOST, 5.1)
    sent.forget(over)
    assert sent.outcome(2, DatagramFate.LOST, 5.2) is None
    assert sent.repeats == 1
    assert sent.size == ENTRY_BYTES + 4
    assert sent.take_repeat().sender is other

"""What of a channel waits for its ack, and since when."""

from __future__ import annotations

from aqueduct_core.intake.telehash.rows import TelehashSource
from aqueduct_core.intake.telehash.taken_channels import TakenChannel, TakenChannels


def channel(number: int = 1, *, reliable: bool = True) -> TakenChannel:
    return TakenChannel(TelehashSource("_a", "peer", "line", number), reliable)


def test_the_oldest_packet_without_an_ack_says_since_when() -> None:
    one = channel()
    assert (one.unacked, one.waits_since) == (0, None)
    one.hand(3, 10.0)
    one.hand(5, 11.0)
    assert (one.unacked, one.waits_since) == (5, 10.0)
    one.ack(2)
    assert (one.unacked, one.waits_since) == (3, 10.0)
    one.ack(3)
    assert (one.unacked, one.waits_since) == (2, 11.0)
    one.ack(1)
    assert one.unacked == 2
    one.ack(5)
    assert (one.unacked, one.waits_since) == (0, None)


def test_an_unreliable_one_waits_for_nothing() -> None:
    one = channel(reliable=False)
    one.hand(3, 10.0)
    assert (one.unacked, one.waits_since) == (0, None)


def test_neighbours_with_marks_of_one_writer_have_one_source() -> None:
    one = channel()
    plain = one.source_of(None)
    marked = one.source_of("q/0")
    assert marked.by_source
    assert one.source_of("q/0") is marked
    assert one.source_of("q/1") is not marked
    assert one.source_of(None) == plain


def test_all_channels_of_a_line() -> None:
    channels = TakenChannels()
    for number in (1, 3):
        channels.add(channel(number))
    assert (len(channels), 3 in channels, channels.get(5)) == (2, True, None)
    memory = channels.memory
    found = channels.get(3)
    assert found is not None
    found.hand(4, 0.0)
    assert channels.unacked == (4, 1)
    assert channels.pop(1) is not None
    assert channels.pop(1) is None
    assert 0 < channels.memory < memory
    assert channels.clear() == [found]
    assert (len(channels), channels.unacked) == (0, (0, 0))

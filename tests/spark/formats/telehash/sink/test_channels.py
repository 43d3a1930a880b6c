"""Which packet of a channel is which row, until it is acked."""

from __future__ import annotations

from aqueduct_core.telehash.config import MAX_SEQ
from aqueduct_spark.formats.telehash.sink.channels import RowChannel
from aqueduct_spark.write.batches import RowAccount


def sending(*rows: int, seq: int = 0) -> tuple[RowChannel, RowAccount]:
    account = RowAccount()
    account.take(100)
    channel = RowChannel(1, account, seq)
    for row in rows:
        channel.sent(row)
    return channel, account


def test_packets_are_rows_wherever_these_begin() -> None:
    channel, account = sending(7, 8, 9)
    assert (channel.next, channel.unacked) == (3, 3)
    assert channel.acked(2)
    assert list(account.acked_rows) == [(7, 9)]
    assert channel.acked(3)
    assert list(account.acked_rows) == [(7, 10)]
    assert channel.unacked == 0
    channel.sent(10)
    channel.acked(4)
    assert list(account.acked_rows) == [(7, 11)]


def test_rows_need_not_follow_each_other() -> None:
    """What a lost line gives back has holes where another channel was acked."""
    channel, account = sending(0, 1, 5, 6, 7, 3)
    channel.acked(3)
    assert list(account.acked_rows) == [(0, 2), (5, 6)]
    channel.acked(6)
    assert list(account.acked_rows) == [(0, 2), (3, 4), (5, 8)]


def test_packets_of_an_earlier_attempt_are_none_of_its_rows() -> None:
    channel, account = sending(0, 1, seq=40)
    assert not channel.acked(40)
    assert channel.unacked == 2
    assert channel.acked(41)
    assert list(account.acked_rows) == [(0, 1)]


def test_what_is_acked_again_is_no_news() -> None:
    channel, account = sending(0, 1)
    assert channel.acked(2)
    assert not channel.acked(1)
    assert not channel.acked(9)
    assert account.acked == 2


def test_a_channel_knows_its_last_number() -> None:
    channel, _ = sending(seq=MAX_SEQ - 1)
    assert not channel.exhausted
    channel.sent(0)
    assert channel.exhausted

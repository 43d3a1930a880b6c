"""Acks and nacks in both number spaces, on receipt and on storage."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AckMode, Config
from aqueduct_core.aqueduct.events import Counts, End, Ended, Nacked
from aqueduct_core.aqueduct.faults import BadArgument, Code
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.primitives import varint
from tests.support.receiving import STORED, known, message
from tests.support.rules import rule
from tests.support.wire import Wire, ends


@rule("AQ-ACK-2", "AQ-ACK-3")
def test_acks_count_from_zero_and_name_each_number_once() -> None:
    server = Wire.server()
    for number in (0, 1, 2, 5, 9, 10):
        server.stream("0300" + message(number))
    server.advance(0.02)
    assert server.sent() == ["7: 03000806000302010302"]
    for number in (3, 4, 6):
        server.stream("0300" + message(number))
    server.advance(0.02)
    assert server.sent() == ["7: 080403020101"]


@rule("AQ-ACK-4")
def test_a_reliable_number_twice() -> None:
    server = Wire.server()
    server.stream("0300" + message(0))
    server.stream("0300" + message(0))
    assert server.code == Code.STATE


@rule("AQ-ACK-4")
def test_a_block_that_overlaps() -> None:
    server = Wire.server()
    server.stream("0300" + message(2))
    server.stream("0300" + "".join(message(n) for n in range(4)))
    assert server.code == Code.STATE


@rule("AQ-SEND-7", "AQ-SEND-8")
@pytest.mark.parametrize("second", ["0501", "0600"])
def test_declarations_on_two_streams(second: str) -> None:
    server = known()
    server.stream("03080501")
    server.stream("0308" + second)
    assert server.code == Code.STATE


@rule("AQ-ACK-5", "AQ-ACK-6", "AQ-ACK-7")
def test_each_batch_is_answered_at_its_own_deadline() -> None:
    server = known()
    control = server.stream("03080503")
    server.advance(0.4)
    server.datagram("0308" + message(4))
    server.stream("0502", control)
    server.advance(0.6)
    assert server.sent() == ["7: 09020003"]
    server.advance(0.4)
    assert server.sent() == ["7: 09030001" + "01"]
    assert server.events(Nacked) == [Nacked(8, 0, 3), Nacked(8, 3, 4)]


@rule("AQ-ACK-6", "AQ-ACK-13")
def test_declarations_above_the_limit_are_answered_with_the_last() -> None:
    server = known(config=Config(auto_accept=True, max_unanswered_declarations=2))
    control = server.stream("03080501")
    for _ in range(2):
        server.advance(0.1)
        server.stream("0501", control)
    server.advance(0.8)
    assert server.sent() == ["7: 09020001"]
    server.advance(0.1)
    assert server.sent() == []
    server.advance(0.1)
    assert server.sent() == ["7: 09020002"]


@rule("AQ-ACK-11")
def test_a_datagram_number_twice() -> None:
    server = known()
    server.datagram("0308" + message(0))
    server.datagram("0308" + message(0))
    assert len(server.events(MessageBatch)) == 1
    assert server.code == Code.STATE


@rule("AQ-ACK-10")
def test_attachments_of_a_nacked_datagram_make_nothing() -> None:
    server = known()
    server.stream("03080501")
    server.advance(1)
    server.sent()
    server.datagram("0308" + "040000" + "021000" + "00")
    assert not server.engine.half_open(16)
    assert server.sent() == []
    assert server.events(MessageBatch) == []
    server.engine.close(8, server.now)
    (ended,) = server.events(Ended)
    assert ended.counts.late == 1


@rule("AQ-ACK-12")
def test_all_declared_came_in_is_acked_at_once() -> None:
    server = known()
    for number in range(2):
        server.datagram("0308" + message(number))
    server.stream("030805020600")
    assert server.sent() == ["7: 0901020a FIN"]


@rule("AQ-ACK-12")
def test_one_missing_waits_for_the_deadline() -> None:
    server = known()
    server.datagram("0308" + message(0))
    server.stream("030805020600")
    server.advance(0.99)
    assert server.sent() == []
    assert server.engine.half_open(8)
    server.advance(0.01)
    assert server.sent() == ["7: 090201010a FIN"]
    assert ends(server) == [(8, End.FINISHED)]


@rule("AQ-ACK-12")
def test_early_acks_can_be_switched_off() -> None:
    server = known(config=Config(auto_accept=True, early_unreliable_ack=False))
    server.datagram("0308" + message(0))
    server.stream("030805010600")
    server.advance(0.99)
    assert server.sent() == []
    server.advance(0.01)
    assert server.sent() == ["7: 0901010a FIN"]


@rule("AQ-ACK-12")
def test_a_declared_prefix_that_is_whole_is_acked_early() -> None:
    server = known()
    server.datagram("0308" + message(0))
    server.stream("03080501")
    server.advance(0.02)
    assert server.sent() == ["7: 090101"]
    server.advance(2)
    assert server.sent() == []


@rule("AQ-ACK-14")
def test_windows() -> None:
    config = Config(auto_accept=True, max_reliable_window=10, max_unreliable_window=10)
    server = known(config=config)
    server.datagram("0308" + message(11))
    assert server.events(MessageBatch) == []
    server.datagram("0308" + message(10))
    assert len(server.events(MessageBatch)) == 1
    server.stream("0308" + message(10))
    assert server.code is None
    server.stream("0308" + message(11))
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-ACK-14")
def test_holes_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_ranges_per_space=3))
    for number in (0, 2, 4):
        server.stream("0300" + message(number))
    assert server.code is None
    server.stream("0300" + message(6))
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-ACK-13")
def test_a_huge_declaration_costs_nothing() -> None:
    server = known()
    server.stream("030805" + varint.encode((1 << 62) - 2).hex())
    server.advance(1)
    assert server.sent() == ["7: 090a00" + varint.encode((1 << 62) - 2).hex()]
    server.datagram("0308" + message(5))
    assert server.events(MessageBatch) == []


@rule("AQ-FRAME-14")
@pytest.mark.parametrize(("total", "code"), [((1 << 62) - 1, None), (1 << 62, Code.RESOURCE_LIMIT)])
def test_the_sum_of_declarations_ends_below_two_to_the_62(total: int, code: Code | None) -> None:
    server = known()
    half = 1 << 61
    server.stream("0308" + "".join(f"05{varint.encode(n).hex()}" for n in (half, total - half)))
    assert server.code == code


@rule("AQ-ACK-15")
def test_on_stored_acks_only_what_is_stored() -> None:
    server = Wire.server(STORED)
    server.stream("0300" + message(0) + message(1) + "0602", end=True)
    server.advance(5)
    assert server.sent() == []
    server.engine.stored(0, 0, 1, reliable=True, now=server.now)
    assert server.sent() == ["7: 030008020001"]
    assert server.engine.half_open(0)
    server.engine.stored(0, 0, 2, reliable=True, now=server.now)
    assert server.sent() == ["7: 080201010a FIN"]
    assert ends(server) == [(0, End.FINISHED)]


@rule("AQ-ACK-15", "AQ-LIFE-12")
@pytest.mark.parametrize("how", ["close", "cancel"])
def test_on_stored_an_end_flushes_what_is_stored(how: str) -> None:
    server = Wire.server(STORED)
    server.stream("0300" + message(0) + message(1))
    server.pump()
    server.engine.stored(0, 0, 1, reliable=True, now=0)
    if how == "close":
        server.engine.close(0, 0)
    else:
        server.stream("030007")
    assert server.sent() == ["7: 0300080200010a FIN"]


@rule("AQ-ACK-15", "AQ-ACK-6")
def test_on_stored_an_answer_waits_for_the_log() -> None:
    server = known(config=STORED)
    server.datagram("0308" + message(0))
    server.datagram("0308" + message(2))
    server.stream("03080503")
    server.advance(1.5)
    assert server.sent() == []
    # decided at the deadline: what comes now is late
    server.datagram("0308" + message(1))
    assert [batch.first for batch in server.events(MessageBatch)] == [0, 2]
    server.engine.stored(8, 0, 1, reliable=False, now=server.now)
    assert server.sent() == []
    server.engine.stored(8, 2, 3, reliable=False, now=server.now)
    assert server.sent() == ["7: 0903010101"]


@rule("AQ-ACK-10")
def test_what_comes_late_while_the_answer_waits_is_counted() -> None:
    server = known(config=STORED)
    for number in (0, 2, 3):
        server.datagram("0308" + message(number))
    control = server.stream("03080505")
    server.advance(1.5)
    for number in (1, 4):
        server.datagram("0308" + message(number))
    server.engine.stored(8, 0, 1, reliable=False, now=server.now)
    server.engine.stored(8, 2, 4, reliable=False, now=server.now)
    server.stream("0600", control)
    (ended,) = server.events(Ended)
    counts = ended.counts
    assert (counts.late, counts.acked, counts.unreliable_acked, counts.nacked) == (2, 3, 3, 2)


@rule("AQ-ACK-15", "AQ-ACK-12")
def test_on_stored_early_answers() -> None:
    server = known(config=STORED)
    server.datagram("0308" + message(0))
    server.stream("030805010600")
    assert server.sent() == []
    server.pump()
    server.engine.stored(8, 0, 1, reliable=False, now=server.now)
    assert server.sent() == ["7: 0901010a FIN"]


@rule("AQ-ACK-15")
def test_stored_is_checked() -> None:
    server = Wire.server(STORED)
    with pytest.raises(BadArgument):
        server.engine.stored(0, 0, 1, reliable=True, now=0)
    with pytest.raises(BadArgument):
        server.engine.stored(0, 0, 1, reliable=False, now=0)
    server.engine.stored(8, 0, 1, reliable=True, now=0)  # no such channel any more: nothing
    receipt = Wire.server()
    receipt.stream("0300" + message(0))
    with pytest.raises(BadArgument):
        receipt.engine.stored(0, 0, 1, reliable=True, now=0)
    client = Wire.client(Config(ack_mode=AckMode.ON_STORED))
    with pytest.raises(BadArgument):
        client.engine.stored(0, 0, 1, reliable=True, now=0)


@rule("AQ-LIFE-12", "AQ-ACK-7")
def test_a_close_answers_datagrams_up_to_the_highest() -> None:
    server = known()
    for number in (1, 3):
        server.datagram("0308" + message(number))
    server.engine.close(8, server.now)
    assert server.sent() == ["7: 090500010101010a FIN"]
    assert server.events(Nacked) == [Nacked(8, 0, 1), Nacked(8, 2, 3)]


def test_many_ranges_are_split_over_frames() -> None:
    server = Wire.server()
    frames = "".join(message(2 * n) for n in range(5000))
    server.stream("0300" + frames)
    server.advance(0.02)
    (out,) = server.sent()
    data = bytes.fromhex(out.removeprefix("7: 0300"))
    acked: list[tuple[int, int]] = []
    pos = 0
    while pos < len(data):
        assert data[pos] == 8
        frame, pos = codec.decode_ack_reliable(data, pos + 1, len(data), Config())
        acked += frame.ranges
    assert acked == [(2 * n, 2 * n + 1) for n in range(5000)]


def test_many_answers_are_split_over_frames() -> None:
    server = known()
    for n in range(5000):
        server.datagram("0308" + message(2 * n))
    server.stream("030805" + varint.encode(10_000).hex())
    server.advance(1)
    (out,) = server.sent()
    data = bytes.fromhex(out.removeprefix("7: "))
    lengths: list[int] = []
    pos = 0
    while pos < len(data):
        assert data[pos] == 9
        frame, pos = codec.decode_ack_nack(data, pos + 1, len(data), Config())
        assert len(lengths) % 2 == 0
        lengths += frame.lengths
    assert lengths == [1] * 10_000


@rule("AQ-ACK-15")
def test_refused_datagrams_are_nacked() -> None:
    server = known(config=STORED)
    server.datagram("0308" + message(0) + message(1))
    server.stream("03080502")
    server.pump()
    server.engine.stored(8, 0, 1, reliable=False, now=0)
    server.engine.refused(8, 1, 2, now=0)
    server.advance(1)
    assert server.sent() == ["7: 09020101"]


def test_the_counts_of_a_receiver_are_those_of_all_its_acks() -> None:
    server = known()
    control = server.stream("03080502")
    server.datagram("0308" + message(0))
    server.stream("0308" + message(0) + message(1))
    server.advance(1.1)  # datagram 0 is acked, 1 is nacked
    for _ in range(2):
        server.datagram("0308" + message(1))
    server.datagram("0308" + message(2))
    server.datagram("0308" + message(3))
    server.stream("0502" + "0604", control)
    server.stream("0308" + message(2) + message(3))
    (ended,) = server.events(Ended)
    assert ended.counts == Counts(
        reliable_sent=4,
        reliable_received=4,
        unreliable_sent=4,
        acked=7,
        nacked=1,
        late=2,
        unreliable_acked=3,
    )


@rule("AQ-ACK-10", "AQ-ACK-14")
def test_a_datagram_beyond_the_ranges_that_are_kept_is_lost() -> None:
    """It is not told, since it will be nacked."""
    server = known(config=Config(auto_accept=True, max_ranges_per_space=2))
    for number in (0, 2, 4):
        server.datagram("0308" + message(number))
    assert [batch.first for batch in server.events(MessageBatch)] == [0, 2]
    server.stream("03080505")
    server.advance(1)
    assert server.sent() == ["7: 090401010102"]

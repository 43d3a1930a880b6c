"""The resend buffer of a producer's channel: what acks free, and what goes out again."""

from __future__ import annotations

from aqueduct_core.aio.resend_buffer import ResendBuffer


def test_acks_free_the_front_and_a_rewind_brings_the_rest_back() -> None:
    buffer = ResendBuffer()
    for i in range(6):
        buffer.add(b"%d" % i, ())
    assert [entry.number for entry in buffer.take(1 << 20)] == [0, 1, 2, 3, 4, 5]
    assert buffer.ack(2, 4) == 0
    assert buffer.low == 0
    assert buffer.ack(0, 2) == 4 * 65
    assert (buffer.low, len(buffer)) == (4, 2)
    assert buffer.rewind() == 2
    buffer.add(b"6", ())
    assert [entry.number for entry in buffer.take(1 << 20)] == [4, 5, 6]
    assert list(buffer.acked) == [(0, 4)]


def test_bulks_are_of_one_kind_and_bounded() -> None:
    buffer = ResendBuffer()
    header = ((b"k", b"v"),)
    for headers in ((), (), header, header, ()):
        buffer.add(b"x" * 100, headers)
    sizes = []
    while bulk := buffer.take(1 << 20):
        sizes.append(len(bulk))
    assert sizes == [2, 2, 1]
    buffer.rewind()
    assert len(buffer.take(1)) == 1

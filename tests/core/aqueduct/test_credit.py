"""Every byte of a stream comes back as credit exactly once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.aqueduct.events import End, Ended
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.actions import Consumed
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.wire import Wire


def test_a_whole_message_waits_for_the_application() -> None:
    server = Wire.server()
    before = server.received
    server.stream("030004000000026869")
    assert server.credit == 2
    (batch,) = server.events(MessageBatch)
    assert batch.size == 7
    server.engine.consumed(0, batch.size, 0)
    assert server.credit == server.received - before


def test_an_incomplete_frame_does_not_wait() -> None:
    server = Wire.server()
    stream = server.stream("030004000000056869")
    assert server.credit == 9
    server.stream("686868", stream)
    assert server.credit == 9  # the rest is owed
    (batch,) = server.events(MessageBatch)
    server.engine.consumed(0, batch.size, 0)
    assert server.credit == 12


def test_consumed_in_parts_and_too_much() -> None:
    server = Wire.server()
    server.stream("0300040000000161")
    server.stream("0300040100000162")
    for size in (1, 4, 2, 100, 1):
        server.engine.consumed(0, size, 0)
    server.engine.consumed(8, 5, 0)
    assert server.credit == 16
    assert server.engine.statistics.queued_bytes == 0


def test_credit_goes_back_to_the_stream_that_the_bytes_came_on() -> None:
    server = Wire.server()
    first = server.stream("0300" + "0400000001" + "61")
    second = server.stream("0300" + "0401000003" + "616161")
    assert server.engine.actions()[-2:] == [Consumed(first, 2), Consumed(second, 2)]
    (batch,) = server.events(MessageBatch)
    server.engine.consumed(0, batch.size, 0)
    assert server.engine.actions() == [Consumed(first, 6), Consumed(second, 8)]


def test_of_a_message_that_came_slowly_only_the_rest_is_owed() -> None:
    server = Wire.server()
    stream = server.stream("0300" + "0400000008" + "61")
    assert server.credit == 8
    server.stream("61" * 7, stream)
    assert server.credit == 8
    for size, back in ((1, 9), (2, 11), (10, 15)):
        server.engine.consumed(0, size, 0)
        assert server.credit == back


def test_what_is_ignored_comes_back_at_once() -> None:
    server = Wire.server()
    stream = server.stream("0301ffff")
    server.stream("ff" * 10, stream)
    server.engine.close(0, 0)
    server.stream("0300040000000161")
    server.stream("03000400000005" + "6161")
    assert server.credit == 4 + 10 + 8 + 9


def test_a_reset_in_a_frame() -> None:
    server = Wire.server()
    stream = server.stream("030004000000056869")
    server.reset(stream)
    assert server.credit == 9
    server.reset(1000)
    assert server.code is None


def test_the_queue_of_a_channel_that_ends_comes_back() -> None:
    for how in ("close", "cancel", "finish"):
        server = Wire.server()
        before = server.received
        server.stream("0300040000000161", end=False)
        (batch,) = server.events(MessageBatch)
        if how == "close":
            server.engine.close(0, 0)
        elif how == "cancel":
            server.stream("030007")
        else:
            server.stream("03000601")
        if how == "finish":
            assert server.credit == server.received - before - batch.size
        else:
            assert server.credit == server.received - before
        server.engine.consumed(0, batch.size, 0)
        assert server.credit == server.received - before


def test_an_unclaimed_queue_that_is_forgotten_comes_back() -> None:
    server = Wire.server()
    before = server.received
    server.stream("0308040000000161" + "0601")
    assert server.credit == 4
    server.stream("03080b")
    assert server.credit == server.received - before


def test_held_bytes_come_back_when_they_are_processed() -> None:
    server = Wire(AqueductEngine(Side.SERVER))
    server.stream("V0300" + "0601", 6)
    server.stream("V0300", 10)
    server.reset(10)
    assert server.credit == 28 + 30
    server.stream("V0200", 2)
    assert server.credit == 28 + 30 + 30
    server.engine.accept((), 0)
    assert server.credit == 28 + 30 + 30 + 4


def test_an_application_that_never_consumes_loses_its_channel() -> None:
    server = Wire.server(Config(auto_accept=True, max_channel_queue_bytes=20))
    before = server.received
    server.stream("0300" + "0400000008" + "61" * 8)
    assert server.engine.half_open(0)
    server.stream("0300" + "0401000008" + "61" * 8)
    (ended,) = server.events(Ended)
    assert ended.end is End.OVERFLOW
    assert server.credit == server.received - before
    assert server.engine.statistics.overflows == 1
    assert server.code is None


def test_datagrams_over_the_queue_limit_are_lost() -> None:
    server = Wire.server(Config(auto_accept=True, max_connection_queue_bytes=12))
    server.datagram("0300040000000161")
    server.datagram("0300040100000161")
    server.datagram("0300040200000161")
    (batch,) = server.events(MessageBatch)
    assert batch.count == 2
    assert server.engine.half_open(0)
    server.engine.consumed(0, batch.size, 0)
    assert server.credit == 0


def test_partial_frames_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_partial_bytes=100))
    head = "030004000000c801"
    first = server.stream(head + "61" * 40)
    second = server.stream(head.replace("0400", "0401") + "61" * 40)
    assert server.code is None
    server.stream("61" * 160, first)
    server.stream("61" * 40, second)
    assert server.code is None
    server.stream("61" * 40, second)
    assert server.code == Code.RESOURCE_LIMIT


def test_partial_frames_are_bounded_to_the_byte() -> None:
    server = Wire.server(Config(auto_accept=True, max_partial_bytes=47))
    stream = server.stream("030004000000c801" + "61" * 41)
    assert server.code is None
    server.stream("61", stream)
    assert server.code == Code.RESOURCE_LIMIT


def test_partial_frames_are_bounded_after_the_application_caught_up() -> None:
    server = Wire.server(Config(auto_accept=True, max_partial_bytes=120, early_credit_bytes=0))
    streams = [server.stream(f"030004{number:02x}0000c801" + "61" * 24) for number in (0, 1)]
    server.stream("0300" + "0402000001" + "61")
    for _ in range(3):
        for stream in streams:
            server.stream("61" * 5, stream)  # withheld: the application is behind
    (batch,) = server.events(MessageBatch)
    server.engine.consumed(0, batch.size, 0)
    server.pump()
    third = server.stream("0300" + "04030000c801" + "61" * 24)
    assert server.code is None
    server.stream("61", third)
    assert server.code == Code.RESOURCE_LIMIT


def test_a_channel_that_ends_gives_back_what_was_withheld() -> None:
    server = Wire.server(Config(auto_accept=True, early_credit_bytes=5))
    before = server.received
    server.stream("0300" + "0400000008" + "61" * 8 + "0401000008" + "6161")
    assert server.credit == 2  # the application is behind
    server.engine.close(0, 0)
    assert server.credit == server.received - before


def test_an_application_that_catches_up_gives_back_what_was_withheld() -> None:
    server = Wire.server(Config(auto_accept=True, early_credit_bytes=5))
    before = server.received
    server.stream("0300" + "0400000008" + "61" * 8 + "0401000008" + "6161")
    (batch,) = server.events(MessageBatch)
    server.engine.consumed(0, batch.size, 0)
    assert server.credit == server.received - before


MESSAGE = st.tuples(st.integers(0, 40), st.integers(0, 3))


@given(
    streams=st.lists(st.lists(MESSAGE, max_size=8), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=20),
    eager=st.booleans(),
    end=st.sampled_from(["none", "close", "finish", "cancel"]),
)
@settings(max_examples=150, deadline=None)
def test_conservation(
    streams: list[list[tuple[int, int]]], cuts: list[int], eager: bool, end: str
) -> None:
    """Once the application consumed all it was told, all bytes are back."""
    server = Wire.server()
    before = server.received
    number = 0
    texts = []
    for messages in streams:
        text = "0300"
        for size, headers in messages:
            block = "04016b0176" if headers == 1 else "00"
            text += f"04{number:02x}{block}00{size:02x}" + "61" * size
            number += 1
        texts.append(text)
    sizes: list[int] = []
    position = 0
    for text in texts:
        stream = None
        while text:
            cut = 2 * cuts[position % len(cuts)]
            position += 1
            stream = server.stream(text[:cut], stream)
            text = text[cut:]
            sizes += [batch.size for batch in server.events(MessageBatch)]
            while eager and sizes:
                server.engine.consumed(0, sizes.pop(), 0)
    if end == "close":
        server.engine.close(0, 0)
    elif end == "cancel":
        server.stream("030007")
    elif end == "finish":
        server.stream(f"030006{number:02x}")
    for size in sizes:
        server.engine.consumed(0, size, 0)
    assert server.code is None
    assert server.credit == server.received - before
    assert server.engine.statistics.queued_bytes == 0

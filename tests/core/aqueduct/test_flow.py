"""Flow control on the wire: the header, the rule for senders, credit and its errors."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Side
from aqueduct_core.aqueduct.events import (
    End,
    Ended,
    Numbered,
    Opened,
)
from aqueduct_core.aqueduct.flow import (
    Buffers,
    connection_header,
)
from aqueduct_core.aqueduct.wire import codec
from tests.support.flow import HI, announced, client, server
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-FLOW-2")
def test_an_end_that_announces_nothing_is_not_limited() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT))
    wire.pump()
    wire.stream("V" + announced(1, 1) + "01", end=True)
    assert wire.events(Opened)[0].headers == (connection_header(Buffers(1, 1)),)
    for _ in range(5):
        assert wire.engine.send(0, b"xx", now=0).number is not None
    wire.stream("03000c7f")
    assert wire.code is None


@rule("AQ-FLOW-3", "AQ-FLOW-4")
def test_s15_credit() -> None:
    wire = client(10)
    assert wire.engine.send(0, b"hi", now=0).number == 0
    assert wire.engine.statistics.outstanding == 7
    assert wire.engine.send(0, b"hi", now=0).number is None
    assert wire.engine.statistics.waiting == 1
    assert wire.sent() == ["10: 0300" + HI + "6869"]
    wire.stream("03000c07")
    assert wire.sent() == ["10: 0401000002" + "6869"]
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2)]
    assert wire.engine.statistics.outstanding == 7


@rule("AQ-FLOW-4")
def test_one_message_of_any_size_always_goes() -> None:
    wire = client(10, 12)
    assert wire.engine.send(0, b"x" * 5000, now=0).number == 0
    assert wire.engine.send(0, b"", now=0).number is None
    wire.stream("03000c" + codec.encode_dequeued(5006)[1:].hex())
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2)]


@rule("AQ-FLOW-4")
def test_the_sum_over_all_channels_binds_and_a_large_message_is_not_overtaken() -> None:
    wire = client(0, 20)
    first = wire.engine.send(0, b"", now=0, attach=[Attach(True), Attach(True)])
    a, b = first.attached
    assert wire.engine.statistics.outstanding == 9
    assert wire.engine.send(a, b"x" * 100, now=0).number is None  # the next one to go
    wire.pump()
    assert wire.engine.send(b, b"hi", now=0).number is None  # would fit, but must not overtake
    assert wire.engine.send(0, b"hi", now=0).number is None
    wire.stream("03000c09")
    assert wire.events(Numbered) == [Numbered(a, True, 0, 1)]
    wire.stream(f"03{a:02x}0c69")
    assert sorted(event.channel for event in wire.events(Numbered)) == [0, b]
    assert wire.engine.statistics.outstanding == 14


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    ("per_channel", "all_channels", "count"),
    [(21, 0, 3), (20, 0, 2), (0, 21, 3), (0, 20, 2), (21, 28, 3), (28, 21, 3), (0, 0, 5)],
)
def test_what_fills_a_buffer_to_its_last_byte_goes(
    per_channel: int, all_channels: int, count: int, bulk: bool
) -> None:
    wire = client(per_channel, all_channels)
    assert wire.engine.send(0, b"hi", now=0).number == 0
    if bulk:
        assert wire.engine.send_many(0, [b"hi"] * 4, now=0) == (1, count)
    else:
        numbers = [wire.engine.send(0, b"hi", now=0).number for _ in range(4)]
        assert numbers == [*range(1, count), *[None] * (5 - count)]


@rule("AQ-FLOW-4")
def test_a_bulk_send_does_not_overtake_what_waits_for_the_total() -> None:
    wire = client(0, 20)
    a, b = wire.engine.send(0, b"", now=0, attach=[Attach(True), Attach(True)]).attached
    assert wire.engine.send(a, b"x" * 100, now=0).number is None
    wire.pump()
    assert wire.engine.send_many(b, [b"hi"], now=0) == (0, 0)


@rule("AQ-FLOW-9")
def test_a_client_sends_one_burst_before_it_knows_the_server() -> None:
    config = Config(flow_per_channel=10, initial_burst=20)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    numbers = [wire.engine.send(0, b"hi", now=0).number for _ in range(4)]
    assert numbers == [0, 1, None, None]
    wire.pump()
    wire.stream("V" + announced(5, 5) + "01", end=True)
    assert wire.engine.statistics.outstanding == 14  # over what was announced, and no fault
    wire.stream("03000c0e")
    assert wire.events(Numbered) == [Numbered(0, True, 2, 3)]


@rule("AQ-FLOW-9")
def test_a_client_whose_server_announces_nothing_goes_on() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=10, initial_burst=20)))
    for _ in range(4):
        wire.engine.send(0, b"hi", now=0)
    wire.pump()
    wire.stream("V020001", end=True)
    assert wire.events(Numbered) == [Numbered(0, True, 2, 4)]
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-9", "AQ-FLOW-12")
def test_a_receiver_closes_on_its_own_limits_alone() -> None:
    wire = server(10, 10, max_channel_queue_bytes=100)
    for number in range(14):
        wire.stream(f"030004{number:02x}00000268" + "69")
        assert wire.code is None
        assert wire.engine.half_open(0)
    wire.stream("0300040e000002" + "6869")
    assert wire.events(Ended)[0].end is End.OVERFLOW
    assert wire.code is None

"""The headers that announce flow control, of connections and of channels."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Side
from aqueduct_core.aqueduct.events import (
    Ignored,
    Opened,
)
from aqueduct_core.aqueduct.faults import BadArgument
from aqueduct_core.aqueduct.flow import (
    FLOW_CONTROL,
    BadFlowHeader,
    Buffers,
    channel_header,
    connection_header,
    read_channel_header,
    read_connection_header,
)
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.flow import HI, announced
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-FLOW-1")
def test_t98_the_header_as_bytes() -> None:
    config = Config(flow_per_channel=65536, flow_all_channels=1048576)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    value = "13666c6f772d636f6e74726f6c2d356133633139" + "06808004808040"
    assert wire.sent() == [f"2: V021b{value} FIN"]
    frame = bytes.fromhex("1b" + value)
    assert read_connection_header(((FLOW_CONTROL, frame[-6:]),)) == Buffers(65536, 1048576)


@rule("AQ-FLOW-1")
@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x80", b"\x01\x80", b"\x01\x02\x03", b"\x80\x00\x01", b"\xff" * 11]
)
def test_a_header_that_does_not_parse_is_as_if_absent(value: bytes) -> None:
    with pytest.raises(BadFlowHeader):
        read_connection_header(((FLOW_CONTROL, value),))
    headers = codec.encode_connection_headers(((FLOW_CONTROL, value), (b"k", b"v"))).hex()
    wire = Wire(AqueductEngine(Side.SERVER, (), Config(auto_accept=True, flow_per_channel=100)))
    wire.stream("V" + headers, end=True)
    (ignored,) = wire.events(Ignored)
    assert "flow control" in ignored.reason
    assert wire.events(Opened) == [Opened(((b"k", b"v"),))]
    wire.stream("0300" + HI + "6869")
    (batch,) = wire.events(MessageBatch)
    wire.engine.consumed(0, batch.size, wire.now)
    wire.advance(1)
    assert not any("0c07" in text for text in wire.sent())


@rule("AQ-FLOW-1")
def test_a_header_that_is_repeated_is_as_if_absent() -> None:
    pair = connection_header(Buffers(1, 1))
    with pytest.raises(BadFlowHeader):
        read_connection_header((pair, pair))
    assert read_connection_header(((b"other", b""),)) is None
    assert read_channel_header(()) is None


@rule("AQ-FLOW-1")
def test_only_the_configuration_announces() -> None:
    headers = (connection_header(Buffers(1, 1)),)
    with pytest.raises(BadArgument):
        AqueductEngine(Side.CLIENT, headers, Config())


@rule("AQ-FLOW-2")
def test_a_peer_that_knows_only_the_specification() -> None:
    """It announces nothing: it is sent no DEQUEUED, is never limited, and its DEQUEUED is checked
    and ignored."""
    config = Config(flow_per_channel=10, flow_all_channels=10, auto_accept=True)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V0200", end=True)
    wire.pump()
    wire.stream("01", end=True)
    wire.fresh()
    for number in range(20):
        wire.stream(f"030004{number:02x}00000568656c6c6f")
    for batch in wire.events(MessageBatch):
        wire.engine.consumed(0, batch.size, wire.now)
    wire.advance(1)
    assert wire.sent() == ["7: 0300" + "08020014"]
    assert wire.code is None

    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=10)))
    wire.pump()
    wire.stream("V020001", end=True)
    wire.fresh()
    for _ in range(200):
        assert wire.engine.send(0, b"x" * 1000, now=0).number is not None
    wire.stream("03000c64")
    assert wire.code is None
    wire.stream("03020c64")  # a channel that we never made: FORGET_CHANNEL, as ever
    assert wire.code is None
    assert wire.engine.statistics.outstanding == 0


@rule("AQ-FLOW-10")
@pytest.mark.parametrize("bulk", [False, True])
def test_a_channel_has_a_buffer_of_its_own(bulk: bool) -> None:
    """The client made channel 2 and receives on it, with a buffer of 20 in place of 10."""
    config = Config(auto_accept=True, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + announced(10), end=True)
    head = codec.encode_headers((channel_header(20),)).hex()
    region = "02" + head
    wire.stream(f"0300040000{len(region) // 2:02x}{region}00", 6)
    assert wire.code is None
    if bulk:
        assert wire.engine.send_many(2, [b"hi"] * 4, now=0) == (0, 2)
    else:
        numbers = [wire.engine.send(2, b"hi", now=0).number for _ in range(4)]
        assert numbers == [0, 1, None, None]
    assert wire.events(Ignored) == []


@rule("AQ-FLOW-10")
def test_a_channel_header_that_does_not_parse_is_as_if_absent() -> None:
    config = Config(auto_accept=True, flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + announced(10), end=True)
    head = codec.encode_headers(((FLOW_CONTROL, b"\x01\x02"),)).hex()
    region = "02" + head
    wire.stream(f"0300040000{len(region) // 2:02x}{region}00", 6)
    assert len(wire.events(Ignored)) == 1
    assert [wire.engine.send(2, b"hi", now=0).number for _ in range(2)] == [0, None]


@rule("AQ-FLOW-10", "AQ-FLOW-6")
def test_the_receiver_of_such_a_channel_gathers_by_its_own_buffer() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(flow_per_channel=1000)))
    wire.pump()
    wire.stream("V" + announced(0) + "01", end=True)
    attach = [Attach(False, headers=(channel_header(20),))]
    (channel,) = wire.engine.send(0, b"", now=0, attach=attach).attached
    attach = [Attach(False, headers=((FLOW_CONTROL, b""),))]
    with pytest.raises(BadArgument):
        wire.engine.send(0, b"", now=0, attach=attach)
    wire.fresh()
    wire.stream(f"03{channel:02x}" + HI + "6869")
    wire.engine.consumed(channel, 7, wire.now)
    assert wire.sent() == [f"14: 03{channel:02x}" + "08020001" + "0c07"]

"""Engines whose flow control is on, for tests of what either end may send."""

from __future__ import annotations

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Side
from aqueduct_core.aqueduct.flow import Buffers, connection_header
from aqueduct_core.aqueduct.wire import codec
from tests.support.wire import Wire

HI = "0400000002"  # MESSAGE 0 with a payload of two bytes: 7 bytes in all


def announced(per_channel: int, all_channels: int = 0) -> str:
    """The peer's CONNECTION_HEADERS with the flow control header."""
    pair = connection_header(Buffers(per_channel, all_channels))
    return codec.encode_connection_headers((pair,)).hex()


def client(per_channel: int, all_channels: int = 0, **options: object) -> Wire:
    """A client whose server announced these buffers."""
    config = Config(flow_per_channel=0, **options)  # type: ignore[arg-type]
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    wire.pump()
    wire.stream("V" + announced(per_channel, all_channels) + "01", end=True)
    return wire.fresh()


def server(
    per_channel: int, all_channels: int = 0, *, peer: str | None = None, **options: object
) -> Wire:
    """A server that announces these buffers to a client that knows flow control as well."""
    config = Config(
        auto_accept=True,
        flow_per_channel=per_channel,
        flow_all_channels=all_channels,
        **options,  # type: ignore[arg-type]
    )
    wire = Wire(AqueductEngine(Side.SERVER, (), config))
    wire.stream("V" + (announced(0) if peer is None else peer), end=True)
    wire.pump()
    wire.stream("01", end=True)
    return wire.fresh()

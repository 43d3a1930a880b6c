"""A server that receives on a channel, and frames of the channel's sender."""

from __future__ import annotations

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.primitives import varint
from tests.support.wire import Wire

STORED = Config(auto_accept=True, ack_mode=AckMode.ON_STORED)


def message(number: int, payload: str = "78") -> str:
    return f"04{varint.encode(number).hex()}0000{len(payload) // 2:02x}{payload}"


def carrier(number: int, channel: int) -> str:
    """A message that carries ``channel``."""
    return f"04{number:02x}0002{channel:02x}0000"


def known(channel: int = 8, config: Config | None = None) -> Wire:
    """A server that knows ``channel``; stream 7 carries our frames of it, if it is ours to ack."""
    wire = Wire.server(config)
    wire.stream(f"030004000002{channel:02x}0000")
    wire.pump()
    if wire.engine.config.ack_mode is AckMode.ON_STORED:
        wire.engine.stored(0, 0, 1, reliable=True, now=wire.now)
    wire.advance(0.02)
    return wire.fresh()

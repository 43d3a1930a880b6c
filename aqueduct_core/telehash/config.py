"""What one line of Telehash allows, and how fast it acks and gives up."""

from __future__ import annotations

from dataclasses import dataclass

from aqueduct_core.errors import InvalidOption

ALPN = "telehash-v2"
"""The name of the protocol in the TLS handshake, where the carrier is QUIC; ours."""
MAX_SEQ = 0xFFFF_FFFF
"""The highest number of a packet (T3), which ends its channel."""
MAX_CHANNEL = 0xFFFF_FFFF
"""The highest number of a channel (P3)."""
MAX_UNACKED = 100
"""Packets of one channel under way that the protocol allows (T4)."""


@dataclass(frozen=True, slots=True)
class TelehashConfig:
    """Bounds and times of one line; sizes in bytes, times in seconds.

    Attributes:
        window: packets of one channel sent and not acked, at most 100 (T4); telehash-c takes 32,
            telehash-js 50.
        receive_window: packets of one channel taken and not `TelehashEngine.done`, with those that
            wait for one that is missing (T5). A peer may send 100.
        receive_bytes: of packets of the whole line that wait for one that is missing (T5).
        channel_timeout: nothing was acked for so long: the channel fails (P7, T16). A channel that
            ended is kept as long, to ack again what comes again (T17); and packets of one whose
            opening is missing wait as long for it.
        ack_delay: between `done` and its ack, so that several share one (T6).
        max_channels: of the peer's that are open at once.
        max_unopened: of the peer's whose opening packet is missing, as others overtook it.
        max_ended: channels remembered after their end; the oldest are forgotten first.
        max_packet: that we send; less, where the link carries less (P1: 1,472 over UDP).
        write_ahead: of packets that wait in the link, at most; less, where the link says that its
            path carries less in a round trip. What waits there cannot carry a newer ack.
        admit_at_once: the carrier has shown that the peer receives at its address, as a handshake
            does. Otherwise the peer is a stranger until it acks what we sent.
        pad_opening: bytes to which the opening packet of a channel is filled up, with spaces in its
            head: for a carrier that answers a stranger with no more than came from it. The first
            ack of the line, which is such an answer, is made up for by a packet as long.
    """

    window: int = 32
    receive_window: int = MAX_UNACKED
    receive_bytes: int = 4 << 20
    channel_timeout: float = 10.0
    ack_delay: float = 0.02
    max_channels: int = 1_024
    max_unopened: int = 64
    max_ended: int = 4_096
    max_packet: int = 1_472
    write_ahead: int = 1 << 20
    admit_at_once: bool = True
    pad_opening: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "window": (1, MAX_UNACKED),
            "receive_window": (1, 1_000),
            "receive_bytes": (1_500, 1 << 30),
            "channel_timeout": (0.1, 3_600),
            "ack_delay": (0, 0.9),
            "max_channels": (1, 1 << 16),
            "max_unopened": (1, 1 << 16),
            "max_ended": (1, 1 << 20),
            "max_packet": (100, 65_507),
            "write_ahead": (1_200, 1 << 30),
            "pad_opening": (0, 65_507),
        }
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"{name} is {getattr(self, name)!r}",
                    f"Give a value from {low:g} to {high:g}",
                )

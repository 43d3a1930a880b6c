"""How much a connection has done, and what it holds."""

from __future__ import annotations

from typing import NamedTuple


class Statistics(NamedTuple):
    """Totals of the connection; ``queued_bytes`` were told and not consumed, ``waiting``
    messages of ours have no number yet, ``outstanding`` bytes of ours are with the peer's
    receivers (flow control)."""

    messages_received: int
    messages_sent: int
    queued_bytes: int
    open_channels: int
    datagrams_dropped: int
    overflows: int
    waiting: int
    outstanding: int

"""What both halves of channels share: the way out, deadlines, news, credit, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from aqueduct_core.aqueduct.bulletin import Bulletin
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.credit import CreditBook
from aqueduct_core.aqueduct.datagrams import Refusable
from aqueduct_core.aqueduct.outbox import Outbox
from aqueduct_core.primitives.timers import Timers


class Alarm(Enum):
    """What a deadline is for; one of each a channel."""

    HANDSHAKE = auto()
    ACK = auto()
    RECEIPT_DEADLINE = auto()
    DECLARE = auto()
    FORGET = auto()
    LINGER = auto()


AlarmKey = tuple[Alarm, int]


@dataclass(slots=True)
class Wiring:
    """``due`` names the channels that have frames to write with the next orders."""

    config: Config
    outbox: Outbox
    timers: Timers[AlarmKey]
    bulletin: Bulletin
    credit: CreditBook
    refusable: Refusable
    datagram_size: int
    due: dict[int, None] = field(default_factory=dict)

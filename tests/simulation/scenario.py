"""What a seed says: the link, the limits of both engines, the operations and how often each is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from aqueduct_core.aqueduct.config import AckMode, Config, Mode

GENERATION = 1
"""Part of every seed's meaning. It is raised when the same seed would draw something else, so
that a seed on file never silently replays another run."""

NARROW = 5
"""Every so manyth seed has a path with a rate. A draw of its own says which, so that all other
seeds go on to mean what they meant before there were such paths."""


class Fault(Enum):
    """What the link does that QUIC never does to two honest ends that both live."""

    NONE = "none"
    """Loss, delay and order only: everything must come to a good end."""
    STOP_MESSAGES = "stop messages"
    """STOP_SENDING on streams of single messages: channels end when both sides want it."""
    STOP_ANY = "stop any"
    """STOP_SENDING and resets on any stream, acks and ends among them: nothing need ever end."""
    DOUBLE = "double"
    """Datagrams come twice: AQ-ACK-11 may close the connection, and nothing else may."""
    CUT = "cut"
    """The connection is lost at some time, at each end at another moment; or one end leaves."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Seconds, bytes and shares. ``weights`` are those of the operations of ``App``."""

    seed: int
    fault: Fault
    operations: int
    pace: float
    """Mean time between operations."""
    latency: float
    jitter: float
    """Streams overtake each other by at most this; below ``close_linger`` (B20)."""
    grain: float
    """Arrivals come at multiples of it, so that they make bursts; 0: each on its own."""
    loss: float
    rate: float | None
    """Bytes per second of the path in each direction; None: it is as fast as you like."""
    queue: int
    """With a rate: bytes that wait on the path; what comes on top is dropped."""
    cut: float
    stream_window: int
    datagram_size: int
    streams: int | None
    """Streams that an end lets the other have open; None: the link says nothing of it."""
    shrinks: bool
    """The link takes smaller datagrams than it said, for a while."""
    lag: float
    """Mean time until an application stores and consumes what it got."""
    drops: float
    """Share of attachments that are dropped unread."""
    refuses: float
    """Share of batches of datagram messages that the application will not store."""
    modes: tuple[Mode, ...]
    large: float
    """Share of messages larger than any datagram."""
    accept_late: float
    """How long the server's application takes to answer the headers; 0: the engine does it."""
    client: Config
    server: Config
    weights: tuple[int, ...]


OPERATIONS = ("send", "many", "attach", "finish", "cancel", "close", "drop", "pause")
_WEIGHTS = (
    (30, 8, 22, 4, 3, 3, 2, 6),
    (20, 4, 40, 6, 4, 4, 4, 4),
    (50, 20, 8, 2, 1, 1, 1, 10),
    (10, 2, 20, 12, 12, 12, 8, 2),
)
_FAULTS = (
    *(Fault.NONE,) * 12,
    *(Fault.CUT,) * 3,
    *(Fault.STOP_MESSAGES,) * 2,
    *(Fault.STOP_ANY,) * 2,
    Fault.DOUBLE,
)
_MIXES = (
    (Mode.ORDERED, Mode.UNORDERED, Mode.UNRELIABLE),
    (Mode.ORDERED, Mode.UNORDERED, Mode.UNRELIABLE),
    (Mode.UNRELIABLE,),
    (Mode.ORDERED,),
    (Mode.UNORDERED,),
    (Mode.UNORDERED, Mode.UNRELIABLE),
)


def scenario(seed: int) -> Scenario:
    """The scenario of ``seed``; the same for the same seed and ``GENERATION``."""
    draw = random.Random(f"{GENERATION}:{seed}")
    pick, chance = draw.choice, draw.random
    path = random.Random(f"path:{GENERATION}:{seed}")
    flow = chance() < 0.4
    accept_late = pick((0.0, 0.0, 0.0, 0.05, 1.0))
    ack_modes = pick(
        (
            (AckMode.ON_RECEIPT, AckMode.ON_RECEIPT),
            (AckMode.ON_STORED, AckMode.ON_STORED),
            (AckMode.ON_RECEIPT, AckMode.ON_STORED),
            (AckMode.ON_STORED, AckMode.ON_RECEIPT),
        )
    )
    return Scenario(
        seed=seed,
        fault=pick(_FAULTS),
        operations=pick((20, 40, 60, 60, 100)),
        pace=pick((0.002, 0.02, 0.1, 0.5)),
        latency=pick((0.001, 0.02, 0.1)),
        jitter=pick((0.0, 0.01, 0.1, 0.3, 0.8)),
        grain=pick((0.0, 0.0, 0.005, 0.05)),
        loss=pick((0.0, 0.05, 0.3, 0.8)),
        rate=None if seed % NARROW else path.choice((1_000.0, 10_000.0, 1_000_000.0)),
        queue=path.choice((1_500, 10_000, 100_000)),
        cut=pick((0.0, 0.1, 0.5)),
        stream_window=pick((512, 4096, 1 << 16, 1 << 20)),
        datagram_size=pick((0, 300, 1150, 1150)),
        streams=pick((None, None, 300)),
        shrinks=chance() < 0.3,
        lag=pick((0.0, 0.0, 0.01, 0.2, 2.0)),
        drops=pick((0.0, 0.1, 0.5)),
        refuses=pick((0.0, 0.0, 0.2)),
        modes=pick(_MIXES),
        large=pick((0.0, 0.05, 0.3)),
        accept_late=accept_late,
        client=_limits(draw, ack_modes[0], auto_accept=False, flow=flow),
        server=_limits(draw, ack_modes[1], auto_accept=not accept_late, flow=flow),
        weights=pick(_WEIGHTS),
    )


def _limits(draw: random.Random, ack_mode: AckMode, *, auto_accept: bool, flow: bool) -> Config:
    """Options that differ from seed to seed, and now and then a limit that is soon reached."""
    pick = draw.choice
    return Config(
        ack_mode=ack_mode,
        unordered_runs=flow,  # of as many seeds as flow control, and no further draw
        auto_accept=auto_accept,
        ack_delay=pick((0.0, 0.02, 0.02, 0.1)),
        sent_unreliable_delay=pick((0.0, 0.05, 0.1)),
        unreliable_receipt_deadline=pick((0.1, 1.0, 1.0)),
        forget_delay=pick((0.0, 0.02, 0.1)),
        early_unreliable_ack=pick((True, True, False)),
        route_back_on_attach=pick((True, True, False)),
        early_credit_bytes=pick((0, 4096, 1 << 20)),
        channel_idle_timeout=pick((None, None, 0.5)),
        flow_per_channel=pick((None, 0, 100, 3000, 65_536)) if flow else None,
        flow_all_channels=pick((0, 0, 500, 20_000)),
        initial_burst=pick((100, 65_536)),
        send_queue_messages=pick((1, 10, 1024)),
        send_queue_bytes=pick((1000, 1 << 20)),
        max_channel_queue_bytes=pick((64 << 20, 64 << 20, 20_000)),
        max_connection_queue_bytes=pick((256 << 20, 256 << 20, 40_000)),
        max_unacked_attachment_messages=pick((65_536, 65_536, 4)),
        max_tombstone_ranges=pick((65_536, 65_536, 8)),
        work_per_turn=pick((256, 256, 20, 1)),
    )

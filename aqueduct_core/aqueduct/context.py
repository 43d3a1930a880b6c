"""What all channels of a connection share: the way out, timers, events, credit, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.credit import ReceiveCredit
from aqueduct_core.aqueduct.datagrams import LinkQueue, Refusable
from aqueduct_core.aqueduct.event_queue import EventQueue
from aqueduct_core.aqueduct.events import StreamsTaken
from aqueduct_core.aqueduct.flow import Flow
from aqueduct_core.aqueduct.lineage import RemoteLineage
from aqueduct_core.aqueduct.outbox import Outbox
from aqueduct_core.aqueduct.send_queue import SendQueues
from aqueduct_core.primitives.timers import DelayQueue, Timers


class Timer(IntEnum):
    """What a deadline is for; one of each a channel, or of the connection (channel 0)."""

    HANDSHAKE = auto()
    RECEIPT_DEADLINE = auto()
    DECLARE = auto()
    FORGET = auto()
    LINGER = auto()
    IDLE = auto()
    PROCEED = auto()


TimerKey = tuple[Timer, int]


@dataclass(slots=True, kw_only=True)
class ConnectionContext:
    """What both halves of all channels of a connection work with.

    ``due`` names the channels that have frames to write with the next actions; ``acks_due`` and
    ``credit_due`` those that have them shortly; ``rtt`` is the round-trip time of the link in
    seconds, as far as it is known; ``ranges`` are those of the numbers of all channels;
    ``datagram_size`` is the most that fits a datagram, in bytes; ``message_streams`` counts
    streams of ours with one message each that is not acked.
    """

    config: Config
    outbox: Outbox
    events: EventQueue
    credit: ReceiveCredit
    refusable: Refusable
    datagram_size: int
    flow: Flow
    queues: SendQueues
    link: LinkQueue
    rtt: float | None = None
    reserved_streams: int = 0
    message_streams: int = 0
    streams_told: bool = False
    ranges: int = 0
    due: dict[int, None] = field(default_factory=dict)
    timers: Timers[TimerKey] = field(default_factory=Timers)
    acks_due: DelayQueue[int] = field(init=False)
    credit_due: DelayQueue[int] = field(init=False)
    remote_lineage: RemoteLineage = field(default_factory=RemoteLineage)

    def __post_init__(self) -> None:
        self.acks_due = DelayQueue(self.config.ack_delay)
        self.credit_due = DelayQueue(self.config.dequeued_delay)

    @property
    def wake_at(self) -> float | None:
        """The earliest of all deadlines; None: there is none."""
        times = (self.timers.next, self.acks_due.next, self.credit_due.next)
        return min((when for when in times if when is not None), default=None)

    def fall_due(self, now: float) -> None:
        """What was to be written shortly is to be written with the next actions."""
        for queue in (self.acks_due, self.credit_due):
            for channel in queue.take(now):
                self.due[channel] = None

    def stop_timers(self) -> None:
        """Nothing is due any more."""
        self.timers.clear()
        self.acks_due.clear()
        self.credit_due.clear()

    def stream_limit(self, streams: int) -> None:
        """The peer lets us open so many streams in all. A peer that allows few has fewer of
        them reserved for control frames, so that messages go at all (H12)."""
        self.outbox.limit(streams)
        reserved = min(self.config.reserved_control_streams, self.outbox.streams_at_once // 4)
        self.reserved_streams = reserved
        self.streams_told = False
        self.flow.changed = True

    def tell_streams_taken(self) -> None:
        """Say it, once, where something waits for a stream and none comes back by itself."""
        outbox = self.outbox
        if self.streams_told or not outbox.all_taken:
            return
        if outbox.streams_left or self.queues.anything_waits:
            self.streams_told = True
            self.events.emit(StreamsTaken(outbox.streams_at_once))

    @property
    def message_stream_free(self) -> bool:
        """Whether a stream for messages may be opened (H12)."""
        left = self.outbox.streams_left
        return left is None or left > self.reserved_streams

    @property
    def single_stream_free(self) -> bool:
        """Whether one for a single message may, which ends with it. Where channels have taken so
        many that none is left but the reserved ones, there is one such message at a time: control
        frames then wait for its end at most, and it does not wait for that of a channel."""
        left = self.outbox.streams_left
        return left is None or left > (self.reserved_streams if self.message_streams else 0)

    def singles_over(self, count: int) -> None:
        """So many single messages were acked, or given up: others may have waited for the last."""
        self.message_streams -= count
        if count and not self.message_streams and not self.message_stream_free:
            self.flow.changed = True

    @property
    def declare_delay(self) -> float:
        """How soon datagram messages are declared: half a round trip, within bounds (B35)."""
        config = self.config
        if self.rtt is None:
            return config.sent_unreliable_delay
        return min(config.sent_unreliable_delay, max(config.least_delay, self.rtt / 2))

    @property
    def receipt_deadline(self) -> float:
        """How long a declared datagram message may still come in (AQ-ACK-6, B35)."""
        config = self.config
        if self.rtt is None or not config.receipt_deadline_by_rtt:
            return config.unreliable_receipt_deadline
        return min(
            config.unreliable_receipt_deadline, max(config.least_receipt_deadline, 2 * self.rtt)
        )

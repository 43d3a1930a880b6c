"""Messages that wait for credit of the peer's receiver, for a stream, or for room in the link
(AQ-FLOW-5, H12)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import QueueFull
from aqueduct_core.engine.message_batch import Headers


@dataclass(frozen=True, slots=True)
class Attach:
    """A new channel to carry along. ``sends``: the half that stays here is the sender."""

    sends: bool
    oneshot: bool = False
    headers: Headers = ()


class QueuedMessage(NamedTuple):
    """A message that has no number yet."""

    payload: bytes
    headers: Headers
    attach: tuple[Attach, ...]

    @property
    def cost(self) -> int:
        """About its bytes in memory."""
        if not self.headers and not self.attach:
            return 64 + len(self.payload)
        pairs = [*self.headers, *(pair for each in self.attach for pair in each.headers)]
        return 64 + len(self.payload) + sum(len(key) + len(value) for key, value in pairs)


class _Queue:
    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.bytes = 0
        self.messages: deque[QueuedMessage] = deque()


class SendQueues:
    """One queue for each channel that waits, bounded by ``send_queue_*`` of the configuration.

    A queue takes messages while it has fewer bytes than its bound, so it is over it by one message
    at most. ``awaiting_writable`` names the channels whose application was refused and wants to try
    again; True: what it tried was a bulk of messages, which never waits here. ``freed``: messages
    of any channel may join again; for those who look at ``awaiting_writable`` to take back.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._queues: dict[int, _Queue] = {}
        self.awaiting_writable: dict[int, bool] = {}
        self.freed = False
        self.bytes = 0

    def __len__(self) -> int:
        """Messages that wait."""
        return sum(len(queue.messages) for queue in self._queues.values())

    @property
    def full(self) -> bool:
        """Nobody's message may join."""
        return self.bytes >= self._config.send_queue_connection_bytes

    @property
    def anything_waits(self) -> bool:
        """Messages, or an application that was refused."""
        return bool(self._queues or self.awaiting_writable)

    def channels(self) -> list[int]:
        """Those with messages, the one that was served longest ago first."""
        return list(self._queues)

    def waiting(self, channel: int) -> int:
        queue = self._queues.get(channel)
        return len(queue.messages) if queue is not None else 0

    def admits(self, channel: int) -> bool:
        """Whether a message, of any size, may join: short ones do not overtake a long one that
        was refused."""
        config, queue = self._config, self._queues.get(channel)
        if self.full:
            return False
        return queue is None or (
            len(queue.messages) < config.send_queue_messages
            and queue.bytes < config.send_queue_bytes
        )

    def add(self, channel: int, message: QueuedMessage) -> None:
        """Append a message.

        Raises:
            QueueFull: it has no room; ``Writable`` will tell when to try again.
        """
        if not self.admits(channel):
            self.awaiting_writable[channel] = False
            raise QueueFull(f"the send queue of channel {channel} is full")
        self._append(channel, message)

    def add_freshest(self, channel: int, message: QueuedMessage) -> int:
        """Append a message and make room for it by dropping the oldest ones, itself at last;
        how many were dropped."""
        dropped = 0
        while not self.admits(channel) and self.waiting(channel):
            self.pop(channel)
            dropped += 1
        if not self.admits(channel):
            return dropped + 1
        self._append(channel, message)
        return dropped

    def _append(self, channel: int, message: QueuedMessage) -> None:
        queue = self._queues.get(channel)
        if queue is None:
            queue = self._queues[channel] = _Queue()
        cost = message.cost
        queue.messages.append(message)
        queue.bytes += cost
        self.bytes += cost

    def head(self, channel: int) -> QueuedMessage:
        return self._queues[channel].messages[0]

    def pop(self, channel: int) -> QueuedMessage:
        """Take the oldest message; the channel goes behind the others that wait."""
        queue = self._queues.pop(channel)
        message = queue.messages.popleft()
        cost = message.cost
        queue.bytes -= cost
        self._take_off(cost)
        if queue.messages:
            self._queues[channel] = queue
        return message

    def drop(self, channel: int) -> int:
        """Throw a channel's messages away; how many there were."""
        self.awaiting_writable.pop(channel, None)
        queue = self._queues.pop(channel, None)
        if queue is None:
            return 0
        self._take_off(queue.bytes)
        return len(queue.messages)

    def _take_off(self, size: int) -> None:
        full = self.full
        self.bytes -= size
        self.freed = self.freed or (full and not self.full)

"""Messages that wait for the peer: is its host still there, and what are they waiting for?

A sender with nothing to send but the application's acks to wait for would hear of a peer that is
gone only when the connection times out. So the peer's host is asked for a sign of life while
messages wait: a host that has started anew answers by a stateless reset, and one where nobody
listens any more by ICMP. And a wait that takes long is told in the log, with its reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

TICK = 1.0
"""Seconds between two looks, and so between two signs of life that are asked for: a small packet,
and only while messages wait for their outcome."""
WORTH_A_LINE = 2.0
"""Seconds without an outcome of any message after which that is told."""
AGAIN = 30.0
"""Seconds after which it is told again."""

_logger = logging.getLogger(__name__)


class Obstacle(Enum):
    """What messages wait for. The value tells it to a reader."""

    SILENCE = "the peer does not answer"
    PATH = "the path is slow or loses packets"
    CREDIT = "the receiver's credit is used up: it reads slowly, or its spool is full"
    ACKS = "the receiver has them and does not ack: it is busy, or its spool is full"


@dataclass(frozen=True, slots=True)
class Observed:
    """A connection at one moment.

    Attributes:
        waiting: messages without an outcome.
        ending: channels that were finished or cancelled, and wait for the receiver to say so.
        settled: messages that have an outcome, so far.
        heard: datagrams that the peer's host has sent, so far.
        delivered: bytes that have arrived at the peer's host, so far, about.
        blocked: there is more to send, and no credit of the receiver for it; or of its host, as
            far as that shows in what has not arrived.
        channel: one that is blocked, or has the most messages that wait, for a reader.
        peer: whom they wait for, for a reader.
    """

    peer: str
    channel: str
    waiting: int
    ending: int
    settled: int
    heard: int
    delivered: int
    blocked: bool

    @property
    def anything(self) -> bool:
        """Something waits."""
        return bool(self.waiting or self.ending or self.blocked)


class WaitNotices:
    """Which lines a wait is worth: one after ``WORTH_A_LINE`` seconds, one every ``AGAIN`` seconds,
    one when it is over. Pure: times are given."""

    def __init__(self) -> None:
        self._last: Observed | None = None
        self._moved_at = 0.0  # an outcome, or the begin
        self._heard_at = 0.0
        self._told_at: float | None = None

    def look(self, now: float, seen: Observed) -> str | None:
        """What to tell of it now. To be called every ``TICK`` while something waits, and when
        nothing does any more."""
        last, self._last = self._last, seen if seen.anything else None
        if last is None or seen.heard != last.heard:
            self._heard_at = now
        if last is None or seen.settled != last.settled or not seen.anything:
            waited, self._moved_at = now - self._moved_at, now
            if self._told_at is None:
                return None
            self._told_at = None
            return f"going on with {seen.peer} after {waited:.0f} s"
        waited = now - self._moved_at
        if waited < WORTH_A_LINE or (self._told_at is not None and now - self._told_at < AGAIN):
            return None
        self._told_at = now
        what = self._obstacle(now, seen, last)
        if seen.waiting:
            amount = f"{seen.waiting:,} messages un-acked"
        else:
            amount = "more to send" if seen.blocked else "its end not confirmed"
        return (
            f"waiting for {seen.peer}, {waited:.0f} s so far ({seen.channel}: {amount}, "
            f"{what.value})"
        )

    def _obstacle(self, now: float, seen: Observed, last: Observed) -> Obstacle:
        if now - self._heard_at >= WORTH_A_LINE:
            return Obstacle.SILENCE
        if seen.delivered > last.delivered:
            return Obstacle.PATH
        return Obstacle.CREDIT if seen.blocked else Obstacle.ACKS


class OutageNotices:
    """The same of a wait for a connection. Pure."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._since: float | None = None
        self._told_at: float | None = None

    def failed(self, now: float, reason: str, *, since: float) -> str | None:
        """A connection that was lost at ``since`` could not be made anew: what to tell of it."""
        self._since = since
        waited = now - since
        if waited < WORTH_A_LINE or (self._told_at is not None and now - self._told_at < AGAIN):
            return None
        self._told_at = now
        return f"waiting for a connection to {self._peer}, {waited:.0f} s so far ({reason})"

    def connected(self, now: float) -> str | None:
        """There is one: what to tell of it."""
        told, self._told_at = self._told_at, None
        if told is None or self._since is None:
            return None
        return f"connected to {self._peer} after {now - self._since:.0f} s"


class Probed(Protocol):
    """The connection, as far as it is asked here."""

    def observe(self) -> Observed: ...

    def probe(self) -> None:
        """Ask the peer's host for a sign of life."""


class DeliveryWatch:
    """Looks at a connection every ``TICK`` while messages wait, and at no other time.

    ``wake`` begins it, where it is not on already; it ends by itself, or by ``stop``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        probed: Probed,
        tell: Callable[[str], None] = _logger.warning,
    ) -> None:
        self._loop = loop
        self._probed = probed
        self._notices = WaitNotices()
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._settled: int | None = None

    def wake(self) -> None:
        """Something was sent."""
        if self._timer is None and not self._stopped:
            self._settled = None
            self._timer = self._loop.call_later(TICK, self._look)

    def stop(self) -> None:
        """The connection is over."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        seen = self._probed.observe()
        line = self._notices.look(self._loop.time(), seen)
        if line is not None:
            self._tell(line)
        if not seen.anything:
            return
        if self._settled in (None, seen.settled):
            self._probed.probe()
        self._settled = seen.settled
        if not self._stopped:
            self._timer = self._loop.call_later(TICK, self._look)

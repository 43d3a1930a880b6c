"""The connection of a relay to its upstream: what is to be open on it, and when it is dialled."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.primitives.timers import Timers
from aqueduct_core.quicr.engine import QuicrEngine

FIRST_WAIT = 0.5
LONGEST_WAIT = 15.0
"""Seconds between two attempts to reach the upstream, and at most."""
RETRY = 5.0
"""Seconds until something is tried again that the upstream has refused."""


class Purpose(Enum):
    """What a transaction with the upstream is for."""

    REQUEST = "request"
    POST = "post"
    SUBSCRIBE = "subscribe"


class Aim(NamedTuple):
    """A transaction that there is to be, as long as it is not dropped: of a URL, or a prefix."""

    purpose: Purpose
    name: bytes


class FailedAim(NamedTuple):
    """The upstream has ended it before its time, and it is tried ``again``; or it cannot be."""

    aim: Aim
    again: bool


class _State(Enum):
    IDLE = "nothing is wanted of it, or it waits for its next attempt"
    DUE = "it is to be dialled"
    DIALLING = "somebody dials it"
    READY = "it is there"


class Upstream:
    """Aims, and the transactions that stand for them.

    Ends never: a connection that is lost is dialled again as long as there are aims, with growing
    waits, and all of them are opened anew.

    Args:
        chance: gives a number from 0 to 1, for the waits.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self.engine: QuicrEngine | None = None
        self.losses = 0
        """How often the connection was lost, or could not be made."""
        self._state = _State.IDLE
        self._streams: dict[Aim, int | None] = {}
        self._aims: dict[int, Aim] = {}
        self._unopened: dict[Aim, None] = {}
        self._retries: Timers[Aim] = Timers()
        self._dial_at: float | None = None
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT, chance)
        self._failed: list[FailedAim] = []

    def __contains__(self, aim: Aim) -> bool:
        return aim in self._streams

    @property
    def wake_at(self) -> float | None:
        """When `tick` is wanted next."""
        due = [at for at in (self._retries.next, self._dial_at) if at is not None]
        return min(due, default=None)

    def tick(self, now: float) -> None:
        if self._dial_at is not None and self._dial_at <= now:
            self._dial_at = None
            if self._streams and self._state is _State.IDLE:
                self._state = _State.DUE
        while (aim := self._retries.pop(now)) is not None:
            if aim in self._streams and self._streams[aim] is None:
                self._unopened[aim] = None

    # the connection

    def take_dial(self) -> bool:
        """Whether it is to be dialled now. `join`, `failed` or `lost` is expected after that."""
        due = self._state is _State.DUE
        if due:
            self._state = _State.DIALLING
        return due

    def join(self, engine: QuicrEngine) -> None:
        """This engine is at our end of the connection that is dialled."""
        self.engine = engine
        self._state = _State.DIALLING

    def ready(self) -> None:
        """The handshake is complete: all aims can be opened."""
        self._state = _State.READY
        self._backoff.reset()
        self._unopened = dict.fromkeys(self._streams)

    def lost(self, now: float) -> None:
        """The connection is gone, or could not be made."""
        self.engine = None
        self.losses += 1
        self._state = _State.IDLE
        self._aims.clear()
        self._unopened.clear()
        self._retries.clear()
        self._streams = dict.fromkeys(self._streams)
        self._dial_at = now + self._backoff.next()

    # aims

    def pursue(self, aim: Aim) -> None:
        """There is to be such a transaction."""
        if aim in self._streams:
            return
        self._streams[aim] = None
        self._unopened[aim] = None
        if self._state is _State.IDLE and self._dial_at is None:
            self._state = _State.DUE

    def drop(self, aim: Aim, *, in_vain: bool = False) -> int | None:
        """It is not wanted any more; the transaction that is to be cancelled. ``in_vain``: it has
        not come to its end, and cannot any more."""
        if in_vain and aim in self._streams:
            self._failed.append(FailedAim(aim, again=False))
        self._unopened.pop(aim, None)
        self._retries.cancel(aim)
        stream = self._streams.pop(aim, None)
        if stream is not None:
            self._aims.pop(stream, None)
        return stream

    def unopened(self) -> list[Aim]:
        """Take the aims that can be opened now."""
        if self._state is not _State.READY or not self._unopened:
            return []
        taken = list(self._unopened)
        self._unopened.clear()
        return taken

    def opened(self, aim: Aim, stream: int) -> None:
        self._streams[aim] = stream
        self._aims[stream] = aim

    def ended(self, stream: int, now: float, *, refused: bool) -> Aim | None:
        """A transaction is over. What it was for, if that is still wanted: it is opened again, at
        once or, where it was ``refused``, later."""
        aim = self._aims.pop(stream, None)
        if aim is None:
            return None
        self._streams[aim] = None
        if refused:
            self._failed.append(FailedAim(aim, again=True))
            self._retries.set(aim, now + RETRY)
        else:
            self._unopened[aim] = None
        return aim

    def take_failed(self) -> list[FailedAim]:
        """Take what was refused, or dropped in vain, since the last call."""
        taken, self._failed = self._failed, []
        return taken

"""Channels on which nothing happens any more (H27, H28).

A peer that resets a stream without CANCEL_SENDER, or announces a finish and stalls, leaves a
channel open for ever. That is for the application to judge: it is told, and may close.
"""

from __future__ import annotations

from math import inf

from aqueduct_core.aqueduct.context import ConnectionContext, Timer


class IdleWatch:
    """Off without ``channel_idle_timeout``. Holds one time for each channel that is alive."""

    def __init__(self, context: ConnectionContext) -> None:
        timeout = context.config.channel_idle_timeout
        self.on = timeout is not None
        self._timeout = inf if timeout is None else timeout
        self._timers = context.timers
        self._last: dict[int, float] = {}

    def touched(self, channel: int, now: float) -> None:
        """Something happened on the channel: a frame of the peer, or a command."""
        if not self.on:
            return
        self._last[channel] = now
        if (Timer.IDLE, channel) not in self._timers:
            # a timer that is set is only moved when it fires: no work for each frame
            self._timers.set((Timer.IDLE, channel), now + self._timeout)

    def due(self, channel: int, now: float) -> bool:
        """The timer fired; whether the channel has been idle all the time."""
        idle_at = self._last[channel] + self._timeout
        if idle_at <= now:
            return True
        self._timers.set((Timer.IDLE, channel), idle_at)
        return False

    def gone(self, channel: int) -> None:
        if self._last.pop(channel, None) is not None:
            self._timers.cancel((Timer.IDLE, channel))

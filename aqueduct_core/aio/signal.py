"""A broadcast wake-up: the one thing that the halves of a channel wait on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """Wakes everybody who waits, and remembers nothing.

    A waiter looks at a condition, waits, and looks again; the condition is plain state, so a
    waiter that is cancelled takes nothing away from the others. Belongs to one event loop.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def awaited(self) -> bool:
        return bool(self._waiters)

    def fire(self) -> None:
        if not self._waiters:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next ``fire``."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` is true; it is looked at after each ``fire``."""
        while not condition():
            await self.wait()

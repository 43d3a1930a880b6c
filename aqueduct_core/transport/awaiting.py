"""What the asyncio interfaces of all protocols wait with: a wake-up, and something to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Signal:
    """Wakes everybody who waits, and remembers nothing: what both ends of a channel wait on.

    A waiter looks at a condition, waits, and looks again; the condition is plain state, so a
    waiter that is cancelled takes nothing away from the others. Belongs to one event loop.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

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


class Opening(Generic[T]):
    """Something to be opened, a connection or a server: await it, or enter it with ``async with``.

    ``leave`` closes it at the end of the block; it learns whether the block raised. Who awaits
    closes it himself.
    """

    def __init__(
        self,
        start: Callable[[], Coroutine[Any, Any, T]],
        leave: Callable[[T, bool], Awaitable[None]],
    ) -> None:
        self._start = start
        self._leave = leave
        self._opened: T

    def __await__(self) -> Generator[Any, None, T]:
        return self._start().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave(self._opened, error is not None)

"""What the asyncio interfaces of all protocols wait with: a wake-up, and something to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar


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


Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])


class Opening(Generic[Opened]):
    """Something to be opened, a connection or a server: await it, or enter it with ``async with``.

    At the end of the block it is left as it leaves its own. Who awaits closes it himself.
    """

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._start = start
        self._opened: Opened

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._start().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._start()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r} is asked for before it is open: write `async with …` or `await …` first"
        )

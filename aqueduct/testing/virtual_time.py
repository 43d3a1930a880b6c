"""An event loop whose clock goes on only when nothing else can: waits of minutes take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

TURN = 1e-5
"""Seconds that a turn of the loop takes, so that who only yields comes to the next timer, too."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code that waits on timers, on other tasks, and on sockets whose other end is in the same
    loop: what one end sends over loopback is there for the other one before time goes on. So
    nothing that a test sees depends on how fast or how busy the machine is.

    While a thread works for the loop its clock stands.
    A wait that nothing can end is an error and not a test that hangs.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._threads = 0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    @property
    def is_alone(self) -> bool:
        return self._threads == 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._returned)
        return future

    async def shutdown_default_executor(self, *given: Any) -> None:
        self._threads += 1
        await super().shutdown_default_executor(*given)
        self._threads -= 1

    def _returned(self, future: object) -> None:
        self._threads -= 1


class _Jump(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if not self._loop.is_alone:
            return super().select(0 if timeout == 0 else None)
        self._loop.advance(TURN)
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing will happen any more")
            self._loop.advance(timeout)
        return ready


async def let_happen(seconds: float = 5.0) -> None:
    """Wait for all that comes to pass by itself within so many seconds of virtual time.

    Raises: RuntimeError in any other loop, where the speed of the machine would decide.
    """
    if not isinstance(asyncio.get_running_loop(), VirtualLoop):
        raise RuntimeError("let_happen is for virtual time: start the test with run_virtually")
    await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, in virtual time: a ``VirtualLoop`` of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

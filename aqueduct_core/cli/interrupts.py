"""Run the coroutine of a verb so that Ctrl-C and SIGTERM end it in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

TERMINATED = 143


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """The exit code of ``work``; 143 when SIGTERM ended it. Raises: KeyboardInterrupt, and
    whatever ``work`` raises."""
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            return TERMINATED
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

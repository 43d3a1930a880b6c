"""What a Python worker process keeps for its writing tasks: an event loop, idle connections, and
the sessions of those that it had."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from aqueduct_core.transport.session_file import SessionFile
from aqueduct_spark.write.pool import IDLE_SECONDS, Pool

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a thread of its own, so that acks go on while Spark computes.

    A context manager: the loop runs inside the block, and what still runs then is cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aqueduct", daemon=True)

    def __enter__(self) -> BackgroundLoop:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop's thread and return what it returns, or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Worker:
    """The event loop and the pool of one Python worker process."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self.loop.__enter__()
        self.pool = Pool(idle_seconds)

    def close(self) -> None:
        """End idle connections and the loop."""
        self.loop.run(self.pool.close())
        self.loop.__exit__(None, None, None)


_worker: Worker | None = None


def this_worker() -> Worker:
    """The one of this process. It lives as long as the process; Spark ends workers by a signal,
    and what is idle then is noticed by the receiver's own timeout."""
    global _worker
    if _worker is None or _worker.process != os.getpid():
        _worker = Worker()
    return _worker


def sessions_in(directory: str | None, alpn: str) -> SessionFile | None:
    """The TLS sessions of all connections of the process to servers that speak ``alpn``, in a file;
    None: they are kept in memory. Raises: InvalidOption.BAD_VALUE."""
    return None if directory is None else _sessions_in(directory, alpn, os.getpid())


@cache
def _sessions_in(directory: str, alpn: str, process: int) -> SessionFile:
    return SessionFile.in_directory(Path(directory), alpn)

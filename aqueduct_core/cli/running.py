"""How a verb runs a protocol: a connection as its options say, ended in good order by signals."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from aqueduct_core.aio import delivery_watch, producer_loop
from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.delivery_watch import WORTH_A_LINE
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.cli.console import arguments

TERMINATED = 143


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """The exit code of ``work``; 143 when SIGTERM ended it. Raises: KeyboardInterrupt, and
    whatever ``work`` raises."""
    return asyncio.run(_guarded(work))


@asynccontextmanager
async def dialled(options: argparse.Namespace) -> AsyncIterator[ClientConnection]:
    """A connection to ``options.url``; with ``--early-data`` it may not be accepted yet.

    Raises: why the server did not accept it, in place of the ``ConnectionLost`` of what was sent.
    """
    async with AsyncExitStack() as stack:
        opening = connect(
            options.url,
            tls=arguments.client_tls(options),
            token=arguments.read_token(options.token_file),
            tickets=arguments.sessions(options),
            early_data=options.early_data,
        )
        with waiting_for_a_reply(options.url):
            connection = await stack.enter_async_context(opening)
        try:
            yield connection
        except ConnectionLost:
            await connection.accepted()
            raise


@contextmanager
def waiting_for_a_reply(url: str) -> Iterator[None]:
    """Have standard error tell, once, that a server does not answer for long."""

    def say() -> None:
        print(f"waiting for a reply from {url}, {WORTH_A_LINE:.0f} s so far", file=sys.stderr)

    timer = asyncio.get_running_loop().call_later(WORTH_A_LINE, say)
    try:
        yield
    finally:
        timer.cancel()


def show_waits() -> None:
    """Have standard error tell what messages wait for when they wait long, and when they go on."""
    handler = logging.StreamHandler()
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # of a progress bar
    handler.setFormatter(logging.Formatter(f"{clear}%(message)s"))
    for told in (delivery_watch, producer_loop):
        logger = logging.getLogger(told.__name__)
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False


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

"""Tests that run in an event loop of their own, with certificates for servers beside them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls
from tests.support.virtual_loop import run_virtually
from tests.support.waiting import LONG

Test = Callable[..., Coroutine[Any, Any, None]]


def in_loop(test: Test) -> Callable[..., None]:
    """Run a test in a fresh event loop in virtual time, bounded; it must leave no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        run_virtually(_bounded(test, *args, **kwargs))

    return run


async def _bounded(test: Test, *args: Any, **kwargs: Any) -> None:
    before = asyncio.all_tasks()
    async with asyncio.timeout(LONG):
        await test(*args, **kwargs)
    left = asyncio.all_tasks() - before
    assert not left, f"tasks left behind: {left}"


@functools.cache
def server_tls() -> ServerTls:
    return ServerTls.self_signed()


def client_tls() -> ClientTls:
    return ClientTls(ca_pem=server_tls().cert_pem)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(LONG):
        while not condition():
            await asyncio.sleep(0.005)

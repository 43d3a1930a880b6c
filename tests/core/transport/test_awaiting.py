"""What the asyncio interfaces wait with: a wake-up, and something to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from aqueduct_core.transport.awaiting import Opening, Signal
from tests.support.virtual_loop import run_virtually


def test_a_signal_wakes_all_who_wait_and_remembers_nothing() -> None:
    async def run() -> None:
        signal = Signal()
        signal.fire()
        waiting = [asyncio.ensure_future(signal.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        signal.fire()
        await asyncio.gather(*waiting[1:])

    run_virtually(run())


def test_a_condition_is_looked_at_after_each_wake_up() -> None:
    async def run() -> None:
        signal, seen = Signal(), [0]
        waiting = asyncio.ensure_future(signal.until(lambda: seen[0] == 2))
        for seen[0] in (1, 2):
            assert not waiting.done()
            await asyncio.sleep(0)
            signal.fire()
        await waiting

    run_virtually(run())


def test_what_is_awaited_is_left_to_its_caller_and_what_is_entered_is_not() -> None:
    left: list[bool] = []

    @asynccontextmanager
    async def door() -> AsyncIterator[str]:
        try:
            yield "open"
        except ZeroDivisionError:
            left.append(True)
            raise
        left.append(False)

    async def start() -> AbstractAsyncContextManager[str]:
        opened = door()
        assert await opened.__aenter__() == "open"
        return opened

    async def run() -> None:
        opened = await Opening(start)
        assert not left
        async with Opening(start) as entered:
            assert type(entered) is type(opened)
        with pytest.raises(ZeroDivisionError):
            async with Opening(start):
                raise ZeroDivisionError
        assert left == [False, True]
        with pytest.raises(AttributeError, match="async with"):
            Opening(start).entrypoint  # noqa: B018

    run_virtually(run())

"""Virtual time: waiting costs none, and a wait that nothing can end is an error."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aqueduct.testing import VirtualLoop, let_happen, run_virtually


def test_an_hour_is_over_at_once() -> None:
    async def run() -> tuple[float, list[str]]:
        done: list[str] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.call_later(1_800, done.append, "half")
        await let_happen(3_600)
        return loop.time(), done

    at, done = run_virtually(run())
    assert at == pytest.approx(3_600, abs=0.01)
    assert done == ["half"]


def test_the_clock_stands_while_a_thread_works() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        release = threading.Event()
        before = loop.time()
        waiting = loop.run_in_executor(None, release.wait)
        loop.call_soon(release.set)
        assert await waiting
        return loop.time() - before

    assert run_virtually(run()) < 1


def test_what_nothing_can_end_is_an_error() -> None:
    async def run() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing will happen any more"):
        run_virtually(run())


def test_it_is_not_mixed_up_with_real_time() -> None:
    with pytest.raises(RuntimeError, match="run_virtually"):
        asyncio.run(let_happen(0))

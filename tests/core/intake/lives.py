"""An event loop beside real intakes: bounded, and through several lives of an intake; and the least
that a producer does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG

T = TypeVar("T")
Produce = Callable[[str, asyncio.Event, list[int]], Coroutine[Any, Any, T]]
"""Sends to a URL until the event is set, then ends in good order; counts up the list's number."""


def run(main: Coroutine[Any, Any, T], seconds: float = LONG) -> T:
    """In an event loop of its own, for ``seconds`` at most."""

    async def bounded() -> T:
        return await asyncio.wait_for(main, seconds)

    return asyncio.run(bounded())


@asynccontextmanager
async def through_kills(
    site: Site, produce: Produce[T], *, step: int, kills: int = 5
) -> AsyncIterator[tuple[IntakeProcess, T, int]]:
    """The intake after ``kills`` lives that ended by SIGKILL, each when the producer had come
    ``step`` further; with what the producer returned and how far it came."""
    enough, progress = asyncio.Event(), [0]
    listen = "127.0.0.1:0"
    producing: asyncio.Task[T] | None = None
    for _ in range(kills):
        with site.intake(listen=listen) as intake:
            if producing is None:
                producing = asyncio.create_task(produce(intake.url, enough, progress))
            listen = intake.listen
            seen = progress[0]
            while progress[0] < seen + step:
                assert not producing.done()
                await asyncio.sleep(0.01)
            intake.kill()
    with site.intake(listen=listen) as intake:
        enough.set()
        assert producing is not None
        yield intake, await producing, progress[0]


async def send_some(
    url: str, site: Site, name: str, count: int, *, mode: str = "ordered", **given: Any
) -> None:
    """So many numbers on a channel, until they are stored."""
    async with connect(url, tls=site.client_tls, **given) as connection:
        sender, receiver = channel(mode, name=name)
        await connection.entrypoint.send(b"attach", attach=receiver)
        await sender.send_many([b"%d" % number for number in range(count)])
        await sender.finish()


def values(rows: list[dict[str, Any]], name: str) -> list[bytes]:
    """Of the rows of a channel."""
    return [row["value"] for row in rows if row["channel"] == name]

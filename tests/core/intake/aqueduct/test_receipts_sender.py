"""Receipts from a real intake to real producers, with commits as a query would send them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypeVar

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.outcomes import Finished, Misuse
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aqueduct.conventions.receipts import (
    CommittedMessages,
    from_payload,
    receipts_header,
)
from aqueduct_core.errors import SinkFailed
from tests.core.intake.lives import run
from tests.support.event_loop import eventually
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG

T = TypeVar("T")


@asynccontextmanager
async def meanwhile(starting: AbstractContextManager[T]) -> AsyncIterator[T]:
    """An intake that starts while the event loop of the producers goes on."""
    entered = await asyncio.to_thread(starting.__enter__)
    try:
        yield entered
    finally:
        starting.__exit__(None, None, None)


class Query:
    """Commits all that is durable, or a part of it, under its cursor."""

    def __init__(self, intake: IntakeProcess, cursor: str = "query") -> None:
        self._client = intake.client()
        self._cursor = cursor

    async def hold(self) -> None:
        await asyncio.to_thread(self._client.hold, self._cursor, "owner")

    async def commit(self, ends: tuple[int, ...] | None = None) -> tuple[int, ...]:
        ends = ends if ends is not None else await self.ends()
        await asyncio.to_thread(self._client.commit, self._cursor, ends)
        return ends

    async def ends(self) -> tuple[int, ...]:
        return (await asyncio.to_thread(self._client.status)).ends

    async def drop(self) -> None:
        await asyncio.to_thread(self._client.release, self._cursor, "owner")
        await asyncio.to_thread(self._client.drop_cursor, self._cursor)

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def producer(site: Site, url: str) -> Producer:
    return Producer(url, producer="p-1", tls=site.client_tls, first_wait=0.02, longest_wait=0.1)


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_committed_comes_with_the_commit_and_not_before(site: Site, mode: str) -> None:
    async def main(intake: IntakeProcess) -> None:
        with Query(intake) as query:
            async with producer(site, intake.url) as producing:
                readings = producing.channel("readings", mode)
                for number in range(100):
                    await readings.send(b"%d" % number)
                await readings.stored(99)
                waiting = asyncio.ensure_future(readings.committed(99))
                with pytest.raises(SinkFailed, match=r"100 messages are not committed.*queries"):
                    await readings.committed(timeout=0.2)
                assert not waiting.done()
                await query.commit()
                await waiting
                assert readings.statistics.committed == 100
                await readings.send(b"one more")
                await readings.stored()
                with pytest.raises(SinkFailed, match="ACK_TIMEOUT"):
                    await producing.committed(timeout=0.1)
                await readings.committed(99)
                await query.commit()
                await producing.committed(timeout=LONG)
                # the last one of a channel that is finished has its receipt as well
                await readings.send(b"the last")
                await readings.finish()
                await query.commit()
                await readings.committed(timeout=LONG)
                with pytest.raises(Misuse, match="sent no message 102"):
                    await readings.committed(102)

    with site.intake() as intake:
        run(main(intake))


def test_the_slowest_of_the_queries_decides(site: Site) -> None:
    async def main(intake: IntakeProcess) -> None:
        with Query(intake, "fast") as fast, Query(intake, "slow") as slow:
            await slow.hold()
            async with producer(site, intake.url) as producing:
                readings = producing.channel("readings")
                await readings.send_many([b"x"] * 10)
                await readings.stored()
                await fast.commit()
                with pytest.raises(SinkFailed, match="ACK_TIMEOUT"):
                    await readings.committed(timeout=0.3)
                await slow.drop()
                await readings.committed(timeout=LONG)

    with site.intake() as intake:
        run(main(intake))


def test_after_a_reconnect_the_producer_learns_again(site: Site) -> None:
    """Also what an earlier intake stored: the marks in the spool say what that was."""

    async def main() -> None:
        with site.intake() as intake:
            port = int(intake.listen.rpartition(":")[2])
            producing = producer(site, intake.url)
            await producing.open()
            readings, done = producing.channel("readings"), producing.channel("done")
            await readings.send_many([b"%d" % number for number in range(50)])
            await done.send(b"only")
            await done.finish()
            await readings.stored()
            with Query(intake) as query:
                await query.commit()
            await readings.committed(timeout=LONG)
            await readings.send_many([b"%d" % number for number in range(50, 60)])
            await readings.stored()
            await asyncio.to_thread(intake.kill)
            await readings.send(b"60")  # what is under way is how it notices soon
        async with meanwhile(site.intake(listen=f"127.0.0.1:{port}")) as intake:
            await eventually(lambda: producing.statistics.reconnects == 1 and producing.connected)
            await readings.stored()
            with pytest.raises(SinkFailed, match="11 messages are not committed"):
                await readings.committed(timeout=0.3)
            with Query(intake) as query:
                await query.commit()
                await readings.committed(timeout=LONG)
                await done.committed(timeout=LONG)
                # a new process with the same identity learns of what the old one sent
                await producing.close()
                async with producer(site, intake.url) as again:
                    resumed = again.channel("readings")
                    for number in range(62):
                        await resumed.send(b"%d" % number)
                    await resumed.stored()
                    await query.commit()
                    await resumed.committed(timeout=LONG)
                    assert resumed.statistics.committed == 62

    run(main())


def test_who_keeps_no_numbers_gets_those_of_the_wire(site: Site) -> None:
    async def main(intake: IntakeProcess) -> None:
        with Query(intake) as query:
            async with connect(intake.url, tls=site.client_tls) as connection:
                to_us, receipts = channel(headers=[receipts_header()])
                await connection.entrypoint.send(b"", attach=to_us)
                assert from_payload((await receipts.receive()).payload) == []
                one, one_receiver = channel("ordered", name="one")
                lossy, lossy_receiver = channel("unreliable")
                await connection.entrypoint.send(b"", attach=[one_receiver, lossy_receiver])
                await one.send_many([b"a", b"b"])
                await lossy.send(b"u")
                await one.flush()
                await lossy.flush()
                await query.commit()
                told: list[CommittedMessages] = []
                while len(told) < 3:
                    told += from_payload((await receipts.receive()).payload)
                assert sorted(told) == [
                    CommittedMessages("0", True, ((0, 2),), 0),
                    CommittedMessages(f"0/{lossy.channel_id}", False, ((0, 1),), lossy.channel_id),
                    CommittedMessages("one", True, ((0, 2),), one.channel_id),
                ]
                # one such channel at a time; another one, and one of an unknown kind, are finished
                for value in (b"1", b"what"):
                    to_us, more = channel(headers=[(b"receipts", value)])
                    await connection.entrypoint.send(b"", attach=to_us)
                    with pytest.raises(Finished):
                        await more.receive()
                await receipts.close()
                to_us, again = channel(headers=[(b"receipts", b"")])
                await connection.entrypoint.send(b"", attach=to_us)
                assert from_payload((await again.receive()).payload) == []

    with site.intake() as intake:
        run(main(intake))

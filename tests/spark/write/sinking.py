"""The sink without Spark: record batches of a task attempt to one or more endpoints."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pyarrow as pa

from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink
from aqueduct_spark.formats.aqueduct.sink.attempt_connection import MAX_OPEN_CHANNELS
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.sink import SentCounts, WriteIdentity
from tests.support.waiting import LONG


def options(*urls: str, streaming: bool = False, **given: str) -> WriteOptions:
    """Write options for these endpoints."""
    addresses = ",".join(url.removeprefix("aqueduct://") for url in urls)
    every = {
        "endpoint": f"aqueduct://{addresses}",
        "tls.insecure": "true",
        "ackTimeout": f"{LONG:.0f}s",
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    return WriteOptions.parse(
        every,
        AQUEDUCT_OPTIONS,
        OptionKind.STREAM_WRITE if streaming else OptionKind.BATCH_WRITE,
    )


def numbered(count: int, *, start: int = 0, channels: int = 1) -> pa.RecordBatch:
    """Rows ``b"0"``, ``b"1"``, … spread over channels ``c0``, ``c1``, … in turn."""
    rows = range(start, start + count)
    return pa.record_batch(
        {"value": [b"%d" % row for row in rows], "channel": [f"c{row % channels}" for row in rows]}
    )


PATIENCE = LONG
"""Seconds for a test that starts processes, on a busy machine."""


def patiently(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a fresh event loop, bounded in time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


class Attempt:
    """One attempt of a task, whose steps the test takes."""

    def __init__(
        self,
        wanted: WriteOptions,
        *,
        pool: Pool | None = None,
        batch: int = 0,
        partition: int = 0,
        writer: str = "w",
        token: str | None = None,
        max_open: int = MAX_OPEN_CHANNELS,
        rising: bool = False,
    ) -> None:
        identity = WriteIdentity(writer, batch, partition, wanted.idempotence != "none", rising)
        sink, held = AqueductSink(), Pool() if pool is None else pool
        self.delivery = sink.delivery(wanted, identity, held, token, max_open)
        self._splitter = sink.splitter(wanted)

    async def send(self, batch: pa.RecordBatch) -> None:
        for messages in self._splitter.split(batch):
            await self.delivery.send(messages)

    async def run(self, batches: Iterable[pa.RecordBatch]) -> SentCounts:
        """The whole attempt, as a task makes it."""
        try:
            await self.delivery.open()
            for batch in batches:
                await self.send(batch)
                await asyncio.sleep(0)  # as between two batches of Spark
            for messages in self._splitter.rest():
                await self.delivery.send(messages)
            return await self.delivery.complete()
        except BaseException:
            await self.delivery.give_up()
            raise

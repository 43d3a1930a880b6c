"""The sink without Spark: record batches of a task attempt to one or more takers."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_spark.formats.telehash.options import TELEHASH_OPTIONS
from aqueduct_spark.formats.telehash.sink.attempt import MAX_OPEN_CHANNELS
from aqueduct_spark.formats.telehash.sink.delivery import TelehashSink
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.sink import SentCounts, WriteIdentity
from tests.spark.formats.telehash.sink.taker import Taker
from tests.support.virtual_loop import run_virtually


def options(*takers: Taker, stream: bool = False, **given: str) -> WriteOptions:
    """Write options for these endpoints."""
    scheme = "udp" if takers[0].udp else "telehash"
    addresses = ",".join(each.url.partition("://")[2] for each in takers)
    every = {"endpoint": f"{scheme}://{addresses}", "type": "_t"}
    if scheme == "telehash":
        every["tls.insecure"] = "true"
    kind = OptionKind.STREAM_WRITE if stream else OptionKind.BATCH_WRITE
    return WriteOptions.parse(every | given, TELEHASH_OPTIONS, kind)


CARRIERS = pytest.mark.parametrize("udp", [False, True], ids=["quic", "udp"])


def by_column(wanted: WriteOptions) -> WriteOptions:
    """The same where each row has its type."""
    return replace(wanted, own=replace(wanted.own, type=None))


def rows(*values: bytes, **columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values), **columns})


def counted(count: int, start: int = 0) -> pa.RecordBatch:
    return rows(*(b"%d" % row for row in range(start, start + count)))


class Attempt:
    """One attempt of a task, whose steps the test takes."""

    def __init__(
        self,
        wanted: WriteOptions,
        *,
        batch: int = 0,
        partition: int = 0,
        pool: Pool | None = None,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> None:
        identity = WriteIdentity("w", batch, partition, wanted.idempotence != "none")
        sink, held = TelehashSink(), Pool() if pool is None else pool
        self.delivery = sink.delivery(wanted, identity, held, None, max_open)
        self._splitter = sink.splitter(wanted)

    async def send(self, *batches: pa.RecordBatch) -> None:
        for batch in batches:
            for messages in self._splitter.split(batch):
                await self.delivery.send(messages)

    async def run(self, *batches: pa.RecordBatch) -> SentCounts:
        """The whole attempt, as a task makes it."""
        try:
            await self.delivery.open()
            await self.send(*batches)
            return await self.delivery.complete()
        except BaseException:
            await self.delivery.give_up()
            raise


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """In virtual time, sockets and all: what waits for long costs nothing."""
    run_virtually(scenario)

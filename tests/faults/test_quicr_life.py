"""Media of a relay become rows while everything on their way is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from aqueduct_core.aio.quicr.client import QuicrClient, connect
from aqueduct_core.aio.quicr.publisher import Publisher
from aqueduct_core.aio.quicr.server import MediaServer, serve_origin
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_spark.write.worker import BackgroundLoop
from tests.core.cli.running import AQUEDUCT
from tests.core.transport.ends import server_tls
from tests.faults.drivers import Driver, Plan
from tests.faults.tables import SinkTable
from tests.support.ports import free_port
from tests.support.waiting import LONG, Output, ended, wait_until

pytestmark = pytest.mark.spark

OBJECTS = 20
"""Between two kills, in a group of their own."""

Row = tuple[str, int, int, bytes]


class Posted:
    """An origin, and a media that is posted there; ``rows``: those that it should become."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self.rows: list[Row] = []
        self._loop = loop
        self.origin: MediaServer
        self._client: QuicrClient
        self._publisher: Publisher
        loop.run(self._open())

    async def _open(self) -> None:
        self.origin = await serve_origin("127.0.0.1", 0, tls=server_tls())
        self._client = await connect(self.origin.url, tls=ClientTls(insecure=True))
        self._publisher = self._client.publish("u/1")

    def group(self) -> int:
        """Post one more; how many rows there should be."""
        self._loop.run(self._group())
        return len(self.rows)

    async def _group(self) -> None:
        for number in range(OBJECTS):
            payload = b"%d" % len(self.rows)
            at = await self._publisher.send(payload, new_group=not number)
            self.rows.append(("u/1", at.group, at.object, payload))

    def close(self) -> None:
        self._loop.run(self._close())

    async def _close(self) -> None:
        await self._client.close()
        await self.origin.close()


@contextmanager
def relay(port: int, upstream: str) -> Iterator[None]:
    """Killed at the end of the block."""
    where = ("relay", f"127.0.0.1:{port}", upstream, "--self-signed", "--insecure")
    process = subprocess.Popen(
        [*AQUEDUCT, "quicr", *where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = Output(process)
    try:
        output.wait_for("listening on", LONG)
        yield
    finally:
        process.kill()
        process.wait()
        output.close()


def table(plan: Plan) -> list[Row]:
    """The rows that Spark has committed, in the order of their media."""
    rows = []
    for file in SinkTable(plan.table).files():
        found = pq.ParquetFile(file).read(columns=["url", "group_id", "object_id", "value"])
        rows += [(r["url"], r["group_id"], r["object_id"], r["value"]) for r in found.to_pylist()]
    return sorted(rows)


def await_rows(driver: Driver, plan: Plan, count: int) -> None:
    def enough() -> bool:
        assert driver.running, driver.error
        return len(table(plan)) >= count

    wait_until(enough, LONG, f"{count} rows")


@pytest.mark.long
def test_relay_driver_and_intake_are_killed_and_each_object_is_one_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is posted meanwhile is there, too; nothing is told as missing."""
    port = free_port()
    asking = {"endpoint": f"quicr://127.0.0.1:{port}", "subscribePrefix": "u/"}
    plan = Plan(tmp_path, **asking, **{"tls.insecure": "true"})
    plan.format = "quicr"
    with BackgroundLoop() as loop:
        posted = Posted(loop)
        try:
            posted.group()
            with relay(port, posted.origin.url):
                driver = plan.start()
                await_rows(driver, plan, posted.group())
            posted.group()
            with relay(port, posted.origin.url):
                await_rows(driver, plan, posted.group())
                driver.kill()
                posted.group()
                driver = plan.start()
                await_rows(driver, plan, posted.group())
                intake = plan.intake()["pid"]
                os.kill(intake, signal.SIGKILL)
                ended(intake, LONG)
                await_rows(driver, plan, posted.group())
                driver.kill()
            assert table(plan) == posted.rows
            events = spark.read.format("quicr").option("spool", str(plan.spool))
            kinds = events.option("view", "events").load().select("kind").distinct().collect()
            assert {row.kind for row in kinds} <= {"connected", "disconnected", "opened"}
        finally:
            plan.close()
            posted.close()

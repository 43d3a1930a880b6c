"""Leaves spools and checkpoints of queries: ``python -m tests.formats.make DIRECTORY [NAME…]``.

Run it in a checkout of the version whose files are to be kept, with ``.ci/with-java``. One query
listens and ends in good order; one dials and is killed. Beside each, ``rows.json`` has what its
batches gave, and ``events.json`` what its intake had told by then.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from tests.spark.producing import INSECURE, numbered, produce
from tests.spark.scene import SPARK_CONF
from tests.support.python_of_spark import set_python_of_spark
from tests.support.remote import RemoteThread, Script
from tests.support.waiting import LONG, ended, intake_status, wait_until

DIALLED: dict[str, Any] = {"address": "127.0.0.77", "port": 4477}
"""Where the remote is: it goes into the files, so it is an address that nobody else has."""

COLUMNS = ("channel", "producer", "messageNum", "reliable", "partition", "offset")


def as_json(row: Row) -> dict[str, Any]:
    """A row of the source, without what Spark cannot write as JSON."""
    found = {name: row[name] for name in COLUMNS}
    found["value"] = bytes(row["value"]).decode()
    found["timestamp"] = round(row["timestamp"].replace(tzinfo=UTC).timestamp() * 1_000_000)
    found["headers"] = [[each.key, bytes(each.value).decode()] for each in row["headers"] or ()]
    return found


class Life:
    """A query and its intake, in a directory of their own."""

    def __init__(self, spark: SparkSession, home: Path, options: dict[str, str]) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.spool = home / "spool"
        self._home = home
        frame = spark.readStream.format("aqueduct").option("spool", str(self.spool))
        given = {"includeHeaders": "true", "lease": f"{LONG:.0f}s", "retention": "10000d"}
        frame = frame.options(**given, **options)
        writer = frame.load().writeStream.foreachBatch(self._keep)
        status = self.spool / "intake-0" / "status.json"
        before = status.read_text() if status.exists() else ""
        self.query = writer.option("checkpointLocation", str(home / "checkpoint")).start()
        wait_until(lambda: status.exists() and status.read_text() != before, LONG, "an intake")
        self.intake = intake_status(self.spool, 0, LONG)

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = [
            as_json(row) for row in batch.orderBy("partition", "offset").collect()
        ]

    def await_rows(self, count: int) -> None:
        self._await(lambda: sum(map(len, self.batches.values())) >= count, f"{count} rows")

    def await_batch(self, number: int) -> None:
        self._await(lambda: number in self.batches, f"batch {number}")

    def await_value(self, channel: str, value: str) -> None:
        def found() -> bool:
            rows = [row for batch in self.batches.values() for row in batch]
            return any(row["channel"] == channel and row["value"] == value for row in rows)

        self._await(found, f"{value} of {channel}")

    def _await(self, probe: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self.query.processAllAvailable()
            return probe()

        wait_until(look, LONG, what)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """The query in good order, its intake by a signal."""
        self.query.stop()
        os.kill(self.intake["pid"], number)
        ended(self.intake["pid"], LONG)

    def leave(self, events: list[dict[str, Any]], number: signal.Signals) -> None:
        """Stop, and note what was given; logs name this machine, and nobody reads them."""
        self.stop(number)
        (self._home / "rows.json").write_text(json.dumps(self.batches, indent=0))
        (self._home / "events.json").write_text(json.dumps(events, indent=0))
        for path in self.spool.rglob("intake.log*"):
            path.unlink()
        for path in self._home.rglob(".*.crc"):
            path.unlink()


def events_of(spark: SparkSession, spool: Path, **options: str) -> list[dict[str, Any]]:
    frame = spark.read.format("aqueduct").options(spool=str(spool), view="events", **options).load()
    rows = frame.orderBy("offset").collect()
    return [{name: row[name] for name in ("kind", "channel", "producer", "reason")} for row in rows]


def listening(spark: SparkSession, home: Path) -> None:
    options = {"listen": "127.0.0.1:0", "tls.selfSigned": "true"}
    life = Life(spark, home, options)
    endpoint = f"aqueduct://{life.intake['listen']}"
    produce(endpoint, numbered(40), message_headers=[("unit", "C")])
    produce(endpoint, numbered(20), name="loose", mode="unordered", producer="other")
    produce(endpoint, numbered(10), name="lossy", mode="unreliable")
    life.await_rows(70)
    asyncio.run(unfinished(endpoint))
    produce(endpoint, numbered(40), message_headers=[("unit", "C")])
    life.await_rows(100)
    life.leave(events_of(spark, life.spool), signal.SIGTERM)


async def unfinished(endpoint: str) -> None:
    """Thirty messages of a channel that does not end, the second half behind a hole."""
    async with connect(endpoint, tls=INSECURE, producer="tester") as connection:
        for start in (0, 20):
            sender, receiver = channel(
                "ordered", name="open", headers=[("sequence-start", str(start))]
            )
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send_many(numbered(15, start))
            await sender.flush()


def dialling(spark: SparkSession, home: Path) -> None:
    scripts = {"open": Script(messages=25, end="stay"), "done": Script(messages=10)}
    with (
        TemporaryDirectory() as keys,
        RemoteThread(scripts, Path(keys), producer="remote", sequence_start=0, **DIALLED) as remote,
    ):
        options = {
            "endpoint": remote.url,
            "subscribe": ",".join(scripts),
            "tls.caFile": str(remote.ca_file),
            "tls.serverName": "localhost",
        }
        life = Life(spark, home, options)
        life.await_rows(35)
        life.leave(events_of(spark, life.spool), signal.SIGKILL)


def main(directory: Path, names: list[str]) -> None:
    set_python_of_spark()
    builder = SparkSession.builder.master("local[2]")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for make in (listening, dialling):
        if not names or make.__name__ in names:
            make(spark, directory / make.__name__)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Our source into our sink: batches done again are the same rows under the same numbers."""

from __future__ import annotations

import asyncio
import itertools
import zlib
from pathlib import Path

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from tests.faults.batches import logged
from tests.faults.bridged import Received
from tests.faults.ledger import Entry, payload
from tests.spark.producing import INSECURE
from tests.spark.scene import PATIENCE, Scene
from tests.support.intake_process import Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

PARTITIONS = 6
ROWS = 10_000
"""Of each partition in each batch: more than one slice, one window and one attachment hold."""
SIZE = 40
PRODUCER = "tester"


def names() -> list[str]:
    """Of two channels for each partition, found by the place that the intake gives them."""
    found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    numbers = itertools.count()
    while any(len(place) < 2 for place in found.values()):
        name = f"c{next(numbers)}"
        place = found[zlib.crc32(f"{PRODUCER}\0{name}".encode()) % PARTITIONS]
        if len(place) < 2:
            place.append(name)
    return [name for place in found.values() for name in place]


async def send(url: str, channels: list[str], start: int, count: int) -> None:
    """Messages ``start`` to ``start + count`` of each channel; returns when all are stored."""
    async with connect(url, tls=INSECURE, producer=PRODUCER) as connection:

        async def fill(name: str) -> None:
            sender, receiver = channel(
                "ordered", name=name, headers=[("sequence-start", str(start))]
            )
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send_many([payload(start + n, SIZE) for n in range(count)])
            await sender.finish()

        await asyncio.gather(*map(fill, channels))


def test_fault_40_each_batch_is_done_again_behind_a_launch(scene: Scene, tmp_path: Path) -> None:
    """Six tasks of 10,000 rows; after each batch the query stops, its intake ends as with the
    lease, Spark forgets that the batch was done, and it is done again by a query that has to
    launch an intake first."""
    channels, each = names(), ROWS // 2
    scene.options = {
        "partitionsPerIntake": str(PARTITIONS),
        "minOffsetsPerTrigger": str(PARTITIONS * ROWS),
        "maxTriggerDelay": "1h",
    }
    (tmp_path / "receiver").mkdir()
    site = Site(tmp_path / "receiver")
    received = Received(site.spool, dict.fromkeys(channels, SIZE))
    authority = tmp_path / "ca.pem"
    assert site.client_tls.ca_pem is not None
    authority.write_bytes(site.client_tls.ca_pem)

    with site.intake(lease=3600.0) as receiver:

        def start() -> None:
            frame = scene.frame().where("channel <> '0'").select("value", "channel")
            stream = frame.writeStream.format("aqueduct").option("endpoint", receiver.url)
            stream = stream.option("tls.caFile", str(authority))
            query = stream.option("checkpointLocation", str(scene.checkpoint)).start()
            queries.append(scene.follow(query))

        def done(batch: int) -> bool:
            assert queries[-1].exception() is None, queries[-1].exception()
            return batch in logged(scene.checkpoint, "commits")

        queries: list[StreamingQuery] = []
        start()
        for turn in range(2):
            asyncio.run(send(scene.endpoint(), channels, turn * each, each))
            rows = (turn + 1) * PARTITIONS * ROWS
            wait_until(lambda rows=rows: received.rows >= rows, PATIENCE, f"{rows} rows")
            batch = logged(scene.checkpoint, "offsets")[-1]
            wait_until(lambda batch=batch: done(batch), PATIENCE, "the end of the batch")
            queries[-1].stop()
            scene.retire()
            (scene.checkpoint / "commits" / str(batch)).unlink()
            start()
            wait_until(lambda batch=batch: done(batch), PATIENCE, "the batch once more")
            sent = (turn + 1) * each
            entries = [Entry(name, "ordered", PRODUCER, sent, ((0, sent),)) for name in channels]
            bad = [str(v) for v in received.verdicts(entries) if not v.good]
            assert not bad, "\n".join(bad)

"""*Committed* comes from the commit log of a query, also for the last batch."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from aqueduct_core.aio.producer import Producer
from tests.spark.producing import INSECURE, numbered
from tests.spark.scene import PATIENCE, Scene

pytestmark = pytest.mark.spark


def test_fault_10_the_last_batches_of_a_quiet_stream_and_of_available_now_are_receipted(
    scene: Scene,
) -> None:
    """The rows of a message are in the table when its producer learns that it is committed."""
    go_on = threading.Event()
    first_part: Future[int] = Future()
    all_stored: Future[None] = Future()

    async def send(endpoint: str) -> int:
        async with Producer(endpoint, producer="tester", tls=INSECURE) as producer:
            readings = producer.channel("readings")
            await readings.send_many(numbered(200))
            await readings.committed(199, timeout=PATIENCE)
            first_part.set_result(readings.statistics.committed)
            await asyncio.to_thread(go_on.wait, PATIENCE)
            await readings.send_many(numbered(300, 200))
            await readings.finish()
            all_stored.set_result(None)
            await producer.committed(timeout=2 * PATIENCE)
            return readings.statistics.committed

    query = scene.start()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: asyncio.run(send(scene.endpoint())))
        # the first batches, and then nothing but a tick
        assert first_part.result(2 * PATIENCE) == 200
        assert scene.rows().count() == 200
        query.stop()
        go_on.set()
        all_stored.result(PATIENCE)
        bounded = scene.start(scene.frame(maxOffsetsPerTrigger="100"), availableNow=True)
        assert bounded.awaitTermination(int(PATIENCE))
        assert bounded.exception() is None
        # nobody runs any more, so it was told by the end of that run
        assert sending.result(PATIENCE) == 500
    assert scene.rows().count() == 500

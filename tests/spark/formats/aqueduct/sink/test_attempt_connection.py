"""The sink on a path that takes longer for a message than ``ackTimeout``: a real engine on a
virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, cast

import pyarrow as pa
import pytest

from aqueduct_core.aio.channel_table import ChannelTable
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Side
from aqueduct_core.errors import SinkFailed
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.in_memory.link import MemoryLink
from aqueduct_spark.formats.aqueduct.sink.connection import AqueductConnection, ConnectionKey
from aqueduct_spark.write.pool import Pool
from tests.spark.write.sinking import Attempt, options
from tests.support.virtual_loop import let_happen, run_virtually

RATE = 60_000.0
"""Bytes a second."""


class Turner:
    """Takes the place of a driver: the link takes its turns as the clock of the loop goes on."""

    def __init__(self) -> None:
        self.link: MemoryLink
        self.turns = 0

    @property
    def unsent(self) -> int:
        return self.link.client.unsent

    def kick(self, urgent: bool = False) -> None: ...

    def kick_later(self) -> None: ...

    async def wait_closed(self) -> None: ...

    async def writable(self, high: int) -> None:
        while self.unsent >= high:
            await let_happen(0.01)


class SlowPath(Pool):
    """One connection to a receiver behind a path of `RATE`."""

    def __init__(self, ack_mode: AckMode) -> None:
        super().__init__()
        self._ack_mode = ack_mode

    async def lease(self, key: Hashable, dial: Callable[[], Awaitable[Any]]) -> Any:
        assert isinstance(key, ConnectionKey)
        engine = AqueductEngine(Side.CLIENT, (), Config())
        server = AqueductEngine(
            Side.SERVER,
            ((b"deduplicates", b"sequence"),),
            Config(auto_accept=True, ack_mode=self._ack_mode),
        )
        channels = ChannelTable(engine, lambda headers: None, lambda closed: None)
        turner = Turner()
        channels.network.driver = driver = cast(Driver, turner)
        self.link = turner.link = MemoryLink(
            engine, server, rate=RATE, queue=20_000, delay=0.02,
            on_client_events=lambda events: channels.on_events(driver, events),
        )  # fmt: skip
        self.link.run_until(lambda: engine.peer_headers is not None)
        self.clock = asyncio.create_task(self._go_on(turner))
        return AqueductConnection(
            key.address, ClientConnection(channels, driver, engine.peer_headers or ())
        )

    async def _go_on(self, turner: Turner) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time() - self.link.now
        while True:
            await let_happen(0.005)
            self.link.run_for(loop.time() - begun - self.link.now)
            turner.turns += 1


def rows(*sizes: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([bytes(size) for size in sizes], pa.binary())})


def attempt(ack_mode: AckMode, *sizes: int, **given: Any) -> tuple[int, float]:
    """How many rows were acked, and when."""

    async def run() -> tuple[int, float]:
        wanted = options("aqueduct://127.0.0.1:1", ackTimeout="3s", finish="false", **given)
        counts = await Attempt(wanted, pool=SlowPath(ack_mode)).run([rows(*sizes)])
        return counts.acked, asyncio.get_running_loop().time()

    return run_virtually(run())


@pytest.mark.parametrize("sizes", [(600_000,), (10, 600_000, 10), (1_500_000, 400_000)])
def test_what_the_path_takes_is_progress(sizes: tuple[int, ...]) -> None:
    acked, now = attempt(AckMode.ON_RECEIPT, *sizes)
    assert acked == len(sizes)
    assert now > sum(sizes) / RATE


def test_bytes_that_arrive_are_no_acks() -> None:
    with pytest.raises(SinkFailed) as failed:
        attempt(AckMode.ON_STORED, 600_000)
    assert failed.value.subclass == "ACK_TIMEOUT"

"""docs/process-table.md: the process table through two relays, rebuilt in a DataFrame."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.events import Requested
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_spark.write.worker import BackgroundLoop
from tests.core.intake.quicr.scene import MediaScene, media_bench, settings
from tests.core.quicr.ends import Objects
from tests.docs.blocks import texts
from tests.spark.conftest import spark  # noqa: F401  the session of these tests, too
from tests.support.event_loop import client_tls, server_tls

PUBLISH, POST, READ, REBUILD, GROWING = texts("docs/process-table.md", "python")
MOMENTS = 35
Table = dict[str, dict[str, Any]]


def histories(size: int) -> list[Table]:
    """Tables of processes that come and go, one after the other."""
    chance = random.Random(4)
    table: Table = {}
    found = []
    for moment in range(MOMENTS):
        table = {pid: dict(row) for pid, row in table.items() if chance.random() > 0.02}
        for number in range(size // 10 if moment else size):
            pid = str(moment * size + number)
            table[pid] = {"name": f"program {pid}", "state": "R", "pages": chance.randrange(9_999)}
        for row in table.values():
            if chance.random() < 0.3:
                row["state"] = chance.choice("RSDZ")
            row["pages"] += chance.randrange(-50, 50)
        found.append(table)
    return found


class Chain:
    """A publisher's relay, a reader's relay and the origin behind them."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._stack = AsyncExitStack()
        self._config = QuicrConfig(dropping=None)
        self.origin: MediaServer
        self.near: MediaServer
        self.far: MediaServer
        loop.run(self._open())

    async def _open(self) -> None:
        enter = self._stack.enter_async_context
        own = {"tls": server_tls(), "config": self._config}
        trust = {"upstream_tls": client_tls()}
        self.origin = await enter(serve_origin("127.0.0.1", 0, **own))
        datagrams = RelayConfig(upstream_datagram=True)
        upstream = self.origin.url
        self.near = await enter(
            serve_relay("127.0.0.1", 0, upstream, keeping=datagrams, **own, **trust)
        )
        self.far = await enter(serve_relay("127.0.0.1", 0, self.near.url, **own, **trust))

    def publish(self, page: dict[str, Any], url: str, tables: list[Table]) -> None:
        async def moments() -> AsyncIterator[Table]:
            for table in tables:
                yield table
                await asyncio.sleep(0)

        self._loop.run(page["publish"](self.far.url, url, moments(), client_tls()))

    def close(self) -> None:
        self._loop.run(self._stack.aclose())


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as loop:
        yield loop


def rebuilt(
    spark: SparkSession,  # noqa: F811
    page: dict[str, Any],
    server: MediaServer,
) -> tuple[dict[int, Table], set[int]]:
    """The tables of all moments, and the moments that are exact."""
    assert "quicr://127.0.0.1:4433" in READ
    page["spark"] = spark
    exec(READ.replace("quicr://127.0.0.1:4433", server.url), page)
    exec(REBUILD, page)
    tables: dict[int, Table] = {}
    exact = set()
    for row in page["tables"].collect():
        cells = {"name": row.name, "state": row.state, "pages": row.pages}
        tables.setdefault(row.moment, {})[row.pid] = cells
        if row.exact:
            exact.add(row.moment)
    exec(GROWING, page)
    assert {*page["growing"].columns} == {"pid", "name", "max(pages)", "count(moment)"}
    return tables, exact


def test_the_table_of_this_machine_is_published_as_the_page_says(loop: BackgroundLoop) -> None:
    page: dict[str, Any] = {}
    exec(PUBLISH, page)
    chain = Chain(loop)
    try:
        assert "quicr://127.0.0.1:4453" in POST
        two = POST.replace("quicr://127.0.0.1:4453", chain.far.url).replace("(60)", "(2)")
        exec(two, page)
        [counts] = chain.origin.counts()
        assert (counts.url, counts.objects, counts.final) == (b"machines/one", 4, True)
    finally:
        chain.close()


@pytest.mark.spark
def test_where_there_is_room_every_table_is_exact(
    spark: SparkSession,  # noqa: F811
    loop: BackgroundLoop,
) -> None:
    page: dict[str, Any] = {}
    exec(PUBLISH, page)
    given = histories(30)
    chain = Chain(loop)
    try:
        chain.publish(page, "machines/one", given)
        tables, exact = rebuilt(spark, page, chain.near)
    finally:
        chain.close()
    assert exact == set(range(MOMENTS))
    assert tables == dict(enumerate(given))
    here = page["processes"]()
    assert here
    assert all(row.keys() == page["COLUMNS"].keys() for row in here.values())


class NarrowHop:
    """Stands in for ``quicr`` of the page: a hop that an intake reads over a path which is too
    narrow, both in memory, on a virtual clock. ``published``: what it was given."""

    def __init__(self, scene: MediaScene, url: str) -> None:
        self.published: Objects = {}
        self._scene = scene
        self._queue = scene.peer.serves[url.encode()] = ObjectQueue()
        scene.run(0.2)
        [self._request] = scene.peer.told(Requested)

    @asynccontextmanager
    async def publish(self, *_: Any, **__: Any) -> AsyncIterator[NarrowHop]:
        yield self
        self._queue.finish()
        self._wake()

    async def send(self, payload: bytes, *, flags: int = 0, new_group: bool = False) -> None:
        position = self._queue.next
        if new_group and position.object:
            position = Position(position.group + 1, 0)
        self.published[position] = flags, payload
        self._queue.append(position, payload, flags, self._scene.link.now)
        self._wake()

    def _wake(self) -> None:
        self._scene.peer.engine.wake(self._request.stream, self._scene.link.now)
        self._scene.peer.end.kick()
        self._scene.link.kick()


@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_where_there_is_none_it_is_exact_wherever_nothing_was_dropped(
    delivery: str, tmp_path: Path
) -> None:
    """Twice as much as the path carries. Each hole is a row; what is never dropped is there, and
    what is dropped first is missed most."""
    page: dict[str, Any] = {"objects": MagicMock()}
    exec(PUBLISH, page)
    exec(REBUILD, page)
    given = histories(300)

    async def moments(scene: MediaScene) -> AsyncIterator[Table]:
        for table in given:
            yield table
            scene.run(0.1)

    with media_bench(tmp_path) as bench:
        path = {"rate": 120_000, "queue": 12_000, "delay": 0.02}
        scene = MediaScene(bench, settings(("machines/one",), delivery=delivery), **path)
        page["quicr"] = hop = NarrowHop(scene, "machines/one")
        asyncio.run(page["publish"]("", "machines/one", moments(scene), None))
        scene.run(30.0)
        rows = sorted(bench.rows(), key=lambda row: (row["group_id"], row["object_id"]))
        assert not {"gap", "lost", "cancelled"} & {*scene.kinds()}
        assert len(scene.events("finished")) == 1
    dropped = {Position(row["group_id"], row["object_id"]) for row in rows if row["is_hole"]}
    assert dropped == {*scene.peer.dropped}
    assert [(row["group_id"], row["object_id"]) for row in rows] == [*hop.published]
    for row in rows:
        flags, payload = hop.published[Position(row["group_id"], row["object_id"])]
        assert row["value"] == (None if row["is_hole"] else payload)
        assert flags or not row["is_hole"]
    lost = Counter(hop.published[position][0] for position in dropped)
    assert lost[133] > 0
    assert lost[129] <= lost[131] <= lost[133]

    tables: dict[int, Table] = {}
    exact = set()
    for _, group in itertools.groupby(rows, lambda row: row["group_id"]):
        for row in page["rebuild"](pa.Table.from_pylist([*group])).to_pylist():
            cells = {column: row[column] for column in page["COLUMNS"]}
            tables.setdefault(row["moment"], {})[row["pid"]] = cells
            if row["exact"]:
                exact.add(row["moment"])
    assert tables.keys() == set(range(MOMENTS))
    assert {0, 10, 20, 30} <= exact < tables.keys()
    for moment in exact:
        assert tables[moment] == given[moment]
    first = {group: min(p.object for p in dropped if p.group == group) for group, _ in dropped}
    assert exact == {at for at in tables if at % 10 * 3 < first.get(at // 10, 1 << 30)}

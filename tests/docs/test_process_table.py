"""docs/process-table.md: the process table through two relays, rebuilt in a DataFrame."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_spark.write.worker import BackgroundLoop
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

    def __init__(self, loop: BackgroundLoop, dropping: DropSettings | None) -> None:
        self._loop = loop
        self._stack = AsyncExitStack()
        self._config = QuicrConfig(dropping=dropping)
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
    chain = Chain(loop, None)
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
    chain = Chain(loop, None)
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


@pytest.mark.long
@pytest.mark.spark
def test_where_there_is_none_it_is_exact_wherever_nothing_was_dropped(
    spark: SparkSession,  # noqa: F811
    loop: BackgroundLoop,
) -> None:
    page: dict[str, Any] = {}
    exec(PUBLISH, page)
    given = histories(3_000)
    chain = Chain(loop, DropSettings(threshold=0.001, interval=0.001))
    try:
        chain.publish(page, "machines/one", given)
        tables, exact = rebuilt(spark, page, chain.origin)
    finally:
        chain.close()
    assert tables.keys() == set(range(MOMENTS))
    assert {0, 10, 20, 30} <= exact  # what is never dropped is there
    for moment in exact:
        assert tables[moment] == given[moment]
    dropped = sum(counts.dropped for counts in chain.near.counts() + chain.far.counts())
    assert not dropped or len(exact) < MOMENTS

"""``format("quicr")`` in queries: rows are posted, asked for, and known when they come again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_spark.write.worker import BackgroundLoop
from tests.core.intake.quicr.peers import ScriptedOrigin, serving
from tests.core.quicr.ends import Objects, media
from tests.core.transport.ends import server_tls
from tests.spark.scene import PATIENCE, Scene, error_line
from tests.support.waiting import LONG, wait_until

pytestmark = pytest.mark.spark


class Origin:
    """A `ScriptedOrigin` in a loop of its own."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._scripted = loop.run(self._made())
        self._serving = serving(self._scripted)
        self.endpoint = "quicr://" + loop.run(self._serving.__aenter__())

    async def _made(self) -> ScriptedOrigin:
        return ScriptedOrigin()

    def publish(self, url: bytes, objects: Objects, *, finished: bool = True) -> None:
        async def publish() -> None:
            self._scripted.publish(url, objects, finished=finished)

        self._loop.run(publish())

    def close(self) -> None:
        self._loop.run(self._serving.__aexit__(None, None, None))


@pytest.fixture
def origin() -> Iterator[Origin]:
    with BackgroundLoop() as loop:
        origin = Origin(loop)
        yield origin
        origin.close()


@pytest.fixture
def quicr(scene: Scene, tmp_path: Path) -> Scene:
    authority = tmp_path / "origin.pem"
    authority.write_bytes(server_tls().cert_pem or b"")
    scene.format = "quicr"
    return scene


def asking(origin: Origin, tmp_path: Path, **given: str) -> dict[str, str]:
    return {
        "endpoint": origin.endpoint,
        "tls.caFile": str(tmp_path / "origin.pem"),
        **given,
    }


def table(scene: Scene, count: int) -> list[tuple[str, int, int, bytes | None]]:
    """Rows of the table, once there are so many; in the order of their media."""
    if not scene.table.exists():
        return []
    rows = scene.spark.read.parquet(str(scene.table))
    found = rows.select("url", "group_id", "object_id", "value").collect()
    return sorted((r[0], r[1], r[2], bytes(r[3])) for r in found) if len(found) >= count else []


def await_table(scene: Scene, query: Any, count: int) -> list[tuple[str, int, int, bytes | None]]:
    def probe() -> list[tuple[str, int, int, bytes | None]]:
        assert query.isActive, query.exception()
        try:
            return table(scene, count)
        except Exception:
            return []  # files of a batch that is not committed yet, and no others

    return wait_until(probe, PATIENCE, f"a table of {count} rows")


def wanted(url: str, objects: Objects) -> list[tuple[str, int, int, bytes]]:
    return [(url, *at, payload) for at, (_, payload) in objects.items()]


def test_rows_that_are_posted_are_rows_where_they_are_taken(
    spark: SparkSession, quicr: Scene
) -> None:
    query = quicr.start()
    rows = spark.range(0, 60, numPartitions=3).selectExpr(
        "CAST(id AS STRING) AS value",
        "concat('cam/', id % 4) AS url",
        "CAST(130 AS SHORT) AS flags",
    )
    endpoint = quicr.endpoint()
    writer = rows.repartition("url").write.format("quicr").mode("append")
    writer = writer.option("endpoint", endpoint).option("tls.insecure", "true")
    for _ in range(2):  # the same rows again are no more rows
        writer.option("group", "7").save()
    spark.sql(
        f"CREATE TABLE posts USING quicr OPTIONS (endpoint '{endpoint}', `tls.insecure` 'true', "
        "payloadFormat 'text')"
    )
    spark.sql("INSERT INTO posts VALUES ('by SQL', 'sql')")
    spark.sql("DROP TABLE posts")
    found = await_table(quicr, query, 61)
    assert [row for row in found if row[0] == "sql"] == [("sql", 0, 0, b"by SQL")]
    found = [row for row in found if row[0] != "sql"]
    assert len(found) == 60
    assert {(url, group) for url, group, _, _ in found} == {(f"cam/{n}", 7) for n in range(4)}
    assert [number for url, _, number, _ in found if url == "cam/0"] == list(range(15))
    assert sorted(int(value or b"") for *_, value in found) == list(range(60))
    query.stop()

    stored = spark.read.format("quicr").option("spool", str(quicr.spool))
    only = stored.option("channels", "cam/1").load()
    assert only.count() == 15
    assert only.select("flags", "droppable", "drop_priority", "is_hole").distinct().collect() == [
        (130, False, 65, False)
    ]
    events = stored.option("view", "events").load()
    finished = events.where("kind = 'finished'").selectExpr(
        "sum(counts.reliableStored)", "sum(counts.deduped)"
    )
    assert finished.collect() == [(15, 15)]  # of one media, the only one that is selected
    with pytest.raises(Exception) as refused:
        spark.read.format("aqueduct").option("spool", str(quicr.spool)).load()
    assert "protocol quicr, and format aqueduct" in error_line(refused.value)

    spread = spark.range(0, 40, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    query = quicr.start()
    writer = spread.write.format("quicr").mode("append").option("endpoint", quicr.endpoint())
    with pytest.raises(Exception) as refused:
        writer.option("tls.insecure", "true").option("url", "spread").save()
    assert "ROW_REPEATED" in error_line(refused.value)
    assert "'spread' were in the tasks" in error_line(refused.value)


def test_a_bounded_read_ends_with_the_media(
    spark: SparkSession, quicr: Scene, origin: Origin, tmp_path: Path
) -> None:
    one, other = media(5, 4, size=9_000), media(2)
    origin.publish(b"one", one)
    origin.publish(b"other", other)
    reader = spark.read.format("quicr").options(**asking(origin, tmp_path, url="one,other"))
    rows = reader.option("untilTimeout", f"{LONG:.0f}s").load()
    found = sorted(
        (r.url, r.group_id, r.object_id, bytes(r.value))
        for r in rows.select("url", "group_id", "object_id", "value").collect()
    )
    assert found == wanted("one", one) + wanted("other", other)


def test_a_bounded_read_fails_by_name_for_an_object_that_is_too_large(
    spark: SparkSession, quicr: Scene, origin: Origin, tmp_path: Path
) -> None:
    """At once, and says what to raise; with ``onCancel=keep`` too."""
    origin.publish(b"u", media(2) | {Position(0, 2): (0, bytes(2_001))}, finished=False)
    reader = spark.read.format("quicr").options(**asking(origin, tmp_path, url="u"))
    reader = reader.option("maxMessageBytes", "2000b").option("untilTimeout", f"{LONG:.0f}s")
    for on_cancel in ("fail", "keep"):
        with pytest.raises(Exception) as failed:
            reader.option("onCancel", on_cancel).load().collect()
        line = error_line(failed.value)
        assert line.startswith("[AQUEDUCT_CHANNEL.TOO_LARGE] channel 'u' did not finish")
        assert "object (0, 2) has more than 2000 bytes (maxMessageBytes)" in line
        assert "Raise 'maxMessageBytes'" in line


def test_a_query_goes_on_where_it_was_and_fails_for_what_is_lost(
    spark: SparkSession, quicr: Scene, origin: Origin, tmp_path: Path
) -> None:
    whole = media(4, 4, 4, 4)
    quicr.options = asking(origin, tmp_path, subscribePrefix="u")
    first = {at: each for at, each in whole.items() if at < (1, 3)}
    origin.publish(b"u/1", first, finished=False)
    query = quicr.start()
    assert await_table(quicr, query, len(first)) == wanted("u/1", first)
    query.stop()
    quicr.kill(quicr.intake()["pid"])

    more = {at: each for at, each in whole.items() if at < (2, 2)}
    origin.publish(b"u/1", more, finished=False)
    query = quicr.start()
    assert await_table(quicr, query, len(more)) == wanted("u/1", more)
    query.stop()
    quicr.kill(quicr.intake()["pid"])

    late = {at: each for at, each in whole.items() if at >= (3, 1)}
    origin.publish(b"u/1", late)
    query = quicr.start()
    wait_until(lambda: not query.isActive, PATIENCE, "the end of the query")
    error = error_line(query.exception())
    assert "AQUEDUCT_DATA_LOSS.RANGE_GONE" in error
    assert "u/1" in error
    assert f"{Position(2, 2)}" in error

    query = quicr.start(quicr.frame(failOnDataLoss="false"))
    assert await_table(quicr, query, len(more | late)) == wanted("u/1", more | late)
    query.stop()


@pytest.fixture
def relays() -> Iterator[tuple[str, str]]:
    """Two relays of one origin: where to post, and where to ask."""

    async def opened() -> tuple[list[MediaServer], tuple[str, str]]:
        tls, trust = server_tls(), ClientTls(insecure=True)
        origin = await serve_origin("127.0.0.1", 0, tls=tls)
        two = [
            await serve_relay("127.0.0.1", 0, origin.url, tls=tls, upstream_tls=trust)
            for _ in range(2)
        ]
        return [origin, *two], (two[0].url, two[1].url)

    async def closed(servers: list[MediaServer]) -> None:
        for server in reversed(servers):
            await server.close()

    with BackgroundLoop() as loop:
        servers, urls = loop.run(opened())
        yield urls
        loop.run(closed(servers))


def test_rows_go_through_relays_and_come_back(
    spark: SparkSession, quicr: Scene, relays: tuple[str, str]
) -> None:
    """Of a stream each micro-batch is a media, found by its prefix; one way in datagrams, the other
    on streams."""
    near, far = relays
    given = {"endpoint": far, "tls.insecure": "true", "subscribePrefix": "rows/"}
    query = quicr.start(quicr.frame(**{key.replace(".", "_"): v for key, v in given.items()}))
    inputs = quicr.table.parent / "inputs"
    for name in ("one", "two"):
        (inputs / name).mkdir(parents=True)
        lines = [f"{name} {n} " + "x" * 3_000 for n in range(20)]
        (inputs / name / "lines.txt").write_text("\n".join(lines))
    texts = spark.readStream.format("text").option("maxFilesPerTrigger", "1")
    writer = texts.load(str(inputs / "*")).repartition(1).writeStream.format("quicr")
    writer = writer.option("endpoint", near).option("tls.insecure", "true").option("url", "rows")
    writer = writer.option("delivery", "datagram")
    writer = writer.option("checkpointLocation", str(quicr.table.parent / "posted"))
    posting = quicr.follow(writer.trigger(availableNow=True).start())
    assert posting.awaitTermination(PATIENCE), "it did not end"
    found = await_table(quicr, query, 40)
    assert sorted({(url, group) for url, group, _, _ in found}) == [("rows/0", 0), ("rows/1", 1)]
    for group in (0, 1):
        assert [number for _, of, number, _ in found if of == group] == list(range(20))
    assert len({value for *_, value in found}) == 40
    query.stop()
    bounded = spark.read.format("quicr").option("endpoint", near).option("tls.insecure", "true")
    bounded = bounded.option("url", "rows/0,rows/1").option("untilTimeout", f"{LONG:.0f}s")
    assert bounded.load().count() == 40

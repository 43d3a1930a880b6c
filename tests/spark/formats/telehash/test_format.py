"""``format("telehash")`` in queries: rows go out as packets and come back as rows, each once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.functions import expr

from aqueduct_spark.formats.telehash.options import DEFAULT_WINDOW
from tests.spark.formats.telehash.giver import Giver, giving
from tests.spark.scene import PATIENCE, Scene, error_line
from tests.support.waiting import LONG, wait_until

pytestmark = pytest.mark.spark

CARRIERS = pytest.mark.parametrize(
    "carrier", ["telehash", pytest.param("udp", marks=pytest.mark.long)]
)
PATIENT = {"channelTimeout": f"{LONG:.0f}s"}
"""For both sides, on a busy machine."""


@pytest.fixture
def telehash(scene: Scene) -> Scene:
    scene.format = "telehash"
    scene.options = dict(PATIENT)
    return scene


def listening(scene: Scene, carrier: str, **options: str) -> Callable[[], str]:
    """Have its queries listen; returns what gives the endpoint."""
    scene.options |= {"listen": f"{carrier}://127.0.0.1:0", **options}
    return lambda: f"{carrier}://{scene.intake()['listen']}"


def writing(frame: DataFrame, endpoint: str, **options: str) -> DataFrameWriter:
    writer = frame.write.format("telehash").mode("append").option("endpoint", endpoint)
    if not endpoint.startswith("udp:"):
        writer = writer.option("tls.insecure", "true")
    return writer.options(**{"type": "_rows"} | PATIENT | options)


def numbers(spark: SparkSession, count: int, start: int = 0, tasks: int = 3) -> DataFrame:
    return spark.range(start, start + count, numPartitions=tasks).selectExpr(
        "CAST(id AS STRING) AS value", "to_json(named_struct('n', id)) AS js"
    )


def stored(scene: Scene, **options: str) -> DataFrame:
    reader = scene.spark.read.format("telehash").option("spool", str(scene.spool))
    return reader.options(**options).load()


def await_values(scene: Scene, query: Any, count: int) -> list[int]:
    """The values of the table, as numbers, once there are so many."""

    def probe() -> list[int]:
        assert query.isActive, query.exception()
        try:
            rows = scene.spark.read.parquet(str(scene.table)).select("value").collect()
        except Exception:
            return []  # files of a batch that is not committed yet, and no others
        return sorted(int(row.value) for row in rows) if len(rows) >= count else []

    return wait_until(probe, PATIENCE, f"a table of {count} rows")


@CARRIERS
def test_rows_that_are_sent_are_rows_where_they_are_taken(
    spark: SparkSession, telehash: Scene, carrier: str
) -> None:
    endpoint = listening(telehash, carrier)
    query = telehash.start()
    identity = {"writerId": "w", "batchId": "7"}
    for _ in range(2):  # the same rows again are no more rows
        writing(numbers(spark, 60), endpoint(), **identity).save()
    insecure = "" if carrier == "udp" else "`tls.insecure` 'true', "
    spark.sql(
        f"CREATE TABLE packets USING telehash OPTIONS (endpoint '{endpoint()}', {insecure}"
        "payloadFormat 'text', channelTimeout '60s')"
    )
    spark.sql("INSERT INTO packets VALUES ('1000', '_sql')")
    spark.sql("DROP TABLE packets")
    assert await_values(telehash, query, 61) == [*range(60), 1000]
    query.stop()

    rows = stored(telehash, channels="_rows").collect()
    assert len(rows) == 60
    for row in rows:
        js = json.loads(row.js)
        assert js["n"] == int(row.value)
        assert (js["q"], js["e"]) == ("w", 7)
    assert {(json.loads(row.js)["p"], row.is_end) for row in rows if row.is_end} == {
        (0, True),
        (1, True),
        (2, True),
    }
    assert [row.seq for row in sorted(rows, key=lambda row: int(row.value))[:20]] == [*range(20)]
    finished = stored(telehash, view="events", channels="_rows").where("kind = 'finished'")
    counts = finished.selectExpr("sum(counts.reliableStored)", "sum(counts.deduped)").collect()
    assert counts == [(60, 60)]
    with pytest.raises(Exception) as refused:
        spark.read.format("quicr").option("spool", str(telehash.spool)).load()
    assert "protocol telehash, and format quicr" in error_line(refused.value)


def test_a_write_that_failed_halfway_is_whole_when_it_is_done_again(
    spark: SparkSession, telehash: Scene
) -> None:
    """The intake is killed in between: what it knows of rows is on its disk."""
    endpoint = listening(telehash, "telehash")
    query = telehash.start()
    identity = {"writerId": "w", "batchId": "0"}
    whole = numbers(spark, 200, tasks=1)
    broken = whole.withColumn("value", expr("IF(value = '190', repeat('x', 1300), value)"))
    with pytest.raises(Exception) as failed:
        writing(broken, endpoint(), **identity).save()
    assert "MESSAGE_TOO_LARGE] Row 190 of the task" in error_line(failed.value)
    before = telehash.intake()["pid"]
    telehash.kill(before)
    wait_until(lambda: telehash.intake()["pid"] != before, PATIENCE, "the next intake")
    writing(whole, endpoint(), **identity).save()
    assert await_values(telehash, query, 200) == [*range(200)]
    query.stop()
    finished = stored(telehash, view="events").where("kind = 'finished'").collect()
    assert [row.counts.reliableStored + row.counts.deduped for row in finished] == [200]
    assert finished[0].counts.deduped >= 190 - DEFAULT_WINDOW

    again = telehash.start()  # from its checkpoint
    writing(numbers(spark, 10, 200), endpoint()).save()
    assert await_values(telehash, again, 210) == [*range(210)]


def test_committed_is_acked_when_all_queries_have_it(spark: SparkSession, telehash: Scene) -> None:
    endpoint = listening(telehash, "udp", ackLevel="committed")
    one = telehash.start()
    endpoint()  # its intake runs, which the other one joins
    table = telehash.table
    telehash.table, telehash.checkpoint = table.parent / "other", table.parent / "other-checkpoint"
    other = telehash.start(telehash.frame(cursor="other"))
    wait_until(lambda: other.recentProgress, PATIENCE, "the cursor of the other query")
    for batch in range(2):
        writing(numbers(spark, 20, 20 * batch, tasks=1), endpoint()).save()
        for place in (table, table.parent / "other"):
            rows = spark.read.parquet(str(place)).select("value").collect()
            assert len(rows) == 20 * (batch + 1), "it was acked before it was in the table"
    assert one.isActive


def test_a_micro_batch_that_is_done_again_is_no_more_rows(
    spark: SparkSession, telehash: Scene
) -> None:
    """As after a crash of the driver before it had noted the batch as done."""
    endpoint = listening(telehash, "udp")
    query = telehash.start()
    inputs, checkpoint = telehash.table.parent / "inputs", telehash.table.parent / "sent"
    for name in ("one", "two"):
        (inputs / name).mkdir(parents=True)
        start = 50 * (name == "two")
        (inputs / name / "lines.txt").write_text("\n".join(map(str, range(start, start + 50))))
    texts = spark.readStream.format("text").option("maxFilesPerTrigger", "1")
    writer = texts.load(str(inputs / "*")).repartition(1).writeStream.format("telehash")
    writer = writer.options(type="_lines", checkpointLocation=str(checkpoint), **PATIENT)
    for _ in range(2):
        sending = writer.option("endpoint", endpoint()).trigger(availableNow=True).start()
        telehash.follow(sending)
        assert sending.awaitTermination(PATIENCE), "it did not end"
        for path in (checkpoint / "commits").glob("*1*"):
            path.unlink()
    assert await_values(telehash, query, 100) == [*range(100)]
    finished = stored(telehash, view="events").where("kind = 'finished'").orderBy("offset")
    found = [(row.counts.reliableStored, row.counts.deduped) for row in finished.collect()]
    assert found == [(50, 0), (50, 0), (0, 50)]


@CARRIERS
def test_a_bounded_read_ends_with_the_channels(spark: SparkSession, carrier: str) -> None:
    giver = Giver(udp=carrier == "udp")
    giver.bodies = {"_one": [b"%d" % n for n in range(20)], "_two": [b"x" * 1_000]}
    with giving(giver) as url:
        reader = spark.read.format("telehash").option("endpoint", url).options(**PATIENT)
        if carrier != "udp":
            reader = reader.option("tls.insecure", "true")
        reader = reader.option("type", "_one,_two").option("untilTimeout", f"{LONG:.0f}s")
        rows = reader.load().select("type", "seq", "value", "is_end").collect()
    found = sorted((row.type, row.seq, bytes(row.value), row.is_end) for row in rows)
    assert found == [
        *(("_one", n, b"%d" % n, n == 19) for n in range(20)),
        ("_two", 0, b"x" * 1_000, True),
    ]
    assert sorted(giver.opened) == ["_one", "_two"]


@pytest.mark.long
def test_committed_goes_with_triggers_of_two_seconds(spark: SparkSession, telehash: Scene) -> None:
    """For about five minutes; each write waits for a commit, and no peer gives up."""
    endpoint = listening(telehash, "telehash", ackLevel="committed", channelTimeout="10s")
    query = telehash.start(processingTime="2 seconds")
    writes = 100
    for batch in range(writes):
        writing(numbers(spark, 20, 20 * batch, tasks=1), endpoint(), channelTimeout="10s").save()
    assert await_values(telehash, query, 20 * writes) == [*range(20 * writes)]
    query.stop()
    kinds = {row.kind for row in stored(telehash, view="events").select("kind").collect()}
    assert not kinds & {"timeout", "cancelled", "failed"}


@pytest.mark.long
def test_committed_with_triggers_of_twenty_seconds_says_what_to_do(
    spark: SparkSession, telehash: Scene
) -> None:
    """The peer gives up after ten, as it must."""
    endpoint = listening(telehash, "telehash", ackLevel="committed", channelTimeout="10s")
    query = telehash.start(processingTime="20 seconds")
    rows = numbers(spark, 20, tasks=1)
    wait_until(lambda: query.recentProgress, PATIENCE, "the trigger that launches the intake")
    with pytest.raises(Exception) as failed:
        writing(rows, endpoint(), channelTimeout="10s").save()
    assert "AQUEDUCT_SINK.ACK_TIMEOUT" in error_line(failed.value)
    assert "ackLevel=stored" in error_line(failed.value)

    def told() -> list[str]:
        events = stored(telehash, view="events").where("kind IN ('timeout', 'cancelled')")
        return [row.reason for row in events.collect() if "ackLevel=stored" in row.reason]

    [reason, *_] = wait_until(told, PATIENCE, "the event")
    assert "20 packets waited for their commit" in reason
    log = telehash.spool / "intake-0" / "intake.log"
    wait_until(lambda: "ackLevel=stored" in log.read_text(), PATIENCE, "a line in the log")
    query.stop()

"""The second job of the demo: checks the table against the producers' ledgers, and draws it.

Run when the job ingest has drained. Reads ``table`` (Parquet) and ``ledger/*.json`` of ``--out``;
writes ``ledger.json`` there, and ``demo.png`` where matplotlib is installed, and prints a summary
and the ledger, one line a channel and a total. Exit code 1 when a message that was acked is not in
the table, is there twice, or an ordered channel is out of order.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from aqueduct_jobs.demo.ledger import Line, total


def acked_numbers(spark: SparkSession, ledgers: list[dict[str, Any]]) -> DataFrame:
    """One row for each message that a producer knows to be stored."""
    ranges = [
        (entry["channel"], entry["producer"], reliable, first, stop)
        for entry in ledgers
        for reliable, key in ((True, "acked_reliable"), (False, "acked_unreliable"))
        for first, stop in entry[key]
        if stop > first
    ]
    schema = "channel STRING, producer STRING, reliable BOOLEAN, first LONG, stop LONG"
    return spark.createDataFrame(ranges, schema).select(
        "channel",
        "producer",
        "reliable",
        F.explode(F.sequence("first", F.col("stop") - 1)).alias("messageNum"),
    )


def check(spark: SparkSession, table: DataFrame, ledgers: list[dict[str, Any]]) -> list[Line]:
    key = ["channel", "producer", "reliable", "messageNum"]
    rows = _counts(table.groupBy("channel").count())
    distinct = _counts(table.select(key).distinct().groupBy("channel").count())
    lost = _counts(
        acked_numbers(spark, ledgers)
        .join(table.select(key), key, "left_anti")
        .groupBy("channel")
        .count()
    )
    # In an ORDERED channel offsets rise with message numbers, which go up one by one.
    before = F.lag("messageNum").over(Window.partitionBy("channel", "producer").orderBy("offset"))
    breaks = _counts(
        table.where("reliable")
        .withColumn("before", before)
        .where("messageNum != coalesce(before, -1) + 1")
        .groupBy("channel")
        .count()
    )
    return [
        Line(
            channel=entry["channel"],
            mode=entry["mode"],
            sent=entry["sent"],
            acked=entry["acked"],
            nacked=entry["nacked"],
            rows=rows.get(entry["channel"], 0),
            lost_after_ack=lost.get(entry["channel"], 0),
            duplicates=rows.get(entry["channel"], 0) - distinct.get(entry["channel"], 0),
            order_breaks=breaks.get(entry["channel"], 0) if entry["mode"] == "ordered" else 0,
        )
        for entry in ledgers
    ]


def summary(table: DataFrame) -> list[str]:
    """A few facts of the machine, from the rows alone."""
    parsed = table.withColumn("text", F.col("value").cast("string"))
    load = parsed.where("channel = 'load'").select(
        F.posexplode(F.from_json(F.get_json_object("text", "$.cores"), "array<double>")).alias(
            "core", "percent"
        )
    )
    cores = load.groupBy("core").agg(F.avg("percent"), F.max("percent")).orderBy("core").collect()
    changes = (
        parsed.where("channel = 'processes'")
        .groupBy(F.get_json_object("text", "$.event").alias("event"))
        .count()
        .orderBy("event")
        .collect()
    )
    counters = parsed.where("channel = 'counters'").select(
        F.get_json_object("text", "$.sent_bytes").cast("long").alias("sent"),
        F.get_json_object("text", "$.written_bytes").cast("long").alias("written"),
    )
    network = counters.agg(
        F.max("sent") - F.min("sent"), F.max("written") - F.min("written")
    ).first()
    lines = [
        f"core {core}: {mean:.0f} % busy on average, {most:.0f} % at most"
        for core, mean, most in cores
    ]
    lines.append("process table: " + ", ".join(f"{count} {event}" for event, count in changes))
    if network is not None and network[0] is not None:
        lines.append(f"network: {network[0]:,} bytes sent; disk: {network[1]:,} bytes written")
    return lines


def picture(table: DataFrame, lines: list[Line], path: Path) -> str:
    """Draw it, where that can be drawn; a line that says where it is, or what it lacks."""
    try:
        from aqueduct_jobs.demo.picture import draw
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return 'no picture, which needs matplotlib: pip install "aqueduct-spark[demo]"'
    draw(table, lines, path)
    return f"picture: {path}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args(argv).out
    spark = SparkSession.builder.appName("aqueduct-demo-report").getOrCreate()
    ledgers = [json.loads(p.read_text()) for p in sorted((out / "ledger").glob("*.json"))]
    table = spark.read.parquet(str(out / "table")).select(
        "*", F.col("_metadata.file_modification_time").alias("written")
    )
    lines = check(spark, table, ledgers)
    for text in summary(table):
        print(text)
    print(picture(table, lines, out / "demo.png"))
    everything = total(lines)
    report = [asdict(line) for line in (*lines, everything)]
    (out / "ledger.json").write_text(json.dumps(report, indent=2) + "\n")
    print()
    for line in (*lines, everything):
        print(line)
    spark.stop()
    return 0 if everything.good and everything.rows else 1


def _counts(frame: DataFrame) -> dict[str, int]:
    return {row[0]: row[1] for row in frame.collect()}


if __name__ == "__main__":
    sys.exit(main())

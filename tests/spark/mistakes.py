"""Forty mistakes, and what a user of Spark reads first of each: in a session as of a notebook, by
spark-submit, and over Connect.

    .ci/with-java .venv/bin/python -m tests.spark.mistakes OUT.md    # all three, some minutes
    .ci/with-java .venv/bin/python -m tests.spark.mistakes           # in a session; JSON lines

Connect needs ``pip install 'pyspark[connect]'``; where it is not there, its column is empty.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.python_of_spark import set_python_of_spark

LISTEN = {"listen": "127.0.0.1:0", "spool": "HOME/spool", "tls.selfSigned": "true"}
NOBODY = {"endpoint": "aqueduct://127.0.0.1:1", "tls.insecure": "true"}
INTAKES = {"intakes": "127.0.0.1:1", "tls.caFile": "HOME/none.pem", "auth.tokenFile": "HOME/none"}

Act = Callable[[Any, Path], object]


def load(**options: str) -> Act:
    """``readStream`` with a listener, and these options; over Connect its columns ask first."""
    return lambda spark, home: _reader(spark.readStream, LISTEN | options, home).load().schema


def stored(**options: str) -> Act:
    """A bounded read of nothing but these options."""
    return lambda spark, home: _reader(spark.read, options, home).load().collect()


def stream(schema: str | None = None, once: bool = False, **options: str) -> Act:
    """The same as `load`, started, until its end."""

    def act(spark: Any, home: Path) -> None:
        reader = _reader(spark.readStream, LISTEN | options, home)
        frame = (reader if schema is None else reader.schema(schema)).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{home}/checkpoint")
        (writer.trigger(once=True) if once else writer).start().awaitTermination()

    return act


def write(expression: str = "CAST(id AS STRING) AS value", mode: str = "append", **o: str) -> Act:
    def act(spark: Any, home: Path) -> None:
        writer = spark.range(1).selectExpr(expression).write.format("aqueduct").mode(mode)
        writer.options(**_placed(NOBODY | o, home)).save()

    return act


def write_stream(expression: str = "CAST(value AS STRING) AS value") -> Act:
    def act(spark: Any, home: Path) -> None:
        rows = spark.readStream.format("rate").load().selectExpr(expression)
        writer = rows.writeStream.format("aqueduct").options(**NOBODY)
        writer.option("checkpointLocation", f"{home}/checkpoint").start().awaitTermination()

    return act


def port_in_use(spark: Any, home: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        stream(listen=f"127.0.0.1:{other.getsockname()[1]}")(spark, home)


def sql(text: str) -> Act:
    return lambda spark, home: spark.sql(text)


MISTAKES: dict[str, Act] = {
    "an option with a slip": load(startingOfset="latest"),
    "an option of nobody": load(foo="x"),
    "a token in the options": load(token="s3cret"),
    "a duration without a unit": load(groupCommit="20"),
    "a size below zero": load(spoolMaxBytes="-1g"),
    "no number": load(numIntakes="two"),
    "no truth": load(failOnDataLoss="no"),
    "a port alone": load(listen="4433"),
    "IPv6 without brackets": load(listen="::1:4433"),
    "a URL to listen on": load(listen="aqueduct://127.0.0.1:4433"),
    "a port out of range": load(listen="127.0.0.1:70000"),
    "a spool in a store": load(spool="s3://bucket/spool"),
    "no certificate": load(listen="0.0.0.0:4433", **{"tls.selfSigned": "false"}),
    "a certificate without its key": load(**{"tls.selfSigned": "false", "tls.certFile": "c.pem"}),
    "two ways at once": load(endpoint="aqueduct://h:1"),
    "a batch option in a stream": load(until="finish"),
    "a sink option in a stream": load(ackTimeout="1m"),
    "an unknown view": load(view="event"),
    "an unknown payload format": load(payloadFormat="avro"),
    "JSON without columns": load(payloadFormat="json"),
    "offsets that are none": load(startingOffsets="newest"),
    "a variable that is not set": load(**{"auth.tokenEnv": "NO_SUCH_VARIABLE"}),
    "nothing named": stored(),
    "a spool that is not there": stored(spool="HOME/nowhere"),
    "a directory without a spool": stored(spool="HOME"),
    "a stream option in a batch": stored(spool="HOME", numIntakes="2"),
    "listening in a batch": stored(**LISTEN),
    "intakes without an authority": stored(intakes="h:1"),
    "intakes with a file that is not there": stored(**INTAKES),
    "another scheme": stored(endpoint="kafka://h:1", untilTimeout="9s"),
    "columns of another type": stream("offset STRING, a INT", payloadFormat="json"),
    "a port in use": port_in_use,
    "a spool where nothing can be made": stream(spool="/proc/none"),
    "a certificate that is not there": stream(
        **{"tls.selfSigned": "false", "tls.certFile": "/none.pem", "tls.keyFile": "/none.key"}
    ),
    "trigger(once)": stream(once=True),
    "a frame without value": write("id AS text"),
    "a value of another type": write("id AS value"),
    "overwriting": write(mode="overwrite"),
    "the mode of df.write itself": write(mode="errorifexists"),
    "nobody listens there": write(),
    "a token file that is not there": write(**{"auth.tokenFile": "HOME/none"}),
    "a stream of other columns": write_stream("value AS text"),
    "a stream to nobody": write_stream(),
    "a table with a slip": sql("CREATE TABLE t USING aqueduct OPTIONS (spol '/x')"),
}


def _placed(options: dict[str, str], home: Path) -> dict[str, str]:
    return {key: value.replace("HOME", str(home)) for key, value in options.items()}


def _reader(reader: Any, options: dict[str, str], home: Path) -> Any:
    return reader.format("aqueduct").options(**_placed(options, home))


def seen(act: Act, spark: Any, home: Path) -> dict[str, str]:
    """What the mistake shows: first line of the error, and the last one of a traceback."""
    try:
        act(spark, home)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        last = [line for line in traceback.format_exc().splitlines() if line.strip()][-1]
        ours = next((place for place, line in enumerate(lines) if "[AQUEDUCT_" in line), -1)
        return {
            "first": lines[0],
            "ours": str(ours + 1),
            "line": lines[ours] if ours >= 0 else lines[0],
            "last": last,
            "traceback": str("Traceback" in str(error)),
        }
    return {"first": "(no error)", "ours": "0", "line": "(no error)", "last": "", "traceback": ""}


def each(spark: Any) -> Iterator[tuple[str, dict[str, str]]]:
    for name, act in MISTAKES.items():
        home = Path(tempfile.mkdtemp(prefix="mistake-"))
        try:
            yield name, seen(act, spark, home)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def session(connect: bool) -> None:
    """Print a JSON object a line: the name of each mistake with what it shows."""
    set_python_of_spark()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote("local[2]") if connect else builder.master("local[2]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    for name, found in each(spark):
        print("MISTAKE " + json.dumps({"name": name} | found), flush=True)
    spark.stop()


def table(out: Path) -> None:
    """All three, as a table in Markdown."""
    here = str(Path(__file__))
    commands = {
        "session": [sys.executable, here, "session"],
        "spark-submit": ["spark-submit", "--master", "local[2]", here, "session"],
        "Connect": [sys.executable, here, "connect"],
    }
    found: dict[str, dict[str, dict[str, str]]] = {}
    for way, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = re.findall(r"^MISTAKE (.*)$", done.stdout, re.MULTILINE)
        found[way] = {row["name"]: row for row in map(json.loads, rows)}
        print(f"{way}: {len(rows)} of {len(MISTAKES)}, exit code {done.returncode}", flush=True)
        if not rows:
            print(done.stderr[-2000:])
    lines = ["| Mistake | Line of ours in " + ", ".join(commands) + " | First line with it |"]
    lines += ["|---|---|---|"]
    for name in MISTAKES:
        shown = [found[way].get(name, {}) for way in commands]
        places = ", ".join(each.get("ours", "–") for each in shown)
        text = (shown[0] or {"line": "–"})["line"].replace("|", "\\|")
        text = re.sub(r"\[id = \S+ runId = \S+\]", "[id = …]", text)
        lines.append(f"| {name} | {places} | `{text}` |")
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] | ["session"]:
            session(connect=False)
        case ["connect"]:
            session(connect=True)
        case [out]:
            table(Path(out))

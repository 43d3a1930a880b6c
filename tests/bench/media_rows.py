"""Objects of QUICR to the disk and to rows, beside messages of Aqueduct: how many a second.

    python -m tests.bench.media_rows [--repetitions 5] [--seconds 20] [--kinds 1000,65536]

Each repetition runs, in opposite order by turns: an intake until all is durable, and a running
Spark query until all are rows; of Aqueduct's messages, of objects on a stream and of objects in
datagrams. Sender, intake and Spark share the processors. A load is long beside the trigger of the
query, half a second, which a row waits for whatever brings it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from aqueduct.quicr import connect
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.quicr.settings import QuicrIntake
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.intakes import intake_process
from tests.bench.loads import Load, Sent, load_for, send_from_elsewhere, sender_process
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, ratios
from tests.bench.queries import OurQuery, spark_meter, spark_session, work_folder
from tests.bench.sheet import Sheet

KINDS = ("1000", "65536")
GROUP = 100
"""Objects of a group."""
WARM_SECONDS = 0.5


class Run(NamedTuple):
    """Objects or messages a second, and CPU seconds of what receives for each."""

    rate: float
    cpu: float


class Way(NamedTuple):
    """How a load is sent. ``entries``: messages of a load beside its own, for each of its channels:
    those that bring the channels."""

    name: str
    format: str
    send: Callable[[str, Load], Sent]
    intake: type[IntakeSettings]
    entries: int = 0


async def post(endpoint: str, load: Load, *, datagram: bool, url: str) -> Sent:
    """Post the load as one media in this process; over when the receiver has it all."""
    async with connect(endpoint, tls=ClientTls(insecure=True)) as client:
        begun, used = time.monotonic(), time.process_time()
        async with client.publish(url, datagram=datagram) as publisher:
            for bulk in load.bulks():
                for payload in bulk:
                    await publisher.send(payload, new_group=publisher.next.object == GROUP)
        return Sent.since(begun, used)


def post_from_elsewhere(endpoint: str, load: Load, *, datagram: bool) -> Sent:
    words = [endpoint, str(int(datagram)), f"bench/{time.monotonic_ns()}"]
    return sender_process("tests.bench.media_rows", ["--post", *words], load)


MESSAGES = Way("messages", "aqueduct", send_from_elsewhere, AqueductIntake, entries=1)
STREAM = Way("objects, stream", "quicr", partial(post_from_elsewhere, datagram=False), QuicrIntake)
DATAGRAMS = Way(
    "objects, datagrams", "quicr", partial(post_from_elsewhere, datagram=True), QuicrIntake
)
WAYS = (MESSAGES, STREAM, DATAGRAMS)


def durable(way: Way, load: Load) -> Run:
    with work_folder() as folder, intake_process(folder, way.intake) as running:
        meter = CpuMeter(running.pid)
        sent = way.send(running.endpoint, load)
        return Run(load.count / sent.wall, meter.used() / load.count)


def to_rows(spark: SparkSession, query: OurQuery, way: Way, load: Load) -> Run:
    meter = spark_meter(spark, query)
    sent = way.send(query.endpoint, load)
    query.wait(load.count + way.entries * load.channels)
    wall = time.monotonic() - sent.begun
    return Run(load.count / wall, meter.used() / load.count)


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark:
        for kind in effort.kinds:
            with work_folder() as folder:
                block(spark, folder, kind, effort, sheet)


def block(spark: SparkSession, folder: Path, kind: str, effort: Effort, sheet: Sheet) -> None:
    """The figures of one size."""
    load = load_for(kind, effort.seconds)
    with ExitStack() as running:
        kinds: dict[str, Callable[[], Run]] = {}
        for number, way in enumerate(WAYS):
            own = folder / str(number)
            own.mkdir()
            query = OurQuery(spark, own, format=way.format)
            running.callback(query.stop)
            to_rows(spark, query, way, load_for(kind, WARM_SECONDS))
            kinds[f"{way.name} → durable"] = partial(durable, way, load)
            kinds[f"{way.name} → DataFrame"] = partial(to_rows, spark, query, way, load)
        runs = list(in_turns(kinds, effort, sheet))
    title = f"{int(kind):,} B"
    for name in kinds:
        sheet.add(f"{title}: {name}", "a second", [run[name].rate for run in runs])
    for name in kinds:
        costs = [run[name].cpu * 1e6 for run in runs]
        sheet.add(f"{title}: {name}, receivers' CPU each", "µs", costs)
    for way in (STREAM, DATAGRAMS):
        for end in ("durable", "DataFrame"):
            over = ratios(
                runs, f"{way.name} → {end}", f"{MESSAGES.name} → {end}", lambda run: run.rate
            )
            sheet.add(f"{title}: {way.name} → {end} over messages", "x", over)


BENCH = Bench(
    "media_rows",
    "QUICR: wire → durable → DataFrame beside Aqueduct's",
    compare,
    seconds=20.0,
    kinds=KINDS,
)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--post", endpoint, datagram, url, kind, count, channels]:
            load = Load(kind, int(count), int(channels))
            sent = asyncio.run(post(endpoint, load, datagram=datagram == "1", url=url))
            print(json.dumps(sent._asdict()))
        case _:
            BENCH.run()


if __name__ == "__main__":
    main(sys.argv[1:])

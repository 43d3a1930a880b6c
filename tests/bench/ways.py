"""Ways of a load to the disk and to rows: of which protocol, how it is sent, who receives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.settings.intake import IntakeSettings
from tests.bench.intakes import intake_process
from tests.bench.loads import Load, Sent, load_for, send_from_elsewhere
from tests.bench.measuring import CpuMeter, Effort, in_turns, ratios
from tests.bench.queries import OurQuery, spark_meter, work_folder
from tests.bench.sheet import Sheet

WARM_SECONDS = 0.5


class Run(NamedTuple):
    """Messages a second, and CPU seconds of what receives for each."""

    rate: float
    cpu: float


class Way(NamedTuple):
    """How a load is sent.

    ``intake`` and ``more``: the settings of an intake; ``options``: the same for a query.
    ``entries``: messages of a load beside its own, for each of its channels: those that bring the
    channels. ``channels`` of a load; ``share``: of the usual load, where it takes longer.
    """

    name: str
    format: str
    send: Callable[[str, Load], Sent]
    intake: type[IntakeSettings]
    more: Mapping[str, Any] = {}
    options: Mapping[str, str] = {}
    entries: int = 0
    channels: int = 1
    share: float = 1.0

    def load(self, kind: str, seconds: float) -> Load:
        return load_for(kind, seconds * self.share, self.channels)


MESSAGES = Way("messages", "aqueduct", send_from_elsewhere, AqueductIntake, entries=1)


def durable(way: Way, load: Load) -> Run:
    """Until all is on the disk of an intake and acked."""
    with work_folder() as folder, intake_process(folder, way.intake, **way.more) as running:
        meter = CpuMeter(running.pid)
        sent = way.send(running.endpoint, load)
        return Run(load.count / sent.wall, meter.used() / load.count)


def to_rows(spark: SparkSession, query: OurQuery, way: Way, load: Load) -> Run:
    """Until all are rows of a running query."""
    meter = spark_meter(spark, query)
    sent = way.send(query.endpoint, load)
    query.wait(load.count + way.entries * load.channels)
    wall = time.monotonic() - sent.begun
    return Run(load.count / wall, meter.used() / load.count)


def compare_ways(
    spark: SparkSession,
    ways: Sequence[Way],
    over: Sequence[tuple[Way, Way]],
    kind: str,
    effort: Effort,
    sheet: Sheet,
) -> None:
    """The figures of one size: of each way, and of some of them over another one."""
    with ExitStack() as running:
        folder = running.enter_context(work_folder())
        kinds: dict[str, Callable[[], Run]] = {}
        for number, way in enumerate(ways):
            query = _query(spark, folder / str(number), way)
            running.callback(query.stop)
            to_rows(spark, query, way, way.load(kind, WARM_SECONDS))
            load = way.load(kind, effort.seconds)
            kinds[f"{way.name} → durable"] = partial(durable, way, load)
            kinds[f"{way.name} → DataFrame"] = partial(to_rows, spark, query, way, load)
        runs = list(in_turns(kinds, effort, sheet))
    title = f"{int(kind):,} B"
    for name in kinds:
        sheet.add(f"{title}: {name}", "a second", [run[name].rate for run in runs])
    for name in kinds:
        costs = [run[name].cpu * 1e6 for run in runs]
        sheet.add(f"{title}: {name}, receivers' CPU each", "µs", costs)
    for way, other in over:
        for end in ("durable", "DataFrame"):
            found = ratios(
                runs, f"{way.name} → {end}", f"{other.name} → {end}", lambda run: run.rate
            )
            sheet.add(f"{title}: {way.name} → {end} over {other.name}", "x", found)


def _query(spark: SparkSession, folder: Path, way: Way) -> OurQuery:
    folder.mkdir()
    return OurQuery(spark, folder, options=way.options, format=way.format)

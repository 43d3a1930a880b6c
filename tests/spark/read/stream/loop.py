"""A streaming query without Spark: the calls that Spark makes, in its order, in this process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.model.offsets import DataRange, StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchPartition
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.read import tasks
from aqueduct_spark.read.stream.planner import StreamPlanner
from tests.spark.scene import PATIENCE
from tests.support.waiting import ended, send_signal, wait_until

Row = dict[str, Any]


class Loop:
    """One run of a query, from ``begin``. Offsets go through their JSON, as in a checkpoint.

    ``batches`` holds (start, end) of each batch that was run, ``rows`` what they gave.
    """

    def __init__(self, options: dict[str, str], begin: StreamOffset | None = None) -> None:
        self.options = StreamReadOptions.parse(options, AQUEDUCT_OPTIONS)
        self.planner = StreamPlanner(AqueductFormat(), self.options)
        self.at = begin or StreamOffset()
        self.batches: list[tuple[StreamOffset, StreamOffset]] = []
        self.rows: list[Row] = []

    def batch(self) -> list[Row] | None:
        """Run the next micro-batch; None when there is none."""
        end = _stored(self.planner.latest(self.at))
        if end == self.at:
            return None
        if self.batches:
            self.planner.commit(self.at)
        rows = self.run(self.at, end)
        self.batches.append((self.at, end))
        self.at = end
        self.rows += rows
        return rows

    def run(self, start: StreamOffset, end: StreamOffset) -> list[Row]:
        """The rows of a batch, as its tasks give them."""
        rows: list[Row] = []
        for partition in self.planner.partitions(start, end):
            match partition:
                case LaunchPartition():
                    assert list(tasks.launch(partition)) == []
                case DataPartition():
                    rows += read(partition, self.options)
        return rows

    def until(self, count: int) -> list[Row]:
        """Run batches until there are ``count`` rows; those of entrypoints do not count."""

        def enough() -> bool:
            self.batch()
            return len(self.messages()) >= count

        wait_until(enough, PATIENCE, f"{count} rows")
        return self.messages()

    def to_the_end(self) -> list[Row]:
        """As a query with trigger AvailableNow."""
        self.planner.available_now()

        def over() -> bool:
            return self.batch() is None

        wait_until(over, PATIENCE, "the end of the query")
        return self.messages()

    def messages(self) -> list[Row]:
        return [row for row in self.rows if row.get("channel") != "0"]

    def close(self) -> None:
        self.planner.stop()


class Yard:
    """Where loops and their intakes live; ends them all."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spool = home / "a spool"
        self._loops: list[Loop] = []
        self._pids: set[int] = set()

    def loop(self, begin: StreamOffset | None = None, **options: str) -> Loop:
        """A query whose intakes listen, unless the options say something else."""
        given = {key.replace("_", "."): value for key, value in options.items()}
        if "intakes" not in given:
            given = {"spool": str(self.spool), "lease": f"{PATIENCE:.0f}s"} | given
            if "endpoint" not in given:
                given = {"listen": "127.0.0.1:0"} | given
        loop = Loop(given, begin)
        self._loops.append(loop)
        return loop

    def intake(self, index: int = 0) -> dict[str, Any]:
        """What the intake that runs, or ran last, says of itself."""
        status: dict[str, Any] = json.loads(
            (self.spool / f"intake-{index}" / "status.json").read_text()
        )
        self._pids.add(status["pid"])
        return status

    def url(self, index: int = 0) -> str:
        return f"aqueduct://{self.intake(index)['listen']}"

    def kill(self, index: int = 0) -> None:
        pid = self.intake(index)["pid"]
        os.kill(pid, signal.SIGKILL)
        ended(pid, PATIENCE)

    def close(self) -> None:
        for loop in self._loops:
            loop.close()
        for path in self.spool.glob("intake-*/status.json"):
            self._pids.add(json.loads(path.read_text())["pid"])
        for pid in self._pids:
            send_signal(pid, signal.SIGTERM)
        for pid in self._pids:
            ended(pid, PATIENCE)


def begun(yard: Yard, **options: str) -> Loop:
    """A query whose intake runs."""
    loop = yard.loop(**options)
    while not loop.at.spool:
        loop.batch()
    return loop


def read(partition: DataPartition, options: StreamReadOptions) -> list[Row]:
    batches = tasks.rows(partition, options.rows, AqueductRows())
    return [row for batch in batches for row in batch.to_pylist()]


def values(rows: list[Row], channel: str = "readings") -> list[bytes]:
    """The payloads of a channel, in the order of its messages."""
    ours = [row for row in rows if row["channel"] == channel]
    return [row["value"] for row in sorted(ours, key=lambda row: row["messageNum"])]


def _stored(offset: StreamOffset) -> StreamOffset:
    return StreamOffset.from_json(json.loads(json.dumps(offset.to_json())), "aqueduct")


def data_places(
    loop: Loop, batch: tuple[StreamOffset, StreamOffset]
) -> list[tuple[int, DataRange]]:
    """The ranges of the data tasks of a batch, each with its place among all tasks."""
    planned = loop.planner.partitions(*batch)
    return [(n, part.rows) for n, part in enumerate(planned) if isinstance(part, DataPartition)]


def stored(yard: Yard) -> int:
    """Messages of the intake that runs."""
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        return sum(client.status().ends)

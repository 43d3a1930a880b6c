"""A batch that is done again by another driver: from our source to our sink, each row once."""

from __future__ import annotations

import os
import signal
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.batches import logged
from tests.spark.producing import produce
from tests.spark.read.stream.loop import Yard
from tests.spark.write.test_writers_faults import PATIENCE, authority, driver, rows_of, stored
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, ended, intake_status, send_signal, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

CHANNELS, ROWS, PARTITIONS = 16, 200, 6
ENOUGH = 300
"""Rows at the target when the driver is killed, of a thousand at least."""


class Relay:
    """A query from an intake of its own to ``target``, and the drivers that run it in turn."""

    def __init__(self, home: Path, target: IntakeProcess, **sink: str) -> None:
        self.spool, self.checkpoint = home / "relay", home / "checkpoint"
        self.target = target
        self._given: dict[str, Any] = {
            "job": "relay",
            "beside": None,
            "endpoint": target.url,
            "ca": authority(target.site, home),
            "checkpoint": str(self.checkpoint),
            "sink": {"maxInFlightBytes": "64k", **sink},
            "source": {
                "listen": "127.0.0.1:0",
                "spool": str(self.spool),
                "partitionsPerIntake": str(PARTITIONS),
                "includeSpool": "true",
                "lease": "20s",
                "minOffsetsPerTrigger": str(CHANNELS * ROWS),
                "maxTriggerDelay": "10m",
            },
            "master": "local[1]",
            "parts": None,
            "keep": "true",
            "now": False,
        }

    def broken_off(self, **given: Any) -> set[str]:
        """Run it until a part of the one batch with all rows is stored; then kill the driver and
        its intake. The values that were to be sent."""
        values = [[b"%d/%d " % (c, n) + b"x" * 3000 for n in range(ROWS)] for c in range(CHANNELS)]
        before = stored(self.target)
        with driver(**self._given | given) as (_, output):
            jvm = int(output.wait_for("jvm", PATIENCE).split()[1])
            intake = intake_status(self.spool, 0, PATIENCE)
            for channel, payloads in enumerate(values):
                produce(f"aqueduct://{intake['listen']}", payloads, name=f"c{channel}")
            wait_until(
                lambda: stored(self.target) > before + ENOUGH, PATIENCE, "a part of the batch"
            )
            for pid in (jvm, intake["pid"]):
                os.kill(pid, signal.SIGKILL)
                ended(pid, PATIENCE)
        batch = logged(self.checkpoint, "offsets")[-1]
        assert batch not in logged(self.checkpoint, "commits"), "the kill came too late"
        return {value.decode() for payloads in values for value in payloads}

    def go_on(self, **given: Any) -> None:
        """Run it to its end with another driver, which finds no intake."""
        given["source"] = self._given["source"] | given.get("source", {})
        with driver(**self._given | given | {"now": True}) as (process, output):
            output.wait_for("done relay", PATIENCE)
            assert process.wait(LONG) == 0

    def close(self) -> None:
        status = intake_status(self.spool, 0, PATIENCE)
        send_signal(status["pid"], signal.SIGTERM)
        ended(status["pid"], PATIENCE)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[IntakeProcess]:
    (tmp_path / "target").mkdir()
    with Site(tmp_path / "target").intake(lease=600.0) as intake:
        yield intake


def test_fault_40_a_batch_is_done_again_later_than_the_lease(
    tmp_path: Path, target: IntakeProcess
) -> None:
    """Six source partitions, one task slot, other options: the same rows under the same numbers,
    and the data tasks, which come before any launch, have their intake back."""
    relay = Relay(tmp_path, target)
    values = relay.broken_off()
    relay.go_on(source={"minPartitions": "9", "maxBytesPerPartition": "500k"})
    assert_once(target, values)
    relay.close()


def test_rows_known_by_their_source_are_once_behind_a_shuffle(
    tmp_path: Path, target: IntakeProcess
) -> None:
    """Every third row, dealt out to five tasks and then, by the next driver, to seven."""
    relay = Relay(tmp_path, target, idempotence="source")
    given = {"keep": "crc32(value) % 3 = 0", "master": "local[2]"}
    values = relay.broken_off(parts=5, **given)
    relay.go_on(parts=7, **given)
    assert_once(target, {value for value in values if zlib.crc32(value.encode()) % 3 == 0})
    relay.close()


def test_fault_40_a_union_is_done_again_without_the_intake_of_its_first_stream(
    tmp_path: Path, target: IntakeProcess
) -> None:
    """Spark puts the tasks of the second stream behind all those of the first: rows of the second
    that were stored before have the same numbers again."""
    checkpoint = tmp_path / "checkpoint"
    yards = [Yard(tmp_path / name) for name in ("first", "second")]
    rows = {
        name: [b"%d " % n + name.encode() * 1000 for n in range(count)]
        for name, count in (("first", 500), ("second", 3000))
    }
    for yard, (name, payloads) in zip(yards, rows.items(), strict=True):
        filling = yard.loop(cursor="filling")
        while not filling.at.spool:
            filling.batch()
        produce(yard.url(), payloads, name=name)
        filling.close()
    source, beside = (
        {"listen": "127.0.0.1:0", "spool": str(yard.spool), "lease": f"{PATIENCE:.0f}s"}
        for yard in yards
    )
    given = {
        "job": "relay",
        "source": source,
        "beside": beside,
        "endpoint": target.url,
        "ca": authority(target.site, tmp_path),
        "checkpoint": str(checkpoint),
        "sink": {"maxInFlightBytes": "64k"},
        "master": "local[1]",
        "parts": None,
        "keep": "true",
        "now": True,
    }
    with driver(**given) as (_, output):
        jvm = int(output.wait_for("jvm", PATIENCE).split()[1])
        wait_until(lambda: stored(target) > 500 + ENOUGH, PATIENCE, "some rows of the second")
        os.kill(jvm, signal.SIGKILL)
        ended(jvm, PATIENCE)
        yards[0].kill()
    batch = logged(checkpoint, "offsets")[-1]
    assert batch not in logged(checkpoint, "commits"), "the kill came too late"
    with driver(**given) as (process, output):
        output.wait_for("done relay", PATIENCE)
        assert process.wait(LONG) == 0
    assert_once(target, {value.decode() for payloads in rows.values() for value in payloads})
    for yard in yards:
        yard.close()


def assert_once(target: IntakeProcess, values: set[str]) -> None:
    found = Counter(row["value"].decode() for row in rows_of(target))
    assert len(values - set(found)) == 0, "rows lost"
    assert sum(found.values()) - len(found) == 0, "rows twice"
    assert set(found) == values

"""FAULTS 20, 42: rows that are gone, given up, or only out of sight."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from aqueduct_core.errors import AqueductError, DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool.skips import Stretch
from aqueduct_spark.formats.aqueduct.options import AqueductRead
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.model.partitions import DataPartition
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.read import tasks
from aqueduct_spark.read.batch.spools import opened
from aqueduct_spark.read.gaps import passing, stored_rows
from tests.spark.read.test_local import CREDENTIALS, Served, client, served, ticket  # noqa: F401
from tests.support.waiting import LONG

EVERY = 1_000


def damaged(served: Served, offset: int) -> tuple[int, int]:  # noqa: F811
    """Flip a bit in the record of that offset; its rows."""
    first = offset // 10 * 10
    place = served.spool.locations(0, first, first + 10)[0]
    descriptor = os.open(place.path, os.O_RDWR)
    try:
        at = place.position + place.length - 100
        byte = os.pread(descriptor, 1, at)[0]
        os.pwrite(descriptor, bytes([byte ^ 1]), at)
    finally:
        os.close(descriptor)
    return first, first + 10


def without(served: Served, *numbers: int) -> list[int]:  # noqa: F811
    """Remove segments; the offsets of partition 0 that are left."""
    left = set(range(EVERY))
    with opened(served.spool.directory) as reader:
        segments = [reader.segments[number] for number in numbers]
    for segment in segments:
        left -= set(range(segment.starts[0], segment.ends[0]))
        segment.path.unlink()
    return sorted(left)


def offsets(found: Iterator[tuple[int, pa.RecordBatch]]) -> list[int]:
    read = []
    for first, batch in found:
        numbers = batch.column("messageNum").to_pylist()
        assert numbers == list(range(first, first + len(numbers)))
        read += numbers
    return read


@pytest.fixture
def task(served: Served, client: IntakeClient) -> Iterator[DataPartition]:  # noqa: F811
    wanted = DataRange(0, served.spool.id, client.address, 0, 0, EVERY)
    yield DataPartition(wanted, None, fetch_timeout=LONG, lenient=True, access=CREDENTIALS)
    tasks._forget(client.address, served.spool.id)


def rows_of(task: DataPartition) -> list[int]:
    batches = tasks.rows(task, RowOptions(own=AqueductRead()), AqueductRows())
    return [n for batch in batches for n in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("asked", [(0, 1_000), (150, 151), (190, 420), (0, 5), (999, 1_000)])
@pytest.mark.parametrize("segments", [(2,), (1, 3), (0, 2, 4)])
def test_fault_20_all_that_is_left_between_holes_is_read(
    served: Served,  # noqa: F811
    client: IntakeClient,  # noqa: F811
    asked: tuple[int, int],
    segments: tuple[int, ...],
) -> None:
    left = without(served, *segments)
    found = offsets(stored_rows(client, ticket(served, 0, *asked), ROWS.schema, lenient=True))
    assert found == [n for n in left if asked[0] <= n < asked[1]]


def test_fault_20_a_task_goes_on_behind_a_hole_only_when_it_may(
    served: Served,  # noqa: F811
    task: DataPartition,
) -> None:
    left = without(served, 2)
    assert rows_of(task) == left
    with pytest.raises(DataLoss, match=r"RANGE_GONE.*aqueduct spool skip"):
        rows_of(replace(task, lenient=False))
    beyond = replace(task.rows, first=900, stop=1_200)
    assert rows_of(replace(task, rows=beyond)) == list(range(900, EVERY))
    with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
        rows_of(replace(task, rows=beyond, lenient=False))


@pytest.mark.parametrize("lenient", [False, True])
def test_damage_stops_every_task_until_it_is_given_up(
    served: Served,  # noqa: F811
    task: DataPartition,
    lenient: bool,
) -> None:
    task = replace(task, lenient=lenient)
    low, high = damaged(served, 432)
    directory = served.spool.directory
    with pytest.raises(SpoolFailed) as failed:
        rows_of(task)
    assert failed.value.name == "AQUEDUCT_SPOOL.CORRUPT"
    command = f"aqueduct spool skip {directory} --partition 0 --from {low} --to {high}"
    assert command in failed.value.remedy
    served.spool.skip(0, low, high, "a bad disk")
    assert rows_of(task) == [*range(low), *range(high, EVERY)]
    within = replace(task.rows, first=low + 2, stop=high - 2)
    assert rows_of(replace(task, rows=within)) == []


@pytest.mark.parametrize("lenient", [False, True])
def test_fault_42_a_hidden_directory_is_not_an_empty_one(
    served: Served,  # noqa: F811
    task: DataPartition,
    lenient: bool,
) -> None:
    """The volume went away under a running intake: its files are not found, and nothing is gone."""
    task = replace(task, lenient=lenient)
    home, hidden = served.spool.directory, served.spool.directory.with_name("hidden")
    home.rename(hidden)
    with pytest.raises(SpoolFailed, match=r"SPOOL\.IO.*mount its volume"):
        rows_of(task)
    home.mkdir()  # as the place of a mount that is missing
    with pytest.raises(SpoolFailed, match=r"SPOOL\.IO.*mount its volume"):
        rows_of(task)
    home.rmdir()
    hidden.rename(home)
    assert rows_of(task) == list(range(EVERY))


class Answers:
    """A spool as a list of what is true of each offset; ``fails`` is raised by the next answers."""

    def __init__(self, states: str) -> None:
        self.states = states
        self.fails: list[AqueductError] = []

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        if end > len(self.states):
            raise DataLoss("OFFSET_AHEAD", "", "")
        for at in range(start, end):
            if self.states[at] == "g":
                raise DataLoss("RANGE_GONE", "", "")
            if self.states[at] == "s":
                raise DataLoss("SKIPPED", "", "")
            if self.states[at] == "x":
                raise SpoolFailed("CORRUPT", "", "")
            yield pa.record_batch({"n": [at]})

    def stretches(self, start: int, end: int) -> list[Stretch]:
        if self.fails:
            raise self.fails.pop()
        named = {"g": "gone", "s": "skipped"}
        found: list[Stretch] = []
        for at in range(start, end):
            state = named.get(self.states[at], "stored")
            if found and found[-1].state == state:
                found[-1] = found[-1]._replace(end=at + 1)
            else:
                found.append(Stretch(at, at + 1, state))  # type: ignore[arg-type]
        return found

    def rows(self, start: int, end: int, lenient: bool) -> list[int]:
        found = passing(
            "it",
            start,
            end,
            read=self.read,
            stretches=self.stretches,
            durable=lambda: len(self.states),
            lenient=lenient,
        )
        return [at for at, _ in found]


@pytest.mark.parametrize(
    ("states", "end", "strict", "lenient"),
    [
        ("....", 4, [0, 1, 2, 3], [0, 1, 2, 3]),
        (".s..", 4, [0, 2, 3], [0, 2, 3]),
        ("s..s", 4, [1, 2], [1, 2]),
        ("ssss", 4, [], []),
        (".g..", 4, "RANGE_GONE", [0, 2, 3]),
        ("gs.g.s", 6, "RANGE_GONE", [2, 4]),
        ("..", 4, "OFFSET_AHEAD", [0, 1]),
        (".s", 4, "OFFSET_AHEAD", [0]),
        ("", 4, "OFFSET_AHEAD", []),
        (".sx.", 4, "CORRUPT", "CORRUPT"),
    ],
)
def test_what_is_passed_over(
    states: str, end: int, strict: list[int] | str, lenient: list[int] | str
) -> None:
    for may, expected in ((False, strict), (True, lenient)):
        if isinstance(expected, str):
            with pytest.raises(AqueductError, match=f"\\.{expected}\\]"):
                Answers(states).rows(0, end, may)
        else:
            assert Answers(states).rows(0, end, may) == expected


def test_fault_42_who_cannot_be_asked_proves_nothing() -> None:
    spool = Answers("..g..")
    spool.fails.append(IntakeFailed("UNREACHABLE", "nobody answers", "Wait"))
    with pytest.raises(IntakeFailed, match="UNREACHABLE"):
        spool.rows(0, 5, True)
    assert spool.rows(2, 5, True) == [3, 4]


def test_what_is_said_to_be_stored_and_is_not_is_told() -> None:
    spool = Answers("..g..")
    spool.stretches = lambda start, end: [Stretch(start, end, "stored")]  # type: ignore[method-assign]
    with pytest.raises(DataLoss, match="RANGE_GONE"):
        spool.rows(0, 5, True)

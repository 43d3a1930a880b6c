"""Two of our streams in one query: Spark's union puts the tasks of the second one behind all those
of the first, so each of them must have as many whenever its batch is planned. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.model.offsets import DataRange, StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchPartition
from aqueduct_spark.read import tasks
from tests.spark.producing import numbered, produce
from tests.spark.read.stream.loop import Loop, Yard, values
from tests.support.waiting import LONG, alive, wait_until

Batch = tuple[StreamOffset, StreamOffset]


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Yard]:
    yield from a_yard(tmp_path / "first")


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Yard]:
    yield from a_yard(tmp_path / "second")


def a_yard(home: Path) -> Iterator[Yard]:
    home.mkdir()
    yard = Yard(home)
    yield yard
    yard.close()


def begun(yard: Yard, **options: str) -> Loop:
    """A query all of whose intakes run."""
    loop = yard.loop(**options)
    while len(loop.at.spool) < loop.options.intakes:
        loop.batch()
    return loop


def read_in_one(yard: Yard, name: str, **options: str) -> Loop:
    """A query whose last batch has 40 rows of a channel, and more than one task."""
    loop = begun(yard, maxRecordsPerPartition="15", **options)
    produce(yard.url(), numbered(40), name=name)
    assert values(loop.until(40), name) == numbered(40)
    return loop


def united(loops: list[Loop], batches: list[Batch]) -> list[DataRange | None]:
    """What each task of a union reads, None where it launches; where intakes were is left out."""
    planned = [
        part
        for loop, batch in zip(loops, batches, strict=True)
        for part in loop.planner.partitions(*batch)
    ]
    return [
        replace(part.rows, at="") if isinstance(part, DataPartition) else None for part in planned
    ]


def test_a_batch_without_an_intake_of_one_leaves_the_other_in_its_places(
    first: Yard, second: Yard
) -> None:
    loops = [read_in_one(first, "one"), read_in_one(second, "two")]
    batches = [loop.batches[-1] for loop in loops]
    places = united(loops, batches)
    assert None not in places
    first.kill()
    assert united(loops, batches) == places
    for loop in loops:
        loop.close()
    again = [first.loop(batches[0][1]), second.loop(batches[1][1])]
    assert united(again, batches) == places
    assert united(again, batches) == places
    # the data tasks have their intake back by themselves
    assert values(again[0].run(*batches[0]), "one") == values(loops[0].rows, "one")
    assert united(again, batches) == places


def test_a_batch_that_launches_keeps_the_places_of_its_launches(first: Yard, second: Yard) -> None:
    """It has rows of one intake and launches the other: who is there later changes no place."""
    other = read_in_one(second, "two")
    loop = begun(first, numIntakes="2")
    first.kill(1)
    produce(first.url(0), numbered(20), name="one")
    with IntakeClient(first.intake(0)["flight"], Credentials.for_spool(first.spool)) as client:
        wait_until(lambda: sum(client.status().ends) >= 20, LONG, "all rows in the spool")
    assert loop.batch() is not None
    loops, batches = [loop, other], [loop.batches[-1], other.batches[-1]]
    begin, end = batches[0]
    assert end.launch == begin.launch + 1
    places = united(loops, batches)
    assert places.count(None) == 1
    assert len(values(loop.rows, "one")) == 20
    for each in loops:
        each.close()
    for gone in ((), (0,), (1,), (0, 1)):
        for number in gone:
            if alive(first.intake(number)["pid"]):
                first.kill(number)
        again = [first.loop(end, numIntakes="2"), second.loop(other.at)]
        assert united(again, batches) == places, f"without {gone}"
        if len(gone) < 2:
            again[0].close()
        again[1].close()
    # the intake that has no rows comes back all the same
    assert values(again[0].run(*batches[0]), "one") == numbered(20)
    epoch = end.spool[1].epoch
    while again[0].at.spool[1].epoch <= epoch:
        again[0].batch()


def test_a_place_where_nothing_is_left_to_launch_gives_no_rows(first: Yard) -> None:
    loop = first.loop()
    assert loop.batch() == []
    [(begin, end)] = loop.batches
    [place] = loop.planner.partitions(begin, end)
    assert isinstance(place, LaunchPartition)
    assert list(tasks.launch(place)) == []
    epoch = first.intake()["epoch"]
    assert loop.run(begin, end) == []
    assert first.intake()["epoch"] == epoch


def test_a_batch_of_an_older_checkpoint_launches_what_is_missing(first: Yard) -> None:
    """Its end does not say at how many places."""
    loop = begun(first)
    begin, end = loop.batches[0][0], replace(loop.batches[0][1], places=0)
    assert loop.planner.partitions(begin, end) == []
    first.kill()
    assert loop.run(begin, end) == []
    assert first.intake()["epoch"] == loop.at.spool[0].epoch + 1

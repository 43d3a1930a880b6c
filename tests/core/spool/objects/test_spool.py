"""What a spool promises, whether it lies in a directory or in an object store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool import SpoolSettings
from aqueduct_core.spool.objects.appending import ObjectSettings
from aqueduct_core.spool.objects.spool import ObjectSpool
from aqueduct_core.spool.objects.store import CreateObject, ObjectStore, Operation
from tests.core.spool.rows import (
    SCHEMA,
    append,
    check_all,
    check_marks,
    check_rows,
    open_spool,
    store,
)
from tests.support.objects.memory_store import MemoryStore

SOON = 10.0
"""Seconds within which what was asked is done."""

SMALL = ObjectSettings(seal_groups=4)

Opening = Callable[..., Any]


def open_objects(
    place: ObjectStore,
    *,
    partitions: int = 2,
    prefix: str = "spool/",
    bounds: ObjectSettings = SMALL,
    **given: Any,
) -> ObjectSpool:
    settings = {name: given.pop(name) for name in list(given) if name in SpoolSettings.__slots__}
    return ObjectSpool.open(
        place,
        schema=SCHEMA,
        partitions=partitions,
        prefix=prefix,
        bounds=bounds,
        settings=SpoolSettings(**settings),
        **given,
    )


@pytest.fixture(params=["directory", "objects"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Opens the same spool each time; a segment takes some groups."""
    place = MemoryStore()
    opened: list[Any] = []

    def open_any(**given: Any) -> Any:
        if request.param == "directory":
            spool: Any = open_spool(tmp_path, segment_bytes=4000, **given)
        else:
            spool = open_objects(place, **given)
        opened.append(spool)
        return spool

    yield open_any
    for each in opened:
        if not each.failed:
            each.close()


def trimmed(spool: Any) -> None:
    """Let go of all that may go."""
    while spool.trim():
        pass
    if isinstance(spool, ObjectSpool):
        assert spool.finish_maintenance(SOON)


def test_every_range_of_every_partition(opening: Opening) -> None:
    with opening() as spool:
        store(spool, [3, 5], groups=8)
        assert spool.ends() == [24, 40]
        for partition, end in enumerate(spool.ends()):
            for start, stop in itertools.combinations_with_replacement(range(end + 1), 2):
                check_rows(spool, partition, start, stop)
        check_marks(spool)
    with opening() as spool:
        assert spool.ends() == [24, 40]
        check_all(spool)
        check_marks(spool)


def test_reopening_goes_on_with_the_next_offset_under_a_higher_epoch(opening: Opening) -> None:
    ids, epochs, groups = set(), [], []
    for i in range(4):
        with opening() as spool:
            assert spool.ends() == [2 * i, i]
            ids.add(spool.id)
            epochs.append(spool.epoch)
            groups.append(spool.group)
            store(spool, [2, 1])
            check_all(spool)
            check_marks(spool)
    assert len(ids) == 1
    assert epochs == [1, 2, 3, 4]
    assert groups == sorted(set(groups))


def test_a_group_is_reported_when_it_is_durable_and_once(opening: Opening) -> None:
    with opening() as spool:
        reported: list[int] = []
        spool.on_durable = reported.append
        groups = []
        ends = spool.ends()
        for _ in range(5):
            groups.append(spool.group)
            append(spool, ends, [1, 1])
            assert spool.open_bytes
            assert spool.flush()
            assert spool.settle(SOON)
        assert reported == groups


def test_other_rows_and_partitions_are_refused(opening: Opening) -> None:
    with opening() as spool:
        rows = pa.record_batch([pa.array([1])], names=["other"])
        with pytest.raises(ValueError, match="columns"):
            spool.append(0, rows)
        with pytest.raises(ValueError, match="partition 2 of 2"):
            spool.append(2, rows)


def test_ranges_that_are_not_there(opening: Opening) -> None:
    with opening() as spool:
        store(spool, [1, 1])
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            list(spool.read(0, 0, 2))
        with pytest.raises(ValueError, match="range"):
            list(spool.read(0, 1, 0))


def test_another_spool_is_not_taken_for_this_one(opening: Opening) -> None:
    with opening() as spool:
        store(spool, [1, 1])
        own = spool.id
    with opening(spool_id=own):
        pass
    with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
        opening(spool_id="another")


def test_partitions_may_be_added_and_not_taken_away(opening: Opening) -> None:
    with opening() as spool:
        store(spool, [2, 2], groups=6)
        spool.enter_cursor("all", [True, True])
    with opening(partitions=3) as spool:
        assert spool.ends() == [12, 12, 0]
        assert spool.cursors() == {"all": [0, 0, None]}
        store(spool, [1, 1, 1], groups=6)
        check_all(spool)
    with pytest.raises(InvalidOption, match="CONFLICT"):
        opening(partitions=2)


def test_cursors_are_there_after_a_reopening(opening: Opening) -> None:
    with opening() as spool:
        store(spool, [3, 3], groups=2)
        spool.enter_cursor("new", [True, False])
        spool.commit("query", [4, 2])
        spool.commit("query", [3, 5])  # never falls back
        spool.commit("gone", [1, 1])
        spool.drop("gone")
        assert spool.cursors() == {"new": [0, None], "query": [4, 5]}
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            spool.commit("query", [7, 5])
        with pytest.raises(InvalidOption, match="BAD_VALUE"):
            spool.commit("query", [4, None])
    with opening() as spool:
        assert spool.cursors() == {"new": [0, None], "query": [4, 5]}
        spool.lower("query", [2, 6])
        assert spool.cursors()["query"] == [2, 5]
        with pytest.raises(KeyError):
            spool.lower("gone", [0, 0])
    with opening() as spool:
        assert spool.cursors()["query"] == [2, 5]


def test_what_every_cursor_has_passed_goes_and_nothing_else(opening: Opening) -> None:
    with opening() as spool:
        spool.enter_cursor("slow", [True, True])
        spool.enter_cursor("fast", [True, True])
        store(spool, [3, 3], groups=40)
        spool.commit("fast", [120, 120])
        before = spool.bytes
        trimmed(spool)
        assert spool.starts() == [0, 0]
        spool.commit("slow", [60, 100])
        trimmed(spool)
        first = spool.starts()
        assert 0 < first[0] <= 60
        assert spool.bytes < before
        check_all(spool)
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            list(spool.read(0, first[0] - 1, first[0]))
        spool.commit("slow", [120, 120])
        trimmed(spool)
    with opening() as spool:
        assert spool.starts() > first
        check_all(spool)
        check_marks(spool)


def test_a_spool_that_is_full_says_so(opening: Opening) -> None:
    with opening(max_bytes=2000) as spool:
        assert not spool.full
        store(spool, [5, 5], groups=6)
        assert spool.full


def slow(operation: Operation) -> tuple[bool, bool]:
    """No group is stored."""
    refused = isinstance(operation, CreateObject) and "/groups/" in operation.key
    return not refused, not refused


def test_while_the_store_refuses_the_window_fills_and_then_the_buffer() -> None:
    place = MemoryStore()
    spool = open_objects(place, bounds=ObjectSettings(window=2, buffer_bytes=6000))
    place.fault = slow
    reported: list[int] = []
    spool.on_durable = reported.append
    ends = spool.ends()
    groups = set()
    while not spool.full:
        groups.add(spool.group)
        append(spool, ends, [3, 3])
        assert spool.flush()
        spool.pump()
    assert len(groups) == 3  # two in flight, and one that grows
    assert not reported
    assert spool.ends() == [0, 0]
    place.fault = lambda operation: (True, True)
    assert spool.settle(SOON)
    assert not spool.full
    assert reported[-1] == max(groups)
    check_all(spool)
    spool.close()


def test_a_later_owner_fences_and_finds_what_was_acked() -> None:
    place = MemoryStore()
    first = open_objects(place)
    store(first, [2, 2], groups=3)
    second = open_objects(place)
    assert second.ends() == [6, 6]
    append(first, first.ends(), [1, 1])
    first.flush()
    with pytest.raises(SpoolFailed, match="LOCKED"):
        first.settle(SOON)
    with pytest.raises(SpoolFailed, match="LOCKED"):
        first.append(0, pa.record_batch([[], []], schema=SCHEMA))
    with pytest.raises(SpoolFailed, match="LOCKED"):
        first.commit("query", [0, 0])
    store(second, [2, 2], groups=9)
    check_all(second)
    check_marks(second)
    first.close()
    second.close()


def test_an_idle_owner_learns_by_its_next_commit() -> None:
    place = MemoryStore()
    with open_objects(place) as first, open_objects(place) as second:
        with pytest.raises(SpoolFailed, match="LOCKED"):
            first.commit("query", [0, 0])
        second.commit("query", [0, 0])


def test_a_group_object_is_plain_arrow() -> None:
    place = MemoryStore()
    with open_objects(place, bounds=ObjectSettings()) as spool:
        store(spool, [4, 4], groups=3)
    tables = []
    for key, (data, _) in sorted(place.contents.items()):
        if "/groups/" in key:
            with pa.ipc.open_stream(data) as stream:
                tables.append(stream.read_all())
    assert sum(each.num_rows for each in tables) == 24
    assert all(each.schema == SCHEMA for each in tables)


def test_small_groups_become_few_objects_and_few_records() -> None:
    place = MemoryStore()
    with open_objects(place, bounds=ObjectSettings(seal_groups=50)) as spool:
        store(spool, [3, 3], groups=49)
        assert len(spool.locations(0, 0, 147)) == 49
        store(spool, [3, 3])
        assert spool.finish_maintenance(SOON)
        assert len(spool.segments) == 1
        (location,) = spool.locations(0, 0, 147)
        assert location.key == sorted(key for key in place.contents if "/segments/" in key)[0]
        check_all(spool)

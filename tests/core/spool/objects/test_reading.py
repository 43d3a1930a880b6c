"""Reading without the owner: from the manifest and the objects alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import locations
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.objects import reading
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.reading import LogView, ObjectIndex, look
from aqueduct_core.spool.objects.rows import SpoolRows
from aqueduct_core.spool.objects.spool import ObjectSpool
from aqueduct_core.spool.objects.workers import StepRunner
from tests.core.spool.objects.test_spool import SOON, ObjectSettings, open_objects
from tests.core.spool.rows import SCHEMA, check_rows, store
from tests.support.objects.memory_store import MemoryStore

NAMES = ObjectNames("spool/")


def rows_of(place: MemoryStore, view: LogView | None = None) -> SpoolRows:
    runner = StepRunner(place, 5.0, "memory")
    return SpoolRows(
        *(ObjectIndex(NAMES, "memory"), Codec(SCHEMA)),
        *(lambda: view or runner.run(look(NAMES)), runner.run, "memory"),
    )


@pytest.fixture
def place() -> MemoryStore:
    place = MemoryStore()
    with open_objects(place) as spool:
        store(spool, [3, 2], groups=10)
        assert spool.finish_maintenance(SOON)
    return place


def read_all(rows: SpoolRows, ends: Sequence[int]) -> None:
    for partition, end in enumerate(ends):
        list(rows.read(partition, 0, end))


def test_everything_is_found_without_an_owner(place: MemoryStore) -> None:
    rows = rows_of(place)
    view = rows.view()
    assert view.ends == (30, 20)
    assert view.manifest.segments
    assert view.objects
    for start in range(0, 30, 4):
        check_rows(rows, 0, start, 30)
        check_rows(rows, 1, 0, min(start, 20))


def test_a_group_that_became_part_of_a_segment_is_found_there(place: MemoryStore) -> None:
    with open_objects(place, bounds=ObjectSettings(seal_groups=1000)) as spool:
        store(spool, [1, 1], groups=3)
        old = rows_of(place).view()
    with open_objects(place) as spool:
        assert isinstance(spool, ObjectSpool)
        store(spool, [1, 1], groups=5)
        assert spool.finish_maintenance(SOON)
    views = iter([old])
    rows = rows_of(place)
    fresh = rows.view
    moved = SpoolRows(
        rows.index, rows.codec, lambda: next(views, None) or fresh(), rows.run, "memory"
    )
    check_rows(moved, 0, 0, 33)


def test_what_is_gone_for_good_is_said_so(place: MemoryStore) -> None:
    rows = rows_of(place)
    for key in [key for key in place.contents if "/segments/" in key]:
        rows.locations(0, 0, 30)  # the indexes are known
        del place.contents[key]
    with pytest.raises(DataLoss, match="RANGE_GONE"):
        list(rows.read(0, 0, 30))
    with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
        rows.read(0, 0, 31)


def test_each_changed_bit_is_found(place: MemoryStore) -> None:
    rows = rows_of(place)
    (key, *_) = sorted(key for key in place.contents if "/segments/" in key)
    data, tag = place.contents[key]
    entry = rows.view().manifest.segments[0]
    for at in range(len(Codec(SCHEMA).preamble), entry.index_at, 11):
        changed = bytearray(data)
        changed[at] ^= 1
        place.contents[key] = bytes(changed), tag
        with pytest.raises(SpoolFailed, match=f"CORRUPT.*{key}"):
            read_all(rows, entry.ends)
    place.contents[key] = data[: entry.index_at] + b"?" + data[entry.index_at + 1 :], tag
    with pytest.raises(SpoolFailed, match="CORRUPT"):
        rows_of(place).read(0, 0, 1)


def test_records_side_by_side_are_one_request_up_to_a_size(
    place: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "BATCH_BYTES", 1)  # each group keeps a record of its own
    with open_objects(place) as spool:
        store(spool, [1, 1], groups=8)
        assert spool.finish_maintenance(SOON)
    rows = rows_of(place)
    joined = rows.locations(0, 30, 38)
    monkeypatch.setattr(reading, "LARGEST_GET", 600)
    assert len(rows.locations(0, 30, 38)) > len(joined)
    check_rows(rows, 0, 30, 38)


def test_locations_follow_each_other(place: MemoryStore) -> None:
    rows = rows_of(place)
    found = rows.locations(0, 2, 29)
    assert len(found) > 3
    assert found[0].first == 2
    assert found[-1].stop == 29
    for before, after in pairwise(found):
        assert before.stop == after.first
    check_rows(rows, 0, 2, 29)


def test_no_spool() -> None:
    with pytest.raises(SpoolFailed, match=r"IO.*there is no spool"):
        rows_of(MemoryStore()).view()

"""Sealing, pages, trimming and sweeping: what breaks off anywhere loses nothing, and is cleared."""

from __future__ import annotations

import pytest

from aqueduct_core.spool.objects import compaction, owner, takeover
from aqueduct_core.spool.objects.manifest import Manifest, decode_manifest
from aqueduct_core.spool.objects.owner import ManifestOwner
from aqueduct_core.spool.objects.reading import ObjectIndex, look
from aqueduct_core.spool.objects.steps import run
from aqueduct_core.spool.objects.store import DeleteObject, Operation
from tests.core.spool.objects.test_takeover import owned, taken
from tests.support.objects.memory_store import MemoryStore, apply, one_by_one
from tests.support.objects.model_owner import CODEC, NAMES, ModelOwner, OwnerPlan, stored_in

ROWS = 40


def manifest_in(store: MemoryStore) -> Manifest:
    return decode_manifest(store.contents[NAMES.manifest][0], "")


def groups_in(store: MemoryStore) -> list[int]:
    return [int(key[-27:-7]) for key in sorted(store.contents) if "/groups/" in key]


def segments_in(store: MemoryStore) -> list[str]:
    return [key for key in sorted(store.contents) if "/segments/" in key]


def later_owner(store: MemoryStore) -> ManifestOwner:
    found = taken(store, "y")
    nonces = iter(range(1_000))
    return ManifestOwner(
        NAMES, CODEC, found.manifest, found.tag, lambda: f"y{next(nonces)} of {id(found)}"
    )


def now(store: MemoryStore, steps: object) -> None:
    run(steps, one_by_one(store), lambda *_: None)  # type: ignore[arg-type]


def test_sealed_groups_are_one_object_and_only_fences_stay() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 7, seal=4))
    assert len(segments_in(store)) == 2
    assert groups_in(store) == [1]
    entries = manifest_in(store).segments
    assert [(each.first, each.last) for each in entries] == [(1, 4), (5, 8)]
    assert [(each.starts, each.ends) for each in entries] == [((0,), (3,)), ((3,), (7,))]


def lives_until(plan: OwnerPlan, operations: int) -> MemoryStore | None:
    """What an owner leaves that ends behind so many operations; None: it ends before."""
    store = MemoryStore()
    each = ModelOwner(plan)
    for number in range(operations):
        if number == len(each.issued):
            return None
        each.handle(number, apply(store.contents, each.issued[number]))
    return store


def test_an_owner_may_end_behind_each_operation() -> None:
    """The next one finds all that it acked, and clears away what nothing refers to."""
    plan = OwnerPlan("a", 8, window=2, seal=3, trims=True)
    operations = 1
    while (store := lives_until(plan, operations)) is not None:
        next_owner = later_owner(store)
        now(store, next_owner.sweep())
        now(store, next_owner.change(lambda manifest: manifest))
        manifest = manifest_in(store)
        assert manifest.doomed == ()
        assert manifest.swept == manifest.floor
        named = {NAMES.segment(e.first, e.last, e.attempt) for e in manifest.segments}
        assert set(segments_in(store)) == named
        below = [each for each in groups_in(store) if each < manifest.floor]
        assert below in ([], [1])
        view = run(look(NAMES), one_by_one(store), lambda *_: None)
        found = ObjectIndex(NAMES, "s").locate(view, 0, view.starts[0], view.ends[0])
        locations = run(found, one_by_one(store), lambda *_: None)
        assert sum(each.stop - each.first for each in locations) == view.ends[0] - view.starts[0]
        operations += 1
    assert operations > 40


def test_the_state_behind_a_segment_is_that_of_its_groups() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 6, seal=4))
    entry = manifest_in(store).segments[0]
    state = run(takeover.read_state(NAMES, entry), one_by_one(store), lambda *_: None)
    each = ModelOwner(OwnerPlan("x", 0))
    each._sequences.load(state["marks"], state["sums"])
    numbers = {number for _, number in stored_in(each._sequences)}
    assert numbers == set(range(2, entry.last + 1))


def test_entries_turn_into_pages_and_pages_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compaction, owner):
        monkeypatch.setattr(module, "PAGE", 2)
    store = MemoryStore()
    owned(store, OwnerPlan("a", ROWS, window=1, seal=2))
    manifest = manifest_in(store)
    assert len(manifest.pages) > 1
    assert len(manifest.segments) < 4
    view = run(look(NAMES), one_by_one(store), lambda *_: None)
    index = ObjectIndex(NAMES, "s")
    whole = run(index.locate(view, 0, 0, ROWS), one_by_one(store), lambda *_: None)
    assert [each.first for each in whole] == sorted(each.first for each in whole)
    assert whole[-1].stop == ROWS
    size = manifest.size
    next_owner = later_owner(store)
    for at in range(ROWS + 1):
        cursors = {"c": (at,)}
        while run(next_owner.trim(cursors, 1, 9.0), one_by_one(store), lambda *_: None):
            pass
        start = run(look(NAMES), one_by_one(store), lambda *_: None).starts[0]
        assert at - 8 <= start <= at
        left = sum(len(store.contents[key][0]) for key in segments_in(store))
        assert next_owner.manifest.size == left <= size
    assert not next_owner.manifest.pages
    assert len(next_owner.manifest.segments) == 1  # it has the state
    assert not [key for key in store.contents if "/pages/" in key]


def test_what_is_kept_for_its_age_or_owed_does_not_go() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 9, seal=3))
    manifest = manifest_in(store)
    entries = manifest.segments

    def gone(cursors: dict[str, tuple[int | None, ...]], owed: int, before: float) -> int:
        return len(compaction.removable_entries(manifest, entries, cursors, owed, before))

    assert gone({"c": (9,)}, 1, 1.0) == len(entries) - 1
    assert gone({"c": (9,)}, 1, -1.0) == 0
    assert gone({}, 0, 1.0) == 0
    assert gone({"c": (None,)}, 1, 1.0) == 0
    assert gone({"c": (None,)}, 0, 1.0) == len(entries) - 1
    assert gone({"c": (9,), "slow": (0,)}, 1, 1.0) == 0


def test_a_change_whose_steps_broke_off_is_not_taken_for_another_owner() -> None:
    store = MemoryStore()
    each = later_owner(store)
    steps = each.change(lambda manifest: manifest)
    for operation in next(steps):
        store.carry_out(operation)  # it took place, and nobody heard of it
    steps.close()
    now(store, each.change(lambda manifest: manifest))
    assert manifest_in(store).life == "y"


def test_deletions_that_fail_are_made_good() -> None:
    store = MemoryStore()
    broken = [True]

    def fault(operation: Operation) -> tuple[bool, bool]:
        fails = isinstance(operation, DeleteObject) and broken[0]
        return not fails, not fails

    each = ModelOwner(OwnerPlan("a", 6, window=1, seal=3))
    done = 0
    while done < len(each.issued) and not isinstance(each.issued[done], DeleteObject):
        each.handle(done, apply(store.contents, each.issued[done]))
        done += 1
    store.fault = fault
    assert len(groups_in(store)) > 2
    broken[0] = False
    now(store, later_owner(store).sweep())
    assert 1 in groups_in(store)
    assert 2 not in groups_in(store)

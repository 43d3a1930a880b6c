"""What an owner finds, and what it costs to find it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.spool.objects.group import LogFence
from aqueduct_core.spool.objects.manifest import (
    PAGE,
    Manifest,
    PageEntry,
    decode_manifest,
    encode_manifest,
)
from aqueduct_core.spool.objects.steps import run
from aqueduct_core.spool.objects.store import ObjectFound
from aqueduct_core.spool.objects.takeover import TakenOver, TakeoverRequest, take_over
from tests.support.objects.memory_store import MemoryStore, apply, one_by_one
from tests.support.objects.model_owner import CODEC, NAMES, ModelOwner, OwnerPlan

NONCES = count()


def request(life: str = "z", window: int = 2) -> TakeoverRequest:
    return TakeoverRequest(NAMES, CODEC, 1, life, window, "id", lambda: f"{life}{next(NONCES)}")


def taken(store: MemoryStore, life: str = "z", window: int = 2) -> TakenOver:
    return run(take_over(request(life, window)), one_by_one(store), lambda *_: None)


def owned(store: MemoryStore, plan: OwnerPlan) -> ModelOwner:
    """An owner that has done all that it planned."""
    owner = ModelOwner(plan)
    done = 0
    while done < len(owner.issued):
        owner.handle(done, apply(store.contents, owner.issued[done]))
        done += 1
    assert len(owner.acked) == plan.groups
    return owner


def test_each_owner_begins_with_a_fence_behind_the_window_of_the_one_before() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 3, window=4))  # its fence is 1, its groups are 2 to 4
    first = taken(store, "b", window=7)
    assert [each.sequence for each in first.objects] == [1, 2, 3, 4, 5]
    assert first.objects[-1].fence == LogFence(2, 7, 9)
    assert (first.sequence, first.ends) == (9, (3,))
    second = taken(store, "c")
    assert [each.sequence for each in second.objects] == [1, 2, 3, 4, 5, 9]
    assert second.objects[-1].fence == LogFence(3, 2, 16)


def test_what_stands_behind_the_end_is_void() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 3, window=4))
    del store.contents[NAMES.group(3)]  # it never came there; 4 did
    manifest = decode_manifest(store.contents[NAMES.manifest][0], "")
    assert manifest.durable == 0
    found = taken(store)
    assert [each.sequence for each in found.objects] == [1, 2, 3]
    assert found.objects[-1].fence == LogFence(2, 2, 7)
    assert found.ends == (1,)


def test_stored_groups_that_are_missing_are_no_end() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 3))
    manifest = decode_manifest(store.contents[NAMES.manifest][0], "")
    noted = encode_manifest(replace(manifest, durable=4))
    store.contents[NAMES.manifest] = noted, "t"
    kept = store.contents.pop(NAMES.group(3))
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*003.arrows is missing: groups up to 4"):
        taken(store)
    store.contents[NAMES.group(3)] = kept
    assert taken(store).ends == (3,)


def test_a_damaged_group_is_named() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 3))
    data, tag = store.contents[NAMES.group(3)]
    store.contents[NAMES.group(3)] = data[:-1] + b"!", tag
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*003.arrows"):
        taken(store)


@pytest.mark.parametrize("operations", range(2, 5))
def test_of_two_that_come_at_once_the_later_one_has_it(operations: int) -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 2))
    steps = take_over(request("b"))
    asked = next(steps)
    for _ in range(operations):
        asked = steps.send(tuple(store.carry_out(each) for each in asked))
    assert taken(store, "c").ends == (2,)
    with pytest.raises(SpoolFailed, match="LOCKED"):
        run(_sent(steps, asked), one_by_one(store), lambda *_: None)


def _sent(steps, asked):  # type: ignore[no-untyped-def]
    """Steps that were begun, from the operations on that they wait for."""
    while True:
        outcomes = yield asked
        try:
            asked = steps.send(outcomes)
        except StopIteration as end:
            return end.value


def with_history(store: MemoryStore, segments: int) -> None:
    """Many more segments than were made: entries and pages, of which a takeover reads none."""
    manifest = decode_manifest(store.contents[NAMES.manifest][0], "")
    (real,) = manifest.segments
    pages = segments // PAGE
    entry = PageEntry(0, 0, "1-1", 1 << 30, (0,), (0,))
    many = replace(
        manifest,
        pages=tuple(entry for _ in range(pages)),
        segments=(*[real._replace(size=1)] * (segments % PAGE), real),
    )
    store.contents[NAMES.manifest] = encode_manifest(many), "t"


def test_the_cost_of_a_takeover_does_not_grow_with_what_is_stored() -> None:
    costs = {}
    for segments in (10, 1_000, 100_000):
        store = MemoryStore()
        owned(store, OwnerPlan("a", 6, seal=4))
        with_history(store, segments)
        read = [0]

        def counted(operations, store=store, read=read):  # type: ignore[no-untyped-def]
            outcomes = one_by_one(store)(operations)
            read[0] += sum(len(o.data) for o in outcomes if isinstance(o, ObjectFound))
            return outcomes

        found = run(take_over(request()), counted, lambda *_: None)
        assert found.ends == (6,)
        costs[segments] = sum(store.requests.values()), read[0]
    requests = {each for each, _ in costs.values()}
    assert len(requests) == 1
    assert max(size for _, size in costs.values()) < 200_000


def test_another_schema_is_refused() -> None:
    store = MemoryStore()
    owned(store, OwnerPlan("a", 1))
    manifest = decode_manifest(store.contents[NAMES.manifest][0], "")
    assert isinstance(manifest, Manifest)
    other = replace(manifest, schema=manifest.schema.with_metadata({"other": "yes"}))
    store.contents[NAMES.manifest] = encode_manifest(other), "t"
    assert taken(store).ends == (1,)  # what a schema says beside its columns does not matter
    fewer = replace(manifest, schema=manifest.schema.remove(0))
    store.contents[NAMES.manifest] = encode_manifest(fewer), "t"
    with pytest.raises(AqueductError, match="BAD_VALUE"):
        taken(store)

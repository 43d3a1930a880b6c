"""What each store has to say, whichever it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from aqueduct_core.spool.objects.store import (
    CreateObject,
    DeleteObject,
    GetObject,
    ListObjects,
    ObjectChanged,
    ObjectDeleted,
    ObjectExists,
    ObjectFound,
    ObjectMissing,
    ObjectsListed,
    ObjectStore,
    ObjectStored,
    ReplaceObject,
)

RIVALS = 8


def check_contract(store: ObjectStore, prefix: str) -> None:
    """Below a prefix of which nothing is stored yet."""
    check_conditions(store, f"{prefix}a")
    check_ranges(store, f"{prefix}b")
    check_listing(store, f"{prefix}c/")
    check_rivals(store, f"{prefix}d")


def check_conditions(store: ObjectStore, key: str) -> None:
    assert store.carry_out(GetObject(key)) == ObjectMissing()
    assert store.carry_out(DeleteObject(key)) == ObjectDeleted()
    assert store.carry_out(ReplaceObject(key, b"1", '"tag"')) == ObjectChanged()
    made = store.carry_out(CreateObject(key, b"1"))
    assert isinstance(made, ObjectStored)
    assert store.carry_out(CreateObject(key, b"1")) == ObjectExists()
    assert store.carry_out(GetObject(key)) == ObjectFound(b"1", made.tag)
    new = store.carry_out(ReplaceObject(key, b"2", made.tag))
    assert isinstance(new, ObjectStored)
    assert new.tag != made.tag
    assert store.carry_out(ReplaceObject(key, b"3", made.tag)) == ObjectChanged()
    assert store.carry_out(GetObject(key)) == ObjectFound(b"2", new.tag)
    assert store.carry_out(DeleteObject(key)) == ObjectDeleted()
    assert store.carry_out(GetObject(key)) == ObjectMissing()
    assert isinstance(store.carry_out(CreateObject(key, b"4")), ObjectStored)


def check_ranges(store: ObjectStore, key: str) -> None:
    data = bytes(range(256)) * 1000
    assert isinstance(store.carry_out(CreateObject(key, data)), ObjectStored)
    for start, stop in ((0, None), (0, 10), (255_000, 256_000), (255_990, None)):
        found = store.carry_out(GetObject(key, start, stop))
        assert isinstance(found, ObjectFound)
        assert found.data == data[start:stop]


def check_listing(store: ObjectStore, prefix: str) -> None:
    keys = [f"{prefix}{number:03d}" for number in range(12)]
    for key in reversed(keys):
        store.carry_out(CreateObject(key, b""))
    for after in ("", keys[4], keys[-1]):
        found: list[str] = []
        while True:
            listed = store.carry_out(ListObjects(prefix, found[-1] if found else after))
            assert isinstance(listed, ObjectsListed)
            if not listed.keys:
                break
            found += listed.keys
        assert found == [key for key in keys if key > after]


def check_rivals(store: ObjectStore, key: str) -> None:
    """Of many that create the same object, and replace it, one does."""
    with ThreadPoolExecutor(RIVALS) as pool:
        creates = [CreateObject(key, b"%d" % number) for number in range(RIVALS)]
        outcomes = list(pool.map(store.carry_out, creates))
        (made,) = [each for each in outcomes if isinstance(each, ObjectStored)]
        replaces = [ReplaceObject(key, b"r%d" % number, made.tag) for number in range(RIVALS)]
        outcomes = list(pool.map(store.carry_out, replaces))
    winners = [i for i, each in enumerate(outcomes) if isinstance(each, ObjectStored)]
    assert len(winners) == 1
    found = store.carry_out(GetObject(key))
    assert isinstance(found, ObjectFound)
    assert found.data == b"r%d" % winners[0]

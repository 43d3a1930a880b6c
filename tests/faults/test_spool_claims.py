"""FAULTS 32: one owner at a time on any file system, whether or not its locks hold and its
attributes are fresh; and an owner that is late changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import Disk, Spool, SpoolReader, ownership
from aqueduct_core.spool.catalog import Catalog
from tests.core.spool.rows import append, check_all, check_marks, open_spool, store

RACERS = 4
Result = TypeVar("Result")


class NoLock:
    """Of a file system that grants a lock to whoever asks."""

    def __init__(self, directory: Path) -> None:
        pass

    def release(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "SpoolLock", NoLock)


@pytest.fixture
def ends() -> Iterator[list[Spool]]:
    """Spools to be closed at the end, in whatever state."""
    spools: list[Spool] = []
    yield spools
    for spool in spools:
        spool.abandon("the test is over")
        spool.close()


class Interrupted(Disk):
    """Calls ``act`` once, before its operation number ``at``."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._act = act

    def _next(self) -> None:
        self.count += 1
        if self.count == self._at:
            self._act()

    def create(self, path: Path) -> int:
        self._next()
        return super().create(path)

    def draft(self, path: Path) -> int:
        self._next()
        return super().draft(path)

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        self._next()
        return super().write(fd, pieces, at)

    def truncate(self, fd: int, size: int) -> None:
        self._next()
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._next()

    def sync_directory(self, directory: Path) -> None:
        self._next()

    def unlink(self, path: Path) -> None:
        self._next()
        super().unlink(path)

    def rename(self, old: Path, new: Path) -> None:
        self._next()
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._next()
        super().link(old, new)


def torn(directory: Path) -> None:
    """Some groups, and half of one that was not reported."""
    with open_spool(directory, segment_bytes=2000) as spool:
        store(spool, [2, 1], groups=4)
    path = max(directory.glob("segment-*"))
    with path.open("ab") as file:
        file.write(b"\xff\xff\xff\xff torn")


def attempt(call: Callable[[], Result]) -> Result | str:
    """What it returns, or the class of the error that it raises."""
    try:
        return call()
    except SpoolFailed as error:
        return error.subclass


def holds(spool: Spool) -> bool:
    outcome = attempt(spool.check_owner)
    assert outcome in (None, "LOCKED")
    return outcome is None


@pytest.mark.parametrize(("state", "owners"), [("new", 1), ("torn", 1), ("torn", 2)])
def test_fault_32_owners_come_at_each_step_of_another_ones_opening(
    tmp_path: Path, state: str, owners: int, ends: list[Spool]
) -> None:
    """Of all of them exactly one has it, and all that it was told to be durable is there. The
    second one that comes removes the name that the first one and the interrupted one wanted."""
    prepare = torn if state == "torn" else Path.mkdir
    prepare(tmp_path / "undisturbed")
    undisturbed = Interrupted(0, lambda: None)
    open_spool(tmp_path / "undisturbed", disk=undisturbed).close()
    assert undisturbed.count > 10
    for at in range(1, undisturbed.count + 1):
        directory = tmp_path / str(at)
        prepare(directory)
        mine: list[Spool] = []

        def come(mine: list[Spool] = mine, directory: Path = directory) -> None:
            for _ in range(owners):
                spool = open_spool(directory)
                store(spool, [2, 1])
                append(spool, spool.ends(), [1, 1])
                assert spool.flush()
                mine.append(spool)

        disk = Interrupted(at, come)
        outcome = attempt(lambda: open_spool(directory, disk=disk))  # noqa: B023
        assert isinstance(outcome, Spool) or outcome == "LOCKED", (at, outcome)
        other = [outcome] if isinstance(outcome, Spool) else []
        ends += mine + other
        if not mine:
            continue  # a step of its closing
        assert len(mine) == owners
        reported = mine[-1].ends()
        holding = [spool for spool in (*mine, *other) if holds(spool)]
        assert len(holding) == 1, at
        (owner,) = holding
        owner.settle(5)
        store(owner, [1, 1])
        assert all(a > b for a, b in zip(owner.ends(), reported, strict=True)), at
        check_all(owner)
        check_marks(owner)
        with SpoolReader(directory) as reader:
            assert reader.ends() == owner.ends()
            assert reader.epoch == owner.epoch
            check_all(reader)


@pytest.mark.parametrize("step", ["open", "known"])
def test_fault_32_an_owner_that_came_between_a_look_and_its_epoch_stays(
    tmp_path: Path, step: str, ends: list[Spool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a new directory: the id that the late one has made for it is that of no row."""
    undisturbed = getattr(Catalog, step)

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        monkeypatch.setattr(ownership, "SpoolLock", NoLock)
        ends.append(open_spool(tmp_path))
        store(ends[0], [2, 1])
        return undisturbed(*given)

    monkeypatch.setattr(Catalog, step, late)
    assert attempt(lambda: open_spool(tmp_path)) == "LOCKED"
    assert holds(ends[0])
    store(ends[0], [1, 1])
    with SpoolReader(tmp_path) as reader:
        assert (reader.id, reader.ends()) == (ends[0].id, [3, 2])
        check_all(reader)


def test_fault_32_racers_take_an_epoch_each(tmp_path: Path, ends: list[Spool]) -> None:
    torn(tmp_path)
    gate = threading.Barrier(RACERS)
    outcomes: list[Spool | SpoolFailed] = []

    def race() -> None:
        gate.wait()
        try:
            outcomes.append(open_spool(tmp_path))
        except SpoolFailed as error:
            outcomes.append(error)

    threads = [threading.Thread(target=race) for _ in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spools = [each for each in outcomes if isinstance(each, Spool)]
    ends += spools
    assert len(outcomes) == RACERS
    assert {each.name for each in outcomes if isinstance(each, SpoolFailed)} <= {
        "AQUEDUCT_SPOOL.LOCKED"
    }
    assert len({spool.epoch for spool in spools}) == len(spools) > 0
    with open_spool(tmp_path) as last:
        assert last.epoch > max(spool.epoch for spool in spools)
        assert not any(holds(spool) for spool in spools)
        assert last.ends() == [8, 4]
        check_all(last)


class Deaf(Disk):
    """Of a server that makes a link, loses its answer, and refuses the next try."""

    def link(self, old: Path, new: Path) -> None:
        super().link(old, new)
        raise FileExistsError(17, "File exists", str(new))


def test_an_epoch_that_was_taken_is_found_by_reading_it_back(tmp_path: Path) -> None:
    with open_spool(tmp_path, disk=Deaf()) as spool:
        assert spool.epoch == 1
        store(spool, [1, 1])
        spool.check_owner()


def test_fault_32_cached_attributes_hide_no_successor(
    tmp_path: Path, ends: list[Spool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of a shared file system that goes on to see what it saw once, until it opens."""
    late = open_spool(tmp_path)
    ends.append(late)
    store(late, [2, 1])
    seen: dict[str, os.stat_result] = {}
    fresh = os.stat

    def stat(path: str | os.PathLike[str] | int, **given: object) -> os.stat_result:
        if isinstance(path, int):
            return fresh(path)
        name = os.fspath(path)
        if name not in seen:
            seen[name] = fresh(path, **given)  # type: ignore[arg-type]
        return seen[name]

    for path in tmp_path.iterdir():
        seen[str(path)] = fresh(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        late.check_owner()
        with open_spool(tmp_path) as successor:
            assert not holds(late)
            store(successor, [1, 1])
            reports: list[int] = []
            late.on_durable = reports.append
            with pytest.raises(SpoolFailed):
                late.pump()
            assert reports == []


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if not path.name.startswith("catalog.sqlite-")
    }


def late_acts(late: Spool) -> list[Callable[[], object]]:
    return [
        late.flush,
        lambda: late.commit("q", [1, 1]),
        lambda: late.enter_cursor("late", [True, True]),
        lambda: late.drop("q"),
        late.trim,
        late.close,
    ]


@pytest.mark.parametrize("halted", ["before it looks", "behind its look"])
@pytest.mark.parametrize("act", range(6))
def test_fault_32_a_late_owner_writes_nothing_back(
    tmp_path: Path, act: int, halted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was halted, also between its look at the claim and what it does: neither identity,
    epoch, cursors nor the end of what is durable are its own again."""
    late = open_spool(tmp_path, segment_bytes=1)
    late.enter_cursor("q", [True, True])
    store(late, [2, 1], groups=3)
    late.commit("q", [4, 2])
    append(late, late.ends(), [1, 1])
    with open_spool(tmp_path, segment_bytes=1) as successor:
        store(successor, [2, 1], groups=2)
        successor.commit("q", [8, 4])
        before, cursors, stored = files(tmp_path), successor.cursors(), successor.ends()
        if halted == "behind its look":
            monkeypatch.setattr(late, "check_owner", lambda: None)
        assert attempt(late_acts(late)[act]) in (None, True, False, "LOCKED", "IO")
        after = files(tmp_path)
        if halted == "before it looks":
            assert after == before
        changed = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        # a segment is what it had begun, and told apart by what its head says
        assert {name for name in changed if not name.startswith("segment-")} == set()
        store(successor, [1, 1])
        assert successor.cursors() == cursors
        stored = successor.ends()
    for lost in ((), ("catalog.sqlite",)):
        for name in lost:
            (tmp_path / name).unlink()
        with open_spool(tmp_path) as last:
            assert last.epoch > successor.epoch
            assert last.ends() == stored
            assert set(last.cursors()) == {"q"}
            check_all(last)
            check_marks(last)
    late.abandon("the test is over")
    late.close()

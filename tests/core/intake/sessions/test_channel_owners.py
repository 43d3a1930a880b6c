"""The run that owns a channel is known behind a kill of the intake, too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from aqueduct_core.aqueduct.conventions.headers import CODE_FENCED, channel_headers
from aqueduct_core.intake.sessions.channel_owners import MAX_OWNERS, ChannelOwners
from tests.core.intake.aqueduct.test_answering_positions import asked, running
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of
from tests.core.intake.test_resuming import dialled, send

Restart = Callable[[Bench], Bench]


@pytest.fixture
def restart(tmp_path: Path) -> Iterator[Restart]:
    """An intake on what is on the disk of another one at this moment, as after kill -9."""
    with ExitStack() as lives:
        numbers = count()

        def again(b: Bench) -> Bench:
            directory = tmp_path / f"life-{next(numbers)}"
            shutil.copytree(b.spool.directory, directory)
            return lives.enter_context(bench(directory))

        yield again


def attached(
    scene: Scene, start: int, *payloads: bytes, name: str = "c", stood_at: int | None = None
) -> int:
    """The channel of this name without a question, as behind a lost connection."""
    (channel,) = scene.attach(channel_headers(name=name, sequence_start=start, stood_at=stood_at))
    scene.send(channel, *payloads)
    scene.rest(0.3)
    return channel


def fenced(scene: Scene, channel: int) -> bool:
    if scene.closed is None:
        return False
    assert scene.closed.code == CODE_FENCED
    assert scene.delivered(channel, True) == []
    return True


def values(b: Bench) -> list[bytes]:
    return [row["value"] for row in of(b, "c")]


def taken(b: Bench) -> None:
    """Run 1 asks, and is cut off; run 2 asks, and stores what it numbers from 0 on."""
    asked(running(b, "1"))
    new = running(b, "2")
    assert asked(new).next == 0
    attached(new, 0, b"new 0", b"new 1")


def test_a_run_that_lost_a_channel_is_not_believed_behind_a_restart(
    tmp_path: Path, restart: Restart
) -> None:
    """Its messages would be acked as repeats of another run's, and dropped."""
    with bench(tmp_path / "first") as b:
        taken(b)
        for life in (restart(b), restart(restart(b))):
            back = running(life, "1")
            assert fenced(back, attached(back, 0, b"old 0", b"old 1"))
            owner = running(life, "2")
            assert owner.delivered(attached(owner, 2, b"new 2"), True) == [0]
            back = running(life, "1")
            assert fenced(back, attached(back, 3, b"old 3"))
            assert values(life) == [b"new 0", b"new 1", b"new 2"]


def test_the_owner_comes_back_first(tmp_path: Path, restart: Restart) -> None:
    with bench(tmp_path / "first") as b:
        taken(b)
        b = restart(b)
        owner, back = running(b, "2"), running(b, "1")
        assert owner.delivered(attached(owner, 1, b"new 1", b"new 2"), True) == [0, 1]
        assert fenced(back, attached(back, 0, b"old 0"))
        assert owner.closed is None
        assert values(b) == [b"new 0", b"new 1", b"new 2"]


def test_each_run_that_stores_follows_the_one_before(tmp_path: Path, restart: Restart) -> None:
    """And one that only asked takes nothing along: nothing of it can be taken for another's."""
    with bench(tmp_path / "first") as b:
        for number, run in enumerate(["1", "2", "1", "3"]):
            scene = running(b, run)
            asked(scene)
            attached(scene, number, b"%d" % number)
            b = restart(b)
        asked(running(b, "4"))
        b = restart(b)
        for run in ("1", "2", "4"):
            scene = running(b, run)
            assert fenced(scene, attached(scene, 4, b"late")), run
        assert len(b.spool.sequences.seen("p", "c\0owner")) == 1
        owner = running(b, "3")
        attached(owner, 4, b"4")
        assert values(b) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("first", ["1", "2"])
def test_where_no_run_has_stored_anything_the_first_one_has_the_channel(
    tmp_path: Path, restart: Restart, first: str
) -> None:
    second = "2" if first == "1" else "1"
    with bench(tmp_path / "first") as b:
        asked(running(b, "1"))
        asked(running(b, "2"))
        b = restart(b)
        winner, loser = running(b, first), running(b, second)
        assert winner.delivered(attached(winner, 0, b"stored"), True) == [0]
        assert fenced(loser, attached(loser, 0, b"not stored"))
        b = restart(b)
        loser = running(b, second)
        assert fenced(loser, attached(loser, 0, b"not stored"))
        assert values(b) == [b"stored"]


@pytest.mark.parametrize("first", ["1", "2"])
def test_a_spool_that_says_nothing_of_runs(tmp_path: Path, restart: Restart, first: str) -> None:
    """As an earlier release, or a client that names no run, leaves it."""
    second = "2" if first == "1" else "1"
    with bench(tmp_path / "first") as b:
        send(dialled(b), "c", 0, 2)
        b = restart(b)
        winner, loser = running(b, first), running(b, second)
        assert winner.delivered(attached(winner, 2, b"2"), True) == [0]
        assert fenced(loser, attached(loser, 2, b"not stored"))
        send(dialled(b), "c", 3, 4)  # who names no run is as free as ever
        assert values(b) == [b"0", b"1", b"2", b"3"]


def test_a_run_that_only_asked_goes_on_where_nothing_was_stored_since(
    tmp_path: Path, restart: Restart
) -> None:
    """As a producer whose intake was killed before its first message was stored."""
    with bench(tmp_path / "first") as b:
        attached(running(b, "1"), 0, b"0")
        stands = asked(running(b, "2")).next
        b = restart(b)
        old, heir, late = running(b, "1"), running(b, "2"), running(b, "3")
        open_still = attached(old, 1)
        assert heir.delivered(attached(heir, 1, b"1", stood_at=stands), True) == [0]
        old.rest(0.3)
        assert fenced(old, open_still)
        assert fenced(late, attached(late, 1, b"late", stood_at=stands))
        b = restart(b)
        for run, start in (("1", 1), ("3", 2)):  # numbers that are given out by now
            late = running(b, run)
            assert fenced(late, attached(late, start, b"late", stood_at=stands))
        assert values(b) == [b"0", b"1"]


def test_who_asked_last_has_the_channel_wherever_it_stands(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        attached(running(b, "1"), 0, b"0")
        stands = asked(running(b, "2")).next
        newest = running(b, "3")
        asked(newest)
        late = running(b, "2")
        assert fenced(late, attached(late, 1, b"late", stood_at=stands))
        assert newest.delivered(attached(newest, 1, b"1", stood_at=stands), True) == [0]


def test_only_repeats_store_nothing_and_own_nothing(tmp_path: Path, restart: Restart) -> None:
    with bench(tmp_path / "first") as b:
        taken(b)
        again = running(b, "3")
        asked(again)
        attached(again, 0, b"new 0", b"new 1")
        b = restart(b)
        owner = running(b, "2")
        assert owner.delivered(attached(owner, 2, b"new 2"), True) == [0]


def test_an_owner_is_durable_in_the_record_of_its_rows(tmp_path: Path) -> None:
    """A group may be torn behind any record of it."""
    with bench(tmp_path, partitions=3) as b:
        written: list[tuple[int, list[str]]] = []
        append = b.spool.append

        def spy(log: int, batch: object, marks: object = (), sums: object = ()) -> object:
            written.append((log, [mark.name for mark in marks]))  # type: ignore[attr-defined]
            return append(log, batch, marks, sums)  # type: ignore[arg-type]

        b.spool.append = spy  # type: ignore[method-assign,assignment]
        scene = running(b, "1")
        for number in range(2):
            attached(scene, number, b"%d" % number)
        named = [names for log, names in written if log < 3 and "c" in names]
        assert named == [["c", "c\0owner"], ["c"]]


def test_an_entrypoint_with_numbers_is_owned_as_well(tmp_path: Path, restart: Restart) -> None:
    with bench(tmp_path / "first") as b:
        new = running(b, "2", start=0)
        new.send(0, b"new")
        new.rest(0.3)
        for life in (b, restart(b)):
            back = running(life, "1", start=0)
            back.send(0, b"old")
            back.rest(0.3)
            assert fenced(back, 0)
            assert [row["value"] for row in of(life, "0")] == [b"new"]


class Carrying:
    """A connection that carries everything and writes nothing."""

    def __init__(self) -> None:
        self.fenced: list[str] = []

    def carries(self, producer: str, channel: str) -> bool:
        return True

    def fence(self, channel: str) -> None:
        self.fenced.append(channel)


def test_owners_are_bounded_and_connections_leave_nothing() -> None:
    stored = {("p", "0"): 3}
    owners = ChannelOwners(lambda *key: stored.get(key), lambda *key: 7)
    writer, other = Carrying(), Carrying()
    owners.join(writer, "p")
    for number in range(MAX_OWNERS + 1):
        owners.take(writer, "p", str(number), 1)
    assert not owners.admits(other, ("p", "0"), 2)  # of which only what is stored is known
    assert not owners.admits(other, ("p", "0"), 2, stood_at=6)
    assert not owners.admits(other, ("p", "1"), 2, stood_at=7)
    owners.take(writer, "p", "1", None)
    assert owners.admits(other, ("p", "1"), 2)
    assert not owners.admits(other, ("p", "1"), 1)
    assert (writer.fenced, other.fenced) == ([], ["0", "0", "1", "1"])
    owners.leave(writer, "p")
    owners.leave(writer, "p")
    owners.take(other, "p", "1", 3)
    assert writer.fenced == []

"""FAULTS 16, 19, 20: whatever is damaged or missing in a spool, an explicit act lets it go on.

For each damage: the error that an owner, the planner or a read tells names the exact command; with
it (and no other) the same query goes on from its checkpoint; it gets every row that can be read,
once; no offset is given out again; and what it does not get is told by events, range by range.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import Spool, SpoolReader, recovery
from aqueduct_core.spool.format import durable
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.planning.progress import survey
from aqueduct_spark.read.gaps import passing
from tests.core.spool.rows import segments
from tests.spark.planning.test_progress import TERMS, status
from tests.spark.spools import open_spool, rows, store, value

COUNTS = (5, 3)
"""Rows of a group, which has a segment of its own."""

GROUPS = 6
ENDS = (GROUPS * COUNTS[0], GROUPS * COUNTS[1])
READ = (10, 6)
"""What the query was done with when the damage came: two segments."""


def group(spool: Spool) -> None:
    ends = spool.ends()
    store(spool, [(p, rows(ends[p], count, partition=p)) for p, count in enumerate(COUNTS)])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is after a kill -9 of the owner. ``closed`` beside it ended in good order, ``copy`` is
    from two groups before, and ``other`` another spool of the same size."""
    home = tmp_path_factory.mktemp("spools")
    for name in ("other", "spool"):
        with open_spool(home / name, segment_bytes=1) as spool:
            spool.enter_cursor("q", [True, True, False])
            for number in range(GROUPS):
                if number == GROUPS - 2:
                    shutil.copytree(home / name, home / f"copy {name}")
                group(spool)
            spool.commit("q", [*READ, None])
            shutil.copytree(home / name, home / f"killed {name}")
    (home / "spool").rename(home / "closed")
    (home / "copy spool").rename(home / "copy")
    return (home / "killed spool").rename(home / "killed")


class Query:
    """A query over one spool: what it read, and where its checkpoint is."""

    def __init__(self, directory: Path, at: tuple[int, ...]) -> None:
        self.directory = directory
        self.at = list(at)
        self.got: list[dict[int, bytes]] = [{}, {}]

    def go(self) -> None:
        """An owner opens the spool, stores more, and the query reads all that there is."""
        with open_spool(self.directory, segment_bytes=1) as spool:
            known = SpoolPosition(spool.id, "h:1", spool.epoch, tuple(self.at))
            ends, starts = spool.ends()[:2], spool.starts()[:2]
            seen = status(tuple(ends), tuple(starts), id=spool.id, epoch=spool.epoch)
            survey(StreamOffset({0: known}, launch=1), {0: seen}, TERMS)
            for partition, end in enumerate(ends):
                self._read(spool, partition, end)
                # as the planner asks before it plans a batch
                spool.sizes(partition, starts[partition], end, 100)

    def _read(self, spool: Spool, log: int, end: int) -> None:
        found = passing(
            f"partition {log}",
            self.at[log],
            end,
            read=lambda start, stop: spool.read(log, start, stop),
            stretches=lambda start, stop: spool.stretches(log, start, stop),
            durable=lambda: spool.ends()[log],
            lenient=False,
        )
        for offset, batch in found:
            for number, got in enumerate(batch.column("value").to_pylist(), offset):
                assert number not in self.got[log]
                self.got[log][number] = got
            self.at[log] = offset + batch.num_rows
        self.at[log] = end


def command_of(error: AqueductError, directory: Path) -> list[str]:
    """The one command that an error names."""
    [text] = re.findall(r"(?:aqueduct spool|rm) .*", error.remedy)
    return shlex.split(
        text.partition(" (DIR")[0].replace(" DIR ", f" {shlex.quote(str(directory))} ")
    )


def passed(query: Query) -> list[str]:
    """Let the query go on by what its errors say; the errors, in short."""
    told: list[str] = []
    done: list[list[str]] = []
    while (failure := failure_of(query)) is not None:
        command = command_of(failure, query.directory)
        assert command not in done, failure
        done.append(command)
        told.append(failure.subclass)
        if command[0] == "rm":
            Path(command[1]).unlink()
        else:
            assert main(command[1:]) == 0
    return told


def failure_of(query: Query) -> AqueductError | None:
    try:
        query.go()
    except AqueductError as error:
        return error
    return None


def told_lost(directory: Path) -> list[set[int]]:
    """The offsets that events say were given up, of each message partition."""
    lost: list[set[int]] = [set(), set()]
    with SpoolReader(directory) as reader:
        for batch in reader.read(2, reader.starts()[2], reader.ends()[2]):
            for event in ROWS.expand_events(batch, 2, 0).to_pylist():
                assert event["kind"] == "skipped"
                partition = int(re.match(r"partition (\d+): ", event["reason"])[1])  # type: ignore[index]
                here = set(range(event["first"], event["last"] + 1))
                assert not here & lost[partition]
                lost[partition] |= here
    return lost


def missing(*numbers: int) -> Callable[[Path], None]:
    def act(directory: Path) -> None:
        for path in [segments(directory)[number - 1] for number in numbers]:
            path.unlink()

    return act


def gone(*names: str) -> Callable[[Path], None]:
    def act(directory: Path) -> None:
        for name in names:
            for path in directory.glob(name):
                path.unlink()

    return act


def garbage(name: str) -> Callable[[Path], None]:
    def act(directory: Path) -> None:
        for path in directory.glob(name):
            path.write_bytes(b"no such thing " * 300)

    return act


def foreign(name: str) -> Callable[[Path], None]:
    def act(directory: Path) -> None:
        (path,) = directory.glob(name)
        shutil.copy(directory.parent / "other" / path.name, path)

    return act


def cut(number: int, size: int) -> Callable[[Path], None]:
    """To ``size`` bytes; a negative one from the end."""

    def act(directory: Path) -> None:
        path = segments(directory)[number - 1]
        path.write_bytes(path.read_bytes()[:size])

    return act


def flipped(number: int, position: int) -> Callable[[Path], None]:
    def act(directory: Path) -> None:
        path = segments(directory)[number - 1]
        data = bytearray(path.read_bytes())
        data[position] ^= 16
        path.write_bytes(data)

    return act


class Damage(NamedTuple):
    """What is done, what the query says of it on its way, and which groups (from 1 on) it loses."""

    acts: tuple[Callable[[Path], None], ...]
    told: tuple[str, ...] = ()
    lost: tuple[int, ...] = ()
    state: str = "killed"


NEWEST = "segment-*6.arrows"
GONE_TWICE = ("RANGE_GONE", "RANGE_GONE")
CORRUPT_TWICE = ("CORRUPT", "CORRUPT")
DAMAGES = {
    "newest segment missing": Damage((missing(6),), ("CORRUPT",), (6,)),
    "and the catalog": Damage((missing(6), gone("catalog*")), ("CORRUPT",), (6,)),
    "and the identity": Damage((missing(6), gone("catalog*", "spool.json")), ("CORRUPT",), (6,)),
    "newest missing after the end": Damage((missing(6),), GONE_TWICE, (6,), "closed"),
    "newest of another spool": Damage((foreign(NEWEST),), ("CORRUPT",), (6,)),
    "newest of another spool after the end": Damage(
        (foreign(NEWEST),), ("CORRUPT",), (6,), "closed"
    ),
    "two newest missing": Damage((missing(5, 6),), ("CORRUPT",), (5, 6)),
    "middle segment missing": Damage((missing(4),), GONE_TWICE, (4,)),
    "middle missing without a catalog": Damage((missing(4), gone("catalog*")), GONE_TWICE, (4,)),
    "middle of another spool": Damage((foreign("segment-*4.arrows"),), CORRUPT_TWICE, (4,)),
    "and no catalog": Damage((foreign("segment-*4.arrows"), gone("catalog*")), ("CORRUPT",), (4,)),
    "oldest unread missing": Damage((missing(1, 2, 3),), GONE_TWICE, (3,)),
    "oldest read missing": Damage((missing(1, 2),)),
    "all missing": Damage((missing(1, 2, 3, 4, 5, 6),), ("CORRUPT",), (3, 4, 5, 6)),
    "all missing after the end": Damage(
        (missing(1, 2, 3, 4, 5, 6),), GONE_TWICE, (3, 4, 5, 6), "closed"
    ),
    "newest cut to nothing": Damage((cut(6, 0),), CORRUPT_TWICE, (6,)),
    "newest cut in its head": Damage((cut(6, 1500),), CORRUPT_TWICE, (6,)),
    "middle cut to nothing": Damage((cut(4, 0),), CORRUPT_TWICE, (4,)),
    "middle cut in its head": Damage((cut(4, 1500),), CORRUPT_TWICE, (4,)),
    "first bytes flipped": Damage((flipped(4, 9), flipped(6, 9))),
    "heads flipped": Damage((flipped(4, 1500), flipped(6, 1500))),
    "a record flipped": Damage((flipped(4, -20),), ("CORRUPT",), (4,)),
    "the newest record flipped": Damage((flipped(6, -20),), ("CORRUPT",), (6,)),
    "catalog gone": Damage((gone("catalog*"),)),
    "catalog damaged": Damage((garbage("catalog.sqlite"),)),
    "identity gone": Damage((gone("spool.json"),)),
    "identity damaged": Damage((garbage("spool.json"),)),
    "identity of another spool": Damage((foreign("spool.json"),), ("CORRUPT",)),
    "owner's notes gone": Damage((gone("owner-*"),)),
    "owner's notes damaged": Damage((garbage("owner-*"),)),
    "notes and catalog damaged": Damage((garbage("owner-*"), garbage("catalog.sqlite"))),
    "all but the segments gone": Damage((gone("owner-*", "catalog*", "spool.json"),)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_passed_by_what_its_error_names(
    killed: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage = DAMAGES[name]
    work = shutil.copytree(killed.parent / damage.state, tmp_path / "a spool")
    (tmp_path / "other").symlink_to(killed.parent / "other")
    for act in damage.acts:
        act(work)
    query = Query(work, READ)
    told = passed(query)
    assert told == list(damage.told), capsys.readouterr()
    with open_spool(work, segment_bytes=1) as spool:
        first = spool.ends()
        group(spool)
    query.go()
    lost = told_lost(work)
    for p, count in enumerate(COUNTS):
        assert first[p] >= ENDS[p]  # nothing that was reported is given out again
        assert query.got[p] == {n: value(p, n) for n in query.got[p]}
        asked = set(range(READ[p], first[p] + count))
        assert asked - query.got[p].keys() == lost[p] & asked
        of_groups = {n for g in damage.lost for n in range((g - 1) * count, g * count)}
        # a record is one partition of a group
        assert lost[p] in (of_groups, set()) if "record" in name else lost[p] == of_groups
    # what holds no rows cannot be given up, and is in nobody's way
    assert main(["spool", "verify", str(work)]) == (1 if "s flipped" in name else 0)


def test_what_was_read_before_and_is_not_there_any_more_is_given_up(
    killed: Path, tmp_path: Path
) -> None:
    """An old copy of the directory was put back, and the checkpoint knows of more rows."""
    work = shutil.copytree(killed.parent / "copy", tmp_path / "a spool")
    query = Query(work, ENDS)
    assert passed(query) == ["OFFSET_AHEAD", "OFFSET_AHEAD"]
    with open_spool(work) as spool:
        assert tuple(spool.ends()[:2]) == ENDS
        group(spool)
    query.go()
    for p, count in enumerate(COUNTS):
        assert query.got[p] == {n: value(p, n) for n in range(ENDS[p], ENDS[p] + count)}
    assert told_lost(work) == [set(range(end * 4 // 6, end)) for end in ENDS]


def test_offsets_ahead_are_not_given_up_by_a_slip(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = shutil.copytree(killed, tmp_path / "a spool")

    def skip(*more: str) -> str:
        assert main(["spool", "skip", str(work), *more]) == 1
        return capsys.readouterr().err

    there = ("--partition", "0", "--from", "30")
    assert "OFFSET_AHEAD" in skip(*there, "--to", "300")
    assert "OFFSET_AHEAD" in skip("--partition", "0", "--from", "31", "--to", "300", "--ahead")
    assert "CONFLICT" in skip("--partition", "0", "--from", "29", "--to", "300", "--ahead")
    assert "CONFLICT" in skip("--segment", "6")
    assert "CONFLICT" in skip("--segment", "7")
    assert "MISSING" in skip("--segment", "6", *there)
    assert "MISSING" in skip(*there)
    with open_spool(work) as spool:
        assert tuple(spool.ends()[:2]) == ENDS
        assert spool.skips == ()


def test_after_a_power_cut_no_offset_is_given_out_again_either(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark may be an old one: where rows begin again is beyond all that can have been told."""
    work = shutil.copytree(killed, tmp_path / "a spool")
    segments(work)[-1].unlink()
    monkeypatch.setattr(durable, "boot_id", lambda: "another boot")
    query = Query(work, READ)
    assert passed(query) == ["CORRUPT"]
    with SpoolReader(work) as reader:
        assert reader.ends()[:2] == [end + recovery.MAX_UNREPORTED for end in ENDS]
    assert sum(map(len, query.got)) == sum(ENDS) - sum(READ) - sum(COUNTS)


def test_what_was_given_up_is_kept_until_every_query_has_passed_it(
    killed: Path, tmp_path: Path
) -> None:
    work = shutil.copytree(killed, tmp_path / "a spool")
    missing(1, 2, 3)(work)
    query = Query(work, READ)
    assert passed(query) == list(GONE_TWICE)
    with open_spool(work, segment_bytes=1) as spool:
        assert len(spool.skips) == 2
        low, high = spool.ends()[0], spool.ends()[0] + 1
        spool.skip(0, low, high, "more")
        assert len(spool.skips) == 3
        spool.commit("q", [*ENDS, None])
        spool.skip(0, high, high + 1, "and more")
        assert [(each.partition, each.start) for each in spool.skips] == [(0, low), (0, high)]


def test_a_segment_is_given_up_once_and_a_crash_between_is_told(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner that gives it up dies before it has told of it: reads then name the rows."""
    work = shutil.copytree(killed, tmp_path / "a spool")
    missing(6)(work)
    with monkeypatch.context() as patch:
        patch.setattr("aqueduct_core.cli.spool.skip.give_up", lambda *_: None)
        assert main(["spool", "skip", str(work), "--segment", "6"]) == 0
    query = Query(work, READ)
    assert passed(query) == list(GONE_TWICE)
    assert told_lost(work) == [set(range(25, 30)), set(range(15, 18))]

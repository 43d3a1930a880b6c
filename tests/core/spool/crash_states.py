"""Directories as crashes and operators leave them, to be opened by an owner that dies meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.core.spool.rows import append, open_spool, segments, store

FIXTURES = Path(__file__).parent / "fixtures"
CATALOG = "catalog.sqlite"
State = Callable[[Path], None]


def written(directory: Path) -> None:
    """Two lives, several segments, a cursor, the oldest segments gone."""
    for _ in range(2):
        with open_spool(directory, partitions=3, segment_bytes=2000) as spool:
            store(spool, [2, 1, 1], groups=5)
            spool.commit("q", [4, 2, None])
            while spool.trim():
                pass


def torn(directory: Path) -> None:
    """Two groups were written and not reported; a part of the first never got to the disk."""
    work = directory.with_name("torn work")
    written(work)
    with open_spool(work, partitions=3, segment_bytes=2000) as spool:
        store(spool, [1, 1, 0])
        path = segments(work)[-1]
        size = path.stat().st_size
        ends = spool.ends()
        for _ in range(2):
            append(spool, ends, [1, 1, 1])
            spool.flush()
        shutil.copytree(work, directory)
    with (directory / path.name).open("r+b") as file:
        file.seek(size + 40)
        file.write(bytes(200))


def torn_at_a_roll(directory: Path) -> None:
    """The first group of a new segment was written half."""
    work = directory.with_name("rolled work")
    written(work)
    with open_spool(work, partitions=3, segment_bytes=1) as spool:
        store(spool, [1, 1, 0])
        append(spool, spool.ends(), [1, 1, 1])
        spool.flush()
        shutil.copytree(work, directory)
    path = segments(directory)[-1]
    path.write_bytes(path.read_bytes()[:-100])


def bad_catalog(directory: Path) -> None:
    written(directory)
    for name in (CATALOG, f"{CATALOG}-wal", f"{CATALOG}-shm"):
        (directory / name).write_bytes(b"no database " * 500)


def lost_catalog(directory: Path) -> None:
    torn(directory)
    for path in directory.glob(f"{CATALOG}*"):
        path.unlink()


def old_catalog(directory: Path) -> None:
    with open_spool(directory, partitions=3, segment_bytes=2000) as spool:
        store(spool, [2, 1, 1], groups=3)
    old = (directory / CATALOG).read_bytes()
    written(directory)
    (directory / CATALOG).write_bytes(old)


def lost_identity(directory: Path) -> None:
    torn(directory)
    (directory / "spool.json").unlink()


def old_identity(directory: Path) -> None:
    open_spool(directory, partitions=3).close()
    old = (directory / "spool.json").read_bytes()
    written(directory)
    (directory / "spool.json").write_bytes(old)


def missing_segment(directory: Path) -> None:
    written(directory)
    segments(directory)[0].unlink()


def format_1(directory: Path) -> None:
    shutil.copytree(FIXTURES / "format_1", directory)


def format_2(directory: Path) -> None:
    shutil.copytree(FIXTURES / "format_2", directory)


def two_claims(directory: Path) -> None:
    """A successor died before it took the name of the owner before it, and left its draft."""
    torn(directory)
    (claim,) = directory.glob("owner-*")
    epoch = int(claim.name[6:])
    shutil.copy(claim, directory / f"owner-{epoch - 1:012d}")
    shutil.copy(claim, directory / "owner.0123456789abcdef")


STATES: dict[str, State] = {
    state.__name__: state
    for state in (
        torn,
        torn_at_a_roll,
        bad_catalog,
        lost_catalog,
        old_catalog,
        lost_identity,
        old_identity,
        missing_segment,
        format_1,
        format_2,
        two_claims,
    )
}

"""A log that several processes write to is put aside by size, and no line before its time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.logs.rotation import is_log_at, older, rotate
from tests.support.waiting import LONG

LIMIT = 100
LINE = b"x" * 29 + b"\n"


class Life:
    """One process that logs: it opens as its launcher does, and looks before each line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: bytes) -> None:
        rotate(self.path, self.descriptor, LIMIT)
        os.write(self.descriptor, line)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "intake.log"


@contextlib.contextmanager
def lives(log: Path, count: int) -> Iterator[list[Life]]:
    made = [Life(log) for _ in range(count)]
    yield made
    for life in made:
        os.close(life.descriptor)


def test_a_log_is_put_aside_when_it_is_long(log: Path) -> None:
    with lives(log, 1) as (life,):
        for i in range(10):
            life.write(b"%d " % i + LINE)
    assert older(log).read_bytes() == b"".join(b"%d " % i + LINE for i in range(4, 8))
    assert log.read_bytes() == b"".join(b"%d " % i + LINE for i in range(8, 10))
    assert log.stat().st_mode & 0o777 == 0o600


def test_two_lives_put_it_aside_once(log: Path) -> None:
    """The second one finds that the file is not its own any more, and follows."""
    with lives(log, 2) as (first, second):
        for _ in range(4):
            first.write(b"1" + LINE)
        second.write(b"2" + LINE)  # puts it aside
        first.write(b"1" + LINE)  # follows
        assert older(log).read_bytes() == 4 * (b"1" + LINE)
        assert log.read_bytes() == b"2" + LINE + b"1" + LINE
        assert all(is_log_at(log, life.descriptor) for life in (first, second))


def test_a_life_that_slept_through_two_of_them_loses_none_of_its_lines(log: Path) -> None:
    with lives(log, 2) as (busy, idle):
        for _ in range(9):
            busy.write(LINE)
        assert not is_log_at(log, idle.descriptor)
        idle.write(b"idle\n")
    assert log.read_bytes().endswith(b"idle\n")


def test_a_kill_between_the_two_steps_is_made_good_by_the_next(log: Path) -> None:
    with lives(log, 2) as (killed, other):
        for _ in range(4):
            killed.write(LINE)
        log.rename(older(log))  # and it was killed here
        other.write(b"other\n")
        assert older(log).read_bytes() == 4 * LINE
        assert log.read_bytes() == b"other\n"


def test_they_wait_for_each_other(log: Path) -> None:
    """Whoever has the lock may be about to rename: it is looked at again behind it."""
    with lives(log, 1) as (life,):
        for _ in range(4):
            life.write(LINE)
        with log.open("rb") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            other = threading.Thread(target=life.write, args=(b"other\n",))
            other.start()
            log.rename(older(log))
        other.join(LONG)
    assert older(log).read_bytes() == 4 * LINE
    assert log.read_bytes() == b"other\n"


def test_the_log_of_a_launch_that_was_put_aside_meanwhile_is_known(log: Path) -> None:
    with lives(log, 1) as (life,):
        log.rename(older(log))
        log.write_bytes(b"")
        assert is_log_at(log, life.descriptor)
        assert not is_log_at(log.with_name("other.log"), life.descriptor)


def test_what_is_no_file_is_left_alone(log: Path) -> None:
    reads, writes = os.pipe()
    rotate(log, writes, 0)
    assert not log.exists()
    os.close(reads)
    os.close(writes)


def test_a_disk_that_fails_leaves_the_log_where_it_is(log: Path) -> None:
    with lives(log, 1) as (life,):
        for _ in range(4):
            life.write(LINE)
        gone = Path(f"{log.parent}-gone")
        log.parent.rename(gone)
        with pytest.raises(FileNotFoundError):
            rotate(log, life.descriptor, LIMIT)
        os.write(life.descriptor, LINE)
        gone.rename(log.parent)
    assert log.read_bytes() == 5 * LINE

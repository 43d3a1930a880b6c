"""Who writes is not held up by who does not read; nothing is lost or put in another order."""

from __future__ import annotations

import os
from pathlib import Path

from aqueduct_core.logs.writer import BackgroundWriter
from tests.support.waiting import LONG

MUCH = 1 << 20
"""More bytes than a pipe holds."""


def test_a_full_pipe_holds_up_nobody_and_gets_all_in_order() -> None:
    reads, writes = os.pipe()
    writer = BackgroundWriter()
    lines = [b"%d " % i * 1_000 + b"\n" for i in range(400)]
    for line in lines:
        writer.write(writes, line)  # returns, though nobody reads
    size = sum(map(len, lines))
    assert size > MUCH
    assert 0 < writer.queued <= size
    got = b""
    while len(got) < size:
        got += os.read(reads, 1 << 16)
    assert writer.flush(LONG)
    assert (got, writer.queued, writer.failure) == (b"".join(lines), 0, None)
    os.close(reads)
    os.close(writes)


def test_a_pipe_that_does_not_wait_is_waited_for() -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    writer = BackgroundWriter()
    writer.write(writes, bytes(MUCH))
    got = 0
    while got < MUCH:
        got += len(os.read(reads, 1 << 16))
    assert writer.flush(LONG)
    os.close(reads)
    os.close(writes)


def test_a_reader_that_has_left_ends_the_writing() -> None:
    reads, writes = os.pipe()
    failures: list[OSError | None] = []
    writer = BackgroundWriter(lambda: failures.append(writer.failure))
    os.close(reads)
    writer.write(writes, b"x")
    writer.write(writes, b"y")
    assert writer.flush(LONG)
    assert isinstance(writer.failure, BrokenPipeError)
    writer.write(writes, b"z")
    assert writer.queued == 0
    os.close(writes)


def test_a_log_on_a_disk_that_was_full_goes_on(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    writer = BackgroundWriter(recovers=True)
    writer.write(full, b"lost")
    assert writer.flush(LONG)
    assert writer.failure is not None
    writer.write(file, b"kept")
    assert writer.flush(LONG)
    assert (writer.failure, (tmp_path / "log").read_bytes()) == (None, b"kept")
    os.close(full)
    os.close(file)


def test_waiting_for_a_reader_has_an_end() -> None:
    reads, writes = os.pipe()
    writer = BackgroundWriter()
    writer.write(writes, bytes(MUCH))
    assert not writer.flush(0.0)
    read = 0
    while read < MUCH:
        read += len(os.read(reads, 1 << 16))
    assert writer.flush(LONG)
    os.close(reads)
    os.close(writes)

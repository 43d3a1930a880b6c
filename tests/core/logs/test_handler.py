"""The log handler: bounded, never waiting, and one file that does not grow without end."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct_core.logs.fault_limit import FaultLimit
from aqueduct_core.logs.handler import QUEUE_BYTES, LogHandler
from aqueduct_core.logs.refusals import LINES, PERIOD
from aqueduct_core.logs.rotation import older


@contextmanager
def logger(handler: LogHandler) -> Iterator[logging.Logger]:
    log = logging.Logger("tests.handler")
    log.addHandler(handler)
    yield log
    handler.close()


def test_a_reader_that_does_not_read_costs_lines_and_no_time() -> None:
    reads, writes = os.pipe()
    lines = 4 * QUEUE_BYTES // 1_000
    with logger(LogHandler(writes)) as log:
        for i in range(lines):
            log.warning("%d %s", i, "x" * 1_000)
        os.set_blocking(reads, False)
        got, ends = b"", 0
        while not got.endswith(b" the last\n"):
            try:
                got += os.read(reads, 1 << 16)
            except BlockingIOError:
                log.handlers[0].flush()
                log.warning("the last")
                ends += 1
    said = got.decode().splitlines()
    numbers = [int(line.split("tests.handler: ")[1].split()[0]) for line in said if " x" in line]
    assert numbers == sorted(set(numbers))
    left_out = sum(int(line.strip(" (").split()[0]) for line in said if "left out" in line)
    assert left_out > 0
    told = len(numbers) + sum(line.endswith(" the last") for line in said)
    # of those at the end the last ones may be left out, and the count of them not be told yet
    assert lines <= told + left_out <= lines + ends
    assert len(numbers) * 1_000 < 2 * QUEUE_BYTES
    os.close(reads)
    os.close(writes)


def test_its_own_file_is_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "intake.log"
    with path.open("ab") as file, logger(LogHandler(file.fileno())) as log:
        handler = log.handlers[0]
        assert isinstance(handler, LogHandler)
        handler.rotates(path, 10_000)
        for i in range(1_000):
            log.warning("line %d", i)
        handler.flush()
    assert 10_000 <= older(path).stat().st_size < 10_100
    assert path.read_text().endswith("line 999\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["intake.log", "intake.log.1"]


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.log", tmp_path / "intake.log"
    with mine.open("ab") as file, logger(LogHandler(file.fileno())) as log:
        handler = log.handlers[0]
        assert isinstance(handler, LogHandler)
        handler.rotates(other, 0)
        log.warning("a line")
        handler.flush()
    assert [each.name for each in tmp_path.iterdir()] == ["mine.log"]


def test_what_a_full_disk_has_cost_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as file, open("/dev/full", "ab") as full:
        descriptor = os.dup(full.fileno())
        with logger(LogHandler(descriptor)) as log:
            log.warning("lost")
            log.handlers[0].flush()
            os.dup2(file.fileno(), descriptor)
            log.warning("kept")
            log.handlers[0].flush()
        os.close(descriptor)
    first, second = path.read_text().splitlines()
    assert first == "  (lines are missing here: No space left on device)"
    assert second.endswith("tests.handler: kept")


def test_a_fault_that_is_caused_again_and_again_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def fail(log: logging.Logger) -> None:
        try:
            raise ValueError("a bug")
        except ValueError:
            log.exception("failed on what came")

    with path.open("ab") as file, logger(LogHandler(file.fileno())) as log:
        for _ in range(LINES + 10):
            fail(log)
        log.warning("no fault")
        log.handlers[0].flush()
    said = path.read_text()
    assert said.count("failed on what came") == said.count("ValueError: a bug") == LINES
    assert "no fault" in said
    assert "  (10 more tracebacks of test_handler.py, line " in said


def test_after_a_while_a_fault_is_told_again_with_a_count() -> None:
    limit = FaultLimit()

    def admitted(created: float) -> str | None:
        record = logging.LogRecord("a", logging.ERROR, "f.py", 1, "%s", ("bug",), (None,) * 3)
        record.created = created
        record.exc_info = (ValueError, ValueError(), None)
        return record.getMessage() if limit.admits(record) else None

    said = [admitted(0.0) for _ in range(LINES + 2)]
    assert said == ["bug"] * LINES + [None] * 2
    assert admitted(PERIOD) == "bug (and 2 times before, not logged)"
    assert admitted(PERIOD) == "bug"
    assert limit.rest() == []


def test_no_text_is_too_strange_to_be_logged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as file, logger(LogHandler(file.fileno())) as log:
        log.warning("it said %s", "half \ud800\n")
        log.handlers[0].flush()
    assert path.read_text().endswith("it said half \\ud800\\n\n")

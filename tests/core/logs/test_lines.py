"""A line of the log that begins with a time is one of ours."""

from __future__ import annotations

import logging
import re
import sys

from aqueduct_core.logs.lines import LONGEST_LINE, LONGEST_TRACE, LineFormatter

BEGINS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ")


def formatted(message: str, *values: object, error: BaseException | None = None) -> list[str]:
    trace = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("a.b", logging.INFO, "file", 1, message, values, trace)
    return LineFormatter().format(record).split("\n")


def test_a_record_is_one_line_whatever_it_quotes() -> None:
    forged = "bye\n2030-01-01 00:00:00,000 INFO aqueduct: all is well\x1b[8m"
    (line,) = formatted("closed: %s", forged)
    assert BEGINS.match(line)
    assert line.endswith(
        r"a.b: closed: bye\n2030-01-01 00:00:00,000 INFO aqueduct: all is well\x1b[8m"
    )


def test_a_line_is_bounded() -> None:
    (line,) = formatted("%s", "x" * 10**6)
    assert len(line) == LONGEST_LINE


def test_no_line_of_a_traceback_is_taken_for_a_record() -> None:
    try:
        raise ValueError("bad\n2030-01-01 00:00:00,000 INFO aqueduct: all is well\x9b1m")
    except ValueError:
        lines = formatted("it failed", error=sys.exc_info()[1])
    assert len([line for line in lines if BEGINS.match(line)]) == 1
    assert lines[1].startswith("  Traceback")
    assert lines[-1] == r"  2030-01-01 00:00:00,000 INFO aqueduct: all is well\x9b1m"


def test_a_traceback_is_bounded() -> None:
    try:
        raise ValueError("\n" * 10**5)
    except ValueError:
        lines = formatted("it failed", error=sys.exc_info()[1])
    assert len(lines) == 1 + LONGEST_TRACE + 1

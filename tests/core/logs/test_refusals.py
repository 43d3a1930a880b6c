"""Strangers say how often something is refused; they do not say how long the log gets."""

from __future__ import annotations

import logging

import pytest

from aqueduct_core.logs.refusals import LINES, PERIOD, RefusalLog
from tests.core.logs.periods import Periods

LOGGER = logging.getLogger("tests.refusals")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages, _ = list(caplog.messages), caplog.clear()
    return messages


def test_the_first_ones_have_a_line_each_and_the_others_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    periods = Periods()
    log = RefusalLog(LOGGER, periods)
    for i in range(1_000):
        log.add("tokens", "%d refused", i)
        log.add("garbage", "garbage", count=7)
    lines = told(caplog)
    assert [line for line in lines if "refused" in line] == [f"{i} refused" for i in range(LINES)]
    assert lines.count("garbage") == LINES
    assert [period.seconds for period in periods.all] == [PERIOD]
    periods.end()
    assert told(caplog) == [
        f"tokens: {1_000 - LINES} more in the last 10 s, without a line each",
        f"garbage: {(1_000 - LINES) * 7} more in the last 10 s, without a line each",
    ]


def test_a_new_period_begins_with_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    periods = Periods()
    log = RefusalLog(LOGGER, periods)
    log.add("tokens", "one")
    periods.end()
    assert told(caplog) == ["one"]
    log.add("tokens", "two")
    assert (told(caplog), len(periods.all)) == (["two"], 2)


def test_what_was_left_out_is_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    periods = Periods()
    log = RefusalLog(LOGGER, periods)
    for _ in range(LINES + 3):
        log.add("tokens", "refused")
    log.close()
    log.close()
    assert periods.all[0].cancelled
    assert told(caplog)[LINES:] == ["tokens: 3 more in the last 10 s, without a line each"]

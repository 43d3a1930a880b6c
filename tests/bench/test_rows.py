"""Rows of a query, counted from reports as Spark makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.rows import QueryFailed, RowCount, RowWatch


def report(batch: int, rows: int) -> dict[str, Any]:
    return {"batchId": batch, "numInputRows": rows}


class FakeQuery:
    def __init__(self) -> None:
        self.recentProgress: list[Any] = []
        self.isActive = True
        self.failure: Exception | None = None

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        return self.failure


def test_an_idle_trigger_takes_no_rows_from_the_batch_of_its_id() -> None:
    count = RowCount()
    for each in (report(0, 10), report(1, 0), report(1, 0), report(1, 7), report(2, 0)):
        count.take(each)
    assert (count.total, count.batches, count.newest) == (17, 2, 2)


def test_a_report_that_is_seen_again_counts_once_and_in_any_order() -> None:
    count = RowCount()
    for each in (report(1, 7), report(0, 10), report(1, 0), report(1, 7), report(0, 10)):
        count.take(each)
    assert count.total == 17


def test_before_the_first_report_there_are_no_rows() -> None:
    watch = RowWatch(FakeQuery())
    assert (watch.rows(), watch.batches) == (0, 0)


@pytest.mark.parametrize("looks", [1, 2, 3, 6])
def test_no_row_is_lost_however_seldom_one_looks(looks: int) -> None:
    """Among them: an idle report and then a batch of that id, followed by one of the next id,
    between two looks."""
    reports = [report(0, 5), report(1, 0), report(1, 3), report(2, 0), report(2, 4), report(3, 0)]
    query = FakeQuery()
    watch = RowWatch(query)
    for number, each in enumerate(reports):
        query.recentProgress.append(each)
        if (number + 1) % looks == 0 or each is reports[-1]:
            watch.rows()
    assert (watch.rows(), watch.batches) == (12, 3)


def test_a_look_after_an_idle_report_finds_the_batch_that_it_hid() -> None:
    query = FakeQuery()
    watch = RowWatch(query)
    query.recentProgress.append(report(1, 0))
    assert watch.rows() == 0
    query.recentProgress += [report(1, 9), report(2, 0)]
    assert watch.rows() == 9


def test_a_query_that_failed_is_an_error_with_its_words() -> None:
    query = FakeQuery()
    query.isActive, query.failure = False, ValueError("[AQUEDUCT_SPOOL.IO] the disk is gone")
    with pytest.raises(QueryFailed, match="the disk is gone"):
        RowWatch(query).rows()


def test_a_query_that_was_stopped_makes_no_rows_any_more() -> None:
    query = FakeQuery()
    query.isActive = False
    with pytest.raises(QueryFailed, match="stopped"):
        RowWatch(query).rows()

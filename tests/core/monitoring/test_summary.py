"""What several intakes are together."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec import structs

from aqueduct_core.flight.activity import CursorLag, Distribution, HistorySample
from aqueduct_core.monitoring.summary import RateSample, Summary
from tests.core.monitoring.statuses import activity, status

NOW = 1_800_000_000.0


def history(step: int, *, late: float = 0.0) -> tuple[HistorySample, ...]:
    return tuple(
        HistorySample(NOW + late + 2 * n, step * n, 10 * step * n, 0, 0, 0, n, 1, 1)
        for n in range(6)
    )


def test_one_intake_is_as_its_status_says() -> None:
    found = Summary.of([status(activity=activity(history=history(100)))])
    assert (found.messages, found.bytes) == (50, 500)
    assert (found.behind, found.oldest) == (500, 1.5)
    assert (found.stored, found.limit) == (100_000, 1_000_000)
    assert (found.repeated, found.lost) == (3, 3)
    assert found.acked == float("inf")
    assert found.history[0] == RateSample(NOW + 2, 50.0, 500.0, 1)


def test_cursors_of_one_name_are_one_query_and_rates_are_added() -> None:
    lag = CursorLag("orders", "messages", 40, 400, 9.0, held=False)
    events = CursorLag("orders", "events", 3, 30, 1.0, held=True)
    slow = Distribution((0.01, 0.1), (10, 0, 0), 0.5)
    other = status(
        lag=(lag, events),
        activity=activity(history=history(300, late=0.3), ack_seconds=slow),
    )
    found = Summary.of([status(activity=activity(history=history(100))), other])
    assert found.messages == pytest.approx(200)
    assert [(each.view, each.records) for each in found.cursors] == [
        ("messages", 540),
        ("events", 3),
    ]
    together = found.cursors[0]
    assert (together.bytes, together.seconds, together.held) == (50_400, 9.0, False)
    assert found.behind == 540
    assert found.acked == 0.1
    assert [each.messages for each in found.history] == pytest.approx([200.0] * 5)
    assert [each.lag for each in found.history] == [2, 4, 6, 8, 10]


def test_every_intake_counts_once_at_every_moment_whenever_it_takes_its_samples() -> None:
    """Samples come a little more than two seconds apart: none may be missing anywhere."""
    drifting = [
        tuple(
            HistorySample(NOW + begin + step * n, round(100 * step * n), 0, 0, 0, 9, 7, 1, 1)
            for n in range(int(480 / step))
        )
        for begin, step in ((0.1, 2.02), (1.3, 2.4), (0.7, 1.9))
    ]
    found = Summary.of([status(activity=activity(history=each)) for each in drifting]).history
    whole = [each for each in found if each.at > NOW + 4]
    assert len(whole) > 200
    assert [each.lag for each in whole] == [21] * len(whole)
    assert [each.messages for each in whole] == pytest.approx([300.0] * len(whole), rel=0.02)
    assert [b.at - a.at for a, b in pairwise(found)] == [2] * (len(found) - 1)


def test_an_intake_that_takes_no_samples_any_more_stops_no_other() -> None:
    stopped, going = history(100)[:3], history(100)
    later = tuple(structs.replace(each, at=each.at + 20) for each in going)
    both = [status(activity=activity(history=each)) for each in (stopped, (*going, *later))]
    assert Summary.of(both).history[-1].at == NOW + 20


def test_nothing_is_nothing() -> None:
    found = Summary.of([])
    assert (found.messages, found.behind, found.limit, found.acked) == (0, 0, 0, None)
    silent = Summary.of([status(activity=None, lag=None, use=None, oldest=None)])
    assert silent.connections == 1
    assert silent.history == ()


def test_before_any_query_all_that_is_stored_is_not_read() -> None:
    nobody = status(lag=(), activity=activity(history=history(100)))
    found = Summary.of([nobody, nobody])
    assert (found.read, found.behind) == (False, 10)
    assert Summary.of([status()]).read

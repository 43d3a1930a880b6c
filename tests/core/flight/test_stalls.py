"""What is told of a state in which nothing moves, and when: times are arguments."""

from __future__ import annotations

import logging

import pytest

from aqueduct_core.errors import AuthFailed, ConnectFailed
from aqueduct_core.flight.stalls import KINDS, RESTLESS, STEADY, Stall, StallLog, lasted

DOWN = Stall.of(
    "endpoint-down",
    "endpoint aqueduct://h:1",
    ConnectFailed("REFUSED", "nobody listens at h:1", "Start it"),
)
REFUSES = Stall.of(
    "endpoint-refuses",
    "endpoint aqueduct://h:1",
    AuthFailed("REJECTED", "the token is not accepted", "Set auth.tokenFile"),
)
NOBODY = Stall.of("no-producer", "listener h:2", address="h:2")


def texts(log: StallLog, now: float, *stalls: Stall) -> list[str]:
    return [line.text for line in log.observe(stalls, now)]


def test_a_stall_has_one_line_when_it_lasts_and_one_when_it_is_over() -> None:
    log = StallLog()
    assert texts(log, 10.0, DOWN) == []
    assert texts(log, 12.0, DOWN) == [f"waiting for 2 s: {DOWN}"]
    assert [texts(log, 13.0 + i, DOWN) for i in range(20)] == [[]] * 20
    assert texts(log, 52.0) == ["endpoint aqueduct://h:1 is connected again, after 42 s"]
    assert texts(log, 53.0) == []


def test_what_is_short_is_told_by_no_line() -> None:
    log = StallLog()
    assert texts(log, 10.0, DOWN) + texts(log, 10.5) == []
    assert log.current(11.0) == ()


def test_a_stall_is_named_with_cause_and_remedy_as_an_error_is() -> None:
    assert str(DOWN).startswith(
        "[AQUEDUCT_CONNECT.REFUSED] endpoint aqueduct://h:1 is not connected: "
        "nobody listens at h:1. See that it runs, and that host and port are right; it is dialled "
        "again until it answers. "
    )
    assert str(REFUSES).startswith("[AQUEDUCT_AUTH.REJECTED]")
    assert "Set auth.tokenFile; it is dialled again" in str(REFUSES)


def test_what_is_normal_is_information_once_and_ends_no_query() -> None:
    log = StallLog()
    log.observe([NOBODY], 0.0)
    (line,) = log.observe([NOBODY], 5.0)
    assert line.level == logging.INFO
    assert not line.text.startswith("[")
    assert texts(log, 6.0) == ["listener h:2 has its first producer, after 6 s"]
    assert texts(log, 100.0, NOBODY) + texts(log, 200.0, NOBODY) == []
    assert log.overdue(300.0, ("stallTimeout", 1.0), ("refusalTimeout", 1.0)) is None


def test_another_trouble_of_the_same_subject_has_a_line_and_one_end() -> None:
    log = StallLog()
    log.observe([DOWN], 0.0)
    assert len(texts(log, 2.0, DOWN)) == 1
    assert texts(log, 3.0, REFUSES) == [f"waiting for 3 s: {REFUSES}"]
    assert texts(log, 4.0, DOWN) + texts(log, 5.0, REFUSES) == []
    assert texts(log, 9.0) == ["endpoint aqueduct://h:1 is connected again, after 9 s"]


def test_what_comes_and_goes_has_no_line_each_time() -> None:
    log = StallLog()
    told = list[str]()
    for round_ in range(10):
        at = 10.0 * round_
        for second in range(8):
            told += texts(log, at + second, DOWN)
        told += texts(log, at + 8)
    assert len(told) == 4  # the first time, and once when that was forgotten
    log = StallLog()
    for at in (0.0, 3.0):
        log.observe([DOWN], at)
    log.observe([], 4.0)
    log.observe([DOWN], 10.0)
    assert texts(log, 10.0 + STEADY - 1, DOWN) == []
    assert len(texts(log, 10.0 + STEADY, DOWN)) == 1


def test_what_went_long_ago_is_told_anew() -> None:
    log = StallLog()
    log.observe([DOWN], 0.0)
    assert texts(log, 2.0, DOWN) != []
    log.observe([], 3.0)
    log.observe([], 4.0 + RESTLESS)
    log.observe([DOWN], 5.0 + RESTLESS)
    assert texts(log, 7.0 + RESTLESS, DOWN) != []


def test_how_long_it_is_by_whoever_knows_longer() -> None:
    """A query that comes later learns it from the status of its intake."""
    log = StallLog()
    known = Stall.from_json({**DOWN.to_json(), "seconds": 100.0})
    assert texts(log, 5.0, known) == [f"waiting for 1 min 40 s: {DOWN}"]
    assert [s.seconds for s in log.reported(6.0)] == [101.0]


def test_strangers_who_are_refused_end_no_query() -> None:
    log = StallLog()
    log.observe([Stall.of("producers-refused", "l", "no token", address="h:1", count=3)], 0.0)
    assert log.overdue(300.0, ("stallTimeout", 1.0), ("refusalTimeout", 1.0)) is None


@pytest.mark.parametrize(
    ("stall", "wait", "refusal", "named"),
    [
        (DOWN, None, 5.0, None),
        (DOWN, 60.0, 5.0, "'stallTimeout' is 60s"),
        (REFUSES, None, None, None),
        (REFUSES, 5.0, 60.0, "'refusalTimeout' is 60s"),
    ],
)
def test_a_limit_makes_an_error_of_it(
    stall: Stall, wait: float | None, refusal: float | None, named: str | None
) -> None:
    log = StallLog()
    log.observe([stall], 0.0)
    limits = ("stallTimeout", wait), ("refusalTimeout", refusal)
    assert log.overdue(59.0, *limits) is None
    error = log.overdue(60.0, *limits)
    if named is None:
        assert error is None
    else:
        assert error is not None
        assert stall.error is not None
        assert (error.name, error.remedy) == (stall.error.name, stall.remedy)
        assert f"(for 1 min, and {named})" in str(error)


def test_a_limit_counts_through_each_cause_of_the_same_wait() -> None:
    """Who does not answer yet, then not at all, then is refused by its host is waited for."""
    name = "endpoint aqueduct://h:1"
    silent, unknown = (
        Stall.of("endpoint-down", name, ConnectFailed(subclass, "why", ""))
        for subclass in ("NO_REPLY", "DNS")
    )
    log, limits = StallLog(), (("stallTimeout", 20.0), ("refusalTimeout", 5.0))
    log.observe([silent], 0.0)
    log.observe([unknown], 10.0)
    log.observe([DOWN], 15.0)
    assert log.overdue(19.0, *limits) is None
    error = log.overdue(20.0, *limits)
    assert error is not None
    assert "dialled again" not in str(error)  # not any more
    log.observe([REFUSES], 20.0)  # is told for its own time
    assert log.overdue(24.0, *limits) is None
    assert isinstance(log.overdue(25.0, *limits), AuthFailed)


def test_a_stall_of_a_newer_release_is_told_as_it_says() -> None:
    newer = Stall("moon-full", "intake 0", "the moon is full", "Wait", "NewError", "MOON")
    log = StallLog()
    log.observe([newer], 0.0)
    assert texts(log, 3.0, newer) == ["waiting for 3 s: the moon is full. Wait"]
    assert texts(log, 4.0) == ["intake 0 goes on again, after 4 s"]
    assert log.overdue(9.0, ("stallTimeout", 1.0), ("refusalTimeout", 1.0)) is None


def test_every_kind_is_told_soon_enough() -> None:
    assert all(kind.after <= 4.0 for kind in KINDS.values())


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (42.4, "42 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7_200, "2 h"),
        (7_260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_401, "1 d"),
    ],
)
def test_times_are_said_as_people_do(seconds: float, words: str) -> None:
    assert lasted(seconds) == words

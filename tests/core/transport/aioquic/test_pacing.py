"""Bursts are those of the library on a slow path, and larger on a fast one."""

from __future__ import annotations

import pytest
from aioquic.quic.recovery import QuicPacketPacer
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.aioquic.pacing import LEAST_BURST, MOST_BURST, BurstPacer

SIZE = 1_200


def pacer(window: int, round_trip: float) -> BurstPacer:
    made = BurstPacer(max_datagram_size=SIZE)
    made.update_rate(window, round_trip)
    made.update_bucket(1_000.0)
    return made


@pytest.mark.parametrize(
    ("packets", "milliseconds", "burst"),
    [
        (1_000, 100, LEAST_BURST),
        (1_000, 50, 20),
        (1_000, 20, 50),
        (1_000, 1, MOST_BURST),
        (40, 1, 10),
        (4, 100, 2),
    ],
)
def test_a_burst_is_what_the_path_carries_in_a_millisecond(
    packets: int, milliseconds: int, burst: int
) -> None:
    made = pacer(packets * SIZE, milliseconds / 1_000)
    assert made.allowance(1_000.0, 1_000) == pytest.approx(burst, abs=1)


@given(st.integers(2, 400), st.floats(0.05, 2.0))
def test_a_slow_path_has_the_bursts_of_the_library(packets: int, round_trip: float) -> None:
    made = pacer(packets * SIZE, max(round_trip, packets / 15_000))
    theirs = QuicPacketPacer(max_datagram_size=SIZE)
    theirs.update_rate(packets * SIZE, max(round_trip, packets / 15_000))
    assert made.bucket_max == theirs.bucket_max


def test_nothing_is_paced_before_a_round_trip_was_measured() -> None:
    made = BurstPacer(max_datagram_size=SIZE)
    assert made.next_send_time(1.0) is None
    assert made.allowance(1.0, 100) == 100
    made.spend(100)
    assert made.allowance(1.0, 100) == 100


@given(st.integers(2, 2_000), st.floats(0.001, 0.5), st.lists(st.floats(0.0, 0.1), max_size=20))
def test_a_run_is_let_go_as_its_packets_would_be(
    packets: int, round_trip: float, gaps: list[float]
) -> None:
    runs, singles = pacer(packets * SIZE, round_trip), pacer(packets * SIZE, round_trip)
    now = 1_000.0
    for gap in gaps:
        now += gap
        allowed = runs.allowance(now, MOST_BURST)
        runs.spend(allowed)
        count = 0
        while count < MOST_BURST and singles.next_send_time(now) is None:
            singles.update_after_send(now)
            count += 1
        assert allowed == count
        assert runs.bucket_time == singles.bucket_time


def test_who_is_out_of_it_waits_for_half_a_burst() -> None:
    made = pacer(1_000 * SIZE, 0.02)
    made.spend(made.allowance(1_000.0, 1_000))
    at = made.next_send_time(1_000.0)
    assert at == 1_000.0 + made.bucket_max / 2
    assert made.allowance(at, 1_000) == pytest.approx(25, abs=1)

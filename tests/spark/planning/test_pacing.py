"""When batches are held back: a table walked."""

from __future__ import annotations

import pytest

from aqueduct_spark.planning.pacing import APART, BYTES, ROWS, BatchSpacing

MUCH = int(ROWS)


@pytest.mark.parametrize(
    ("taken", "rows", "size", "remaining"),
    [
        (0.25, 1, 100.0, 0.0),  # a single message
        (0.25, 250, 250_000.0, 0.0),  # a thousand a second
        (0.25, MUCH, 0.0, APART - 0.25),
        (0.25, MUCH // 4, 0.0, APART - 0.25),
        (0.25, MUCH // 4 - 1, 0.0, 0.0),
        (0.25, 10, BYTES / 4, APART - 0.25),
        (0.25, 10, BYTES / 5, 0.0),
        (APART, 2 * MUCH, 0.0, 0.0),  # the batch took as long
        (3.0, 9 * MUCH, 9 * BYTES, 0.0),
        (0.25, 0, 0.0, 0.0),
    ],
)
def test_what_came_in_during_a_batch_says_whether_the_next_one_waits(
    taken: float, rows: int, size: float, remaining: float
) -> None:
    pace = BatchSpacing().batch(100.0).seeing(rows, size, 100.0 + taken)
    assert pace.remaining(100.0 + taken) == pytest.approx(remaining)


def test_the_first_batch_does_not_wait() -> None:
    assert BatchSpacing().seeing(100 * MUCH, BYTES, 5.0).remaining(5.0) == 0.0


def test_waiting_ends_however_often_it_is_looked_at() -> None:
    pace = BatchSpacing().batch(0.0)
    looks = [tenth / 8 for tenth in range(2, 10)]
    left = []
    for now in looks:
        pace = pace.seeing(int(now * 2 * MUCH), 0.0, now)
        left.append(pace.remaining(now))
    assert left == [APART - now if now < APART else 0.0 for now in looks]


def test_a_trigger_of_a_second_keeps_its_times_under_load() -> None:
    """Whatever the waking up after a wait costs, and however late a single plan was."""
    waking, late = 0.004, [0.02]
    pace = BatchSpacing().batch(late[0])
    for trigger in range(1, 300):
        look = trigger + 0.02 + 0.01 * (trigger % 2)
        pace = pace.seeing(MUCH, BYTES, look)
        wait = pace.remaining(look)
        planned = 7.6 if trigger == 7 else look + (wait + waking if wait else 0.0)
        pace = pace.batch(planned)
        late.append(planned - trigger)
    assert max(late[1:7] + late[14:]) < 0.05


def test_rows_after_a_quiet_while_do_not_wait() -> None:
    pace = BatchSpacing().batch(0.0).seeing(0, 0.0, 0.3).seeing(0, 0.0, 10.0).seeing(1, 100.0, 10.1)
    assert pace.remaining(10.1) == 0.0


def test_each_batch_is_judged_anew() -> None:
    loaded = BatchSpacing().batch(0.0).seeing(MUCH, 0.0, 0.2)
    assert loaded.remaining(0.2)
    assert loaded.batch(1.0).seeing(3, 0.0, 1.2).remaining(1.2) == 0.0

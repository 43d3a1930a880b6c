"""How far cursors are behind, in rows, bytes and time."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.aqueduct.rows import ROWS, AqueductSource
from aqueduct_core.intake.control.cursor_lag import KEPT, CursorLags
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000


def stored(b: Bench, seconds: int, count: int = 10) -> None:
    peer, source = Peer(), AqueductSource("a", "p", "s", 8)
    batch = run([b"x" * 100] * count)
    b.groups.add(PendingBatch(peer, batch, source, False, NOW + seconds * 1_000_000))
    b.settle()


def status(b: Bench) -> IntakeStatus:
    ends, starts = b.spool.ends(), b.spool.starts()
    return IntakeStatus(
        id=b.spool.id,
        epoch=1,
        ends=tuple(ends[:1]),
        starts=tuple(starts[:1]),
        committed={"fast": (15,), "slow": (0,), "done": (20,)},
        events=(starts[1], ends[1]),
        events_committed={"log": 0},
        held=("slow",),
        listen="",
        flight="",
        pid=1,
        bytes=b.spool.bytes,
    )


def test_lag_is_told_in_rows_bytes_and_the_age_of_the_oldest(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        stored(b, 0)
        stored(b, 30)
        b.groups.record(PendingEvent(Peer(), LoggedEvent("connected", NOW + 40_000_000, "s")))
        b.settle()
        lags = CursorLags(b.spool, ROWS)
        found = {lag.cursor: lag for lag in lags.of(status(b), NOW / 1e6 + 50)}
        use = lags.use(status(b), 1 << 30)
    assert {name: lag.records for name, lag in found.items()} == {
        "slow": 20, "fast": 5, "log": 1, "done": 0}  # fmt: skip
    assert found["slow"].seconds == pytest.approx(50)
    assert found["fast"].seconds == pytest.approx(20)
    assert found["log"].seconds == pytest.approx(10)
    assert found["done"].seconds == found["done"].bytes == 0
    assert found["slow"].held
    assert not found["fast"].held
    assert found["slow"].bytes == pytest.approx(4 * found["fast"].bytes, abs=4)
    assert 0 < found["slow"].bytes <= use.bytes
    assert found["log"].view == "events"
    assert (use.records, use.segments, use.room) == (21, 1, (1 << 30) - use.bytes)


def test_the_farthest_behind_comes_first_and_many_cursors_cost_no_more_reads(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as b:
        stored(b, 0, 2 * KEPT)
        many = {f"c{n:03}": (n,) for n in range(40)}
        lags = CursorLags(b.spool, ROWS)
        found = lags.of(structs.replace(status(b), committed=many, events_committed={}), NOW / 1e6)
        assert [lag.cursor for lag in found] == sorted(many)
        for at in range(2 * KEPT):
            lags.of(structs.replace(status(b), committed={"c": (at,)}), NOW / 1e6)
        assert len(lags._times) <= KEPT

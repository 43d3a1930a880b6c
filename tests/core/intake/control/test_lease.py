from __future__ import annotations

from aqueduct_core.intake.control.lease import Lease


def checks(lease: Lease, start: float, stop: float) -> float | None:
    """When a check every interval finds the lease run out; None: not before ``stop``."""
    now = start
    while now < stop:
        now += lease.interval
        if lease.check(now):
            return now
    return None


def test_it_runs_out_after_its_seconds() -> None:
    lease = Lease(8.0, 100.0)
    out = checks(lease, 100.0, 200.0)
    assert out is not None
    assert 108.0 <= out <= 108.0 + lease.interval


def test_a_renewal_starts_it_anew() -> None:
    lease = Lease(8.0, 100.0)
    assert checks(lease, 100.0, 107.0) is None
    lease.renew(107.0)
    assert checks(lease, 107.0, 114.0) is None
    lease.renew(114.0, 20.0)
    lease.renew(115.0)
    assert checks(lease, 114.0, 133.0) is None


def test_without_seconds_it_never_runs_out() -> None:
    lease = Lease(None, 0.0)
    lease.renew(1.0)
    assert checks(lease, 0.0, 1000.0) is None


def test_a_process_that_was_stopped_gets_a_fresh_lease() -> None:
    lease = Lease(4.0, 0.0)
    assert not lease.check(1.0)
    assert not lease.check(31.0)
    out = checks(lease, 31.0, 50.0)
    assert out is not None
    assert out >= 35.0

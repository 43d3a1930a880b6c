"""Many seeds at once, in this process or several; and the seeds that failed."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator
from typing import NamedTuple

from tests.relay_simulation.world import run_relay_seed

_CHUNK = 50


class RelayTotals(NamedTuple):
    """``failures``: seeds, each with the last line of its traceback."""

    seeds: int = 0
    objects: int = 0
    holes: int = 0
    failures: tuple[tuple[int, str], ...] = ()

    def plus(self, other: RelayTotals) -> RelayTotals:
        return RelayTotals(*(a + b for a, b in zip(self, other, strict=True)))


def run_relay_seeds(first: int, count: int) -> RelayTotals:
    """Run ``count`` seeds from ``first`` on, one after the other."""
    totals = RelayTotals()
    for seed in range(first, first + count):
        try:
            run = run_relay_seed(seed)
        except Exception as error:
            reason = traceback.format_exception_only(error)[-1].strip()
            totals = totals.plus(RelayTotals(1, failures=((seed, reason),)))
        else:
            totals = totals.plus(RelayTotals(1, run.objects, run.holes))
    return totals


def in_parts(first: int, count: int, jobs: int) -> Iterator[RelayTotals]:
    """The same in ``jobs`` processes, part by part."""
    chunks = [
        (start, min(_CHUNK, first + count - start)) for start in range(first, first + count, _CHUNK)
    ]
    if jobs < 2 or len(chunks) < 2:
        yield from (run_relay_seeds(*chunk) for chunk in chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _run_chunk(chunk: tuple[int, int]) -> RelayTotals:
    return run_relay_seeds(*chunk)

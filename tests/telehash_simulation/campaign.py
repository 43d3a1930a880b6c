"""Many seeds, in several processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.telehash_simulation.world import run_line_seed

SEEDS = Path(__file__).parent / "seeds.txt"
"""Those that failed once: one a line, with what it was."""
PART = 100


class LineTotals(NamedTuple):
    seeds: int = 0
    packets: int = 0
    closed: int = 0
    lines_lost: int = 0
    failures: tuple[tuple[int, str], ...] = ()

    def plus(self, other: LineTotals) -> LineTotals:
        return LineTotals(
            self.seeds + other.seeds,
            self.packets + other.packets,
            self.closed + other.closed,
            self.lines_lost + other.lines_lost,
            self.failures + other.failures,
        )


def kept_seeds() -> list[int]:
    lines = SEEDS.read_text("utf-8").splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def run_line_seeds(first: int, count: int) -> LineTotals:
    totals = LineTotals()
    for seed in range(first, first + count):
        try:
            run = run_line_seed(seed)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            totals = totals.plus(LineTotals(1, failures=((seed, reason),)))
        else:
            totals = totals.plus(LineTotals(1, *run))
    return totals


def in_line_parts(first: int, count: int, jobs: int) -> Iterator[LineTotals]:
    """The totals of each part, as they come."""
    parts = [(at, min(PART, first + count - at)) for at in range(first, first + count, PART)]
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_line_seeds, *zip(*parts, strict=True))

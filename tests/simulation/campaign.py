"""Many seeds at once: in this process or several, with totals and the seeds that failed."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.simulation.scenario import GENERATION
from tests.simulation.world import run_seed

PERMANENT = Path(__file__).with_name("seeds.txt")
_CHUNK = 50


class Failure(NamedTuple):
    seed: int
    reason: str
    """The last line of the traceback: the promise, or the exception."""


class Totals(NamedTuple):
    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    messages: int = 0
    deliveries: int = 0
    channels: int = 0
    failures: tuple[Failure, ...] = ()

    def plus(self, other: Totals) -> Totals:
        return Totals(*(a + b for a, b in zip(self, other, strict=True)))


def run_seeds(first: int, count: int) -> Totals:
    """Run ``count`` seeds from ``first`` on, one after the other."""
    totals = Totals()
    for seed in range(first, first + count):
        try:
            totals = totals.plus(Totals(1, *run_seed(seed)))
        except Exception as error:
            reason = traceback.format_exception_only(error)[-1].strip()
            totals = totals.plus(Totals(1, failures=(Failure(seed, reason),)))
    return totals


def campaign(
    first: int, count: int, jobs: int, progress: Callable[[Totals], None] = lambda totals: None
) -> tuple[Totals, float]:
    """Run ``count`` seeds in ``jobs`` processes; the totals and the seconds of wall time."""
    began = time.monotonic()
    totals = Totals()
    for part in _parts(first, count, jobs):
        totals = totals.plus(part)
        progress(totals)
    return totals, time.monotonic() - began


def _parts(first: int, count: int, jobs: int) -> Iterator[Totals]:
    chunks = [
        (start, min(_CHUNK, first + count - start)) for start in range(first, first + count, _CHUNK)
    ]
    if jobs < 2 or len(chunks) < 2:
        yield from (run_seeds(*chunk) for chunk in chunks)
        return
    # spawned, not forked: nothing of the parent's state is in a seed
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _run_chunk(chunk: tuple[int, int]) -> Totals:
    return run_seeds(*chunk)


def permanent_seeds() -> list[tuple[int, str]]:
    """The seeds of this generation that once failed, each with what it showed.

    Lines of ``seeds.txt``: generation, seed, and behind ``#`` the find.
    """
    found = []
    for line in PERMANENT.read_text("utf-8").splitlines():
        numbers, _, what = line.partition("#")
        if numbers.strip():
            generation, seed = map(int, numbers.split())
            if generation == GENERATION:
                found.append((seed, what.strip()))
    return found

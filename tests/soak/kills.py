"""The kill loop: every process of the pipeline, every way to be hit, again and again under load.

After each hit the pipeline has to come back by itself, at most with a driver that is started
again, and the ledger of all producers has to balance: nothing acked is lost, nothing is there
twice, every ordered channel is in order.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from aqueduct_jobs.demo.ledger import total
from tests.faults.ledger import Verdict
from tests.soak.measures import Recorder, draw, lives_table, table
from tests.soak.progress import Progress
from tests.soak.world import RECOVERY_SECONDS, World, stop, world
from tests.support.waiting import alive, ended, wait_until

TARGETS = ("intake", "driver", "planner", "worker", "executor")
SIGNALS = ("SIGKILL", "SIGTERM", "SIGSTOP")
HALT_SECONDS = 20.0
CALM_SECONDS = 2.0
"""Load between two hits, so that each meets a pipeline at work."""


@dataclass(frozen=True)
class Hit:
    target: str
    signal: str
    seconds: float
    restarts: int
    errors: tuple[str, ...]
    lines: tuple[Verdict, ...]

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return (
            sum(line.lost_after_ack for line in self.lines),
            sum(line.duplicates for line in self.lines),
            sum(line.order_breaks for line in self.lines),
            sum(line.strangers for line in self.lines),
        )

    @property
    def good(self) -> bool:
        return not any(self.numbers)


def run(
    home: Path,
    progress: Progress,
    *,
    bounces: int,
    seconds: float,
    master: str = "local-cluster[2,1,1024]",
    targets: tuple[str, ...] = TARGETS,
    signals: tuple[str, ...] = SIGNALS,
    halt: float = HALT_SECONDS,
    producers: int = 3,
    rate: float = 1200.0,
    size: int = 200,
    make: Callable[..., AbstractContextManager[World]] = world,
    title: str = "Kill loop",
) -> tuple[bool, str]:
    """Whether all was well, and the report as Markdown.

    ``bounces`` hits of each kind; with ``seconds`` round after round until they are over instead.
    ``make`` makes the pipeline.
    """
    hits: list[Hit] = []
    failure = ""
    limit = time.monotonic() + seconds if seconds else None
    with make(home, master=master, producers=producers, rate=rate, size=size) as at_work:
        progress.say(f"starting {master}, {producers} producers, {rate:.0f} messages/s")
        at_work.start()
        followed = ("intake", "planner", "driver")
        with Recorder(lambda: {kind: at_work.pids(kind) for kind in followed}) as recorder:
            plan = _plan(targets, signals, bounces, limit)
            count = None if limit else len(targets) * len(signals) * bounces
            try:
                for target, number in plan:
                    recorder.mark(f"{target} {number}")
                    hit = _hit(at_work, target, number, halt)
                    hits.append(hit)
                    progress.step(len(hits), count, _story(hit))
                    if not hit.good:
                        break
                last = at_work.finish()
            except AssertionError as error:
                failure = str(error)
                progress.say(f"failed: {failure}")
                last = at_work.check_softly()
        report = _report(title, hits, last, failure, recorder)
        draw(recorder, home / f"{home.name}.png", title)
    left = [pid for pid in [at_work.intake()] if pid]
    good = not failure and not left and all(h.good for h in hits) and all(v.good for v in last)
    if left:
        report += f"\nLeft running: {left}\n"
    return good, report


def _plan(
    targets: tuple[str, ...], signals: tuple[str, ...], bounces: int, limit: float | None
) -> Iterator[tuple[str, str]]:
    kinds = [(target, number) for target in targets for number in signals]
    rounds = itertools.count() if limit else range(bounces)
    for _ in rounds:
        for kind in kinds:
            if limit and time.monotonic() > limit:
                return
            yield kind


def _hit(at_work: World, target: str, number: str, halt: float) -> Hit:
    threading.Event().wait(CALM_SECONDS)
    restarts, errors = at_work.restarts, len(at_work.errors)

    def find() -> int:
        at_work.watch()
        return next(iter(at_work.pids(target)), 0)

    pid = wait_until(find, RECOVERY_SECONDS, f"a process {target}")
    try:
        if number == "SIGSTOP":
            stop(pid, halt)
        else:
            os.kill(pid, signal.Signals[number])
            ended(pid, 60.0)
    except ProcessLookupError:  # a worker that Spark ended meanwhile
        assert not alive(pid)
    seconds = at_work.await_progress(RECOVERY_SECONDS)
    lines = tuple(at_work.check())
    return Hit(
        target,
        number,
        seconds,
        at_work.restarts - restarts,
        tuple(at_work.errors[errors:]),
        lines,
    )


def _story(hit: Hit) -> str:
    lost, twice, breaks, strangers = hit.numbers
    rows = sum(line.rows for line in hit.lines)
    again = f", driver started again: {'; '.join(hit.errors)}" if hit.restarts else ""
    return (
        f"{hit.target} {hit.signal}: back in {hit.seconds:.1f} s, rows={rows} lost_after_ack={lost}"
        f" duplicates={twice} order_breaks={breaks} strangers={strangers}{again}"
    )


def _report(
    title: str, hits: list[Hit], last: list[Verdict], failure: str, recorder: Recorder
) -> str:
    rows = []
    for kind in dict.fromkeys((hit.target, hit.signal) for hit in hits):
        mine = [hit for hit in hits if (hit.target, hit.signal) == kind]
        sums = [sum(column) for column in zip(*(hit.numbers for hit in mine), strict=True)]
        times = sorted(hit.seconds for hit in mine)
        restarts = sum(hit.restarts for hit in mine)
        rows.append((*kind, len(mine), *sums, times[len(times) // 2], times[-1], restarts))
    header = ("process", "signal", "hits", "lost_after_ack", "duplicates", "order_breaks",
              "strangers", "median s", "longest s", "drivers restarted")  # fmt: skip
    parts = [f"## {title}\n", table(header, rows), "\n### The books at the end\n"]
    parts += ["```", *map(str, (*last, total(last))), "```"]
    errors = [error for hit in hits for error in hit.errors]
    if errors:
        parts += ["\n### What ended queries\n"]
        parts += [f"- {errors.count(error)} × {error}" for error in dict.fromkeys(errors)]
    if failure:
        parts += [f"\n**Failed**: {failure}"]
    parts += ["\n### Memory and file descriptors\n", lives_table(recorder, ("intake", "planner"))]
    return "\n".join(parts) + "\n"

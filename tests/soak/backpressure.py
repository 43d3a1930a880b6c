"""Back-pressure: a consumer a hundred times slower than three producers, then it drains.

A query whose batches take their time reads from an intake with a small spool. The spool has to
stay at its cap, producers have to wait, the memory of intake and planner has to stay flat, and
when the consumer becomes quick again everything comes, once.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from aqueduct_jobs.demo.ledger import total
from tests.faults.ledger import Verdict
from tests.soak.measures import Recorder, draw, lives_table, table
from tests.soak.progress import Progress
from tests.soak.world import World, world

PRODUCERS = 3
RATE = 9_000.0
SIZE = 1_000
SLOWER = 100
CAP = 64_000_000
DRAIN_SECONDS = 600.0
GROWTH = 1.35
"""Memory at last over memory when the spool had become full: more is no plateau."""


def run(home: Path, progress: Progress, *, seconds: float) -> tuple[bool, str]:
    """Whether all was well, and the report as Markdown."""
    with world(home, master="local[2]", producers=PRODUCERS, rate=RATE, size=SIZE) as pressed:
        pressed.plan.options |= {
            "spoolMaxBytes": f"{CAP}b",
            "maxOffsetsPerTrigger": str(int(RATE / SLOWER)),
        }
        pressed.plan.trigger = {"processingTime": "1 second"}
        progress.say(f"{PRODUCERS} producers offer {RATE:.0f} messages/s of {SIZE} bytes")
        pressed.start_producing()
        who = {"intake": lambda: pressed.pids("intake"), "planner": lambda: pressed.pids("planner")}
        with Recorder(lambda: {kind: find() for kind, find in who.items()}) as recorder:
            full_at = _press(pressed, progress, recorder, seconds)
            pressing = recorder.now()
            recorder.mark("quick again")
            progress.say("the consumer is quick from now on")
            begun = time.monotonic()
            _quicken(pressed)
            last = pressed.finish(DRAIN_SECONDS)
            drained = time.monotonic() - begun
        draw(recorder, home / "backpressure.png", "A consumer 100 times slower than its producers")
        return _judge(recorder, last, full_at, pressing, drained)


def _press(pressed: World, progress: Progress, recorder: Recorder, seconds: float) -> float:
    """The slow phase; seconds after which the spool was full."""
    full_at = 0.0
    limit = time.monotonic() + seconds
    said = 0.0
    while time.monotonic() < limit:
        pressed.watch()
        status = pressed.status()
        if status is not None:
            recorder.note("spool MB", status.bytes / 1e6)
            sent = sum(entry.sent for entry in pressed.entries())
            recorder.note("sent, thousand", sent / 1e3)
            if status.full and not full_at:
                full_at = recorder.now()
                progress.say(f"the spool is full after {full_at:.0f} s")
            if time.monotonic() - said > 30:
                said = time.monotonic()
                progress.say(
                    f"spool {status.bytes / 1e6:.0f} MB, sent {sent:,}, acked {pressed.acked():,}, "
                    f"rows {pressed.table.rows:,}"
                )
        threading.Event().wait(1.0)
    return full_at


def _quicken(pressed: World) -> None:
    """The same query again without its brakes, as an operator would do it."""
    pressed.driver.kill()
    pressed.plan.options.pop("maxOffsetsPerTrigger")
    pressed.plan.trigger = {}


def _judge(
    recorder: Recorder, last: list[Verdict], full_at: float, pressing: float, drained: float
) -> tuple[bool, str]:
    spool = [value for _, name, value in recorder.more if name == "spool MB"]
    memory = [
        sample.private / 1e6
        for sample in recorder.samples
        if sample.kind == "intake" and full_at < sample.at < pressing
    ]
    third = max(1, len(memory) // 3)
    early, late = memory[:third], memory[-third:]
    growth = (sum(late) / len(late)) / (sum(early) / len(early)) if memory else 0.0
    books = total(last)
    figures = [
        ("spool full after, s", full_at),
        ("spool at most, MB", max(spool, default=0.0)),
        ("cap, MB", CAP / 1e6),
        ("intake memory, first third of the pressure, MB", sum(early) / max(1, len(early))),
        ("intake memory, last third, MB", sum(late) / max(1, len(late))),
        ("intake memory at most, MB", max(memory, default=0.0)),
        ("sent", books.sent),
        ("drained in, s", drained),
    ]
    good = (
        bool(full_at)
        and 0 < growth < GROWTH
        and max(spool) < 2 * CAP / 1e6
        and all(verdict.good for verdict in last)
    )
    parts = ["## Back-pressure\n", table(("what", "value"), figures), "\n```"]
    parts += [*map(str, (*last, books)), "```\n", lives_table(recorder, ("intake", "planner"))]
    return good, "\n".join(parts) + "\n"

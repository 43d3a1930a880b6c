"""Which process runs where, before and after kills: local-cluster, and a standalone master with
two workers on addresses of their own."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

from aqueduct_jobs.demo.ledger import total
from tests.faults.cluster import Cluster, cluster
from tests.faults.places import Place, places
from tests.soak.progress import Progress
from tests.soak.world import RECOVERY_SECONDS, World, world
from tests.support.waiting import ended, wait_until

MASTERS = ("local-cluster[2,1,1024]", "standalone")


def run(home: Path, progress: Progress) -> tuple[bool, str]:
    """Whether all was well, and the report as Markdown."""
    parts = ["## Which process runs where\n"]
    good = True
    for master in MASTERS:
        folder = home / master.partition("[")[0]
        progress.say(f"starting {master}")
        with ExitStack() as stack:
            made = None
            if master == "standalone":
                made = stack.enter_context(cluster(folder / "cluster", "127.0.0.2", "127.0.0.3"))
            at_work = stack.enter_context(
                world(
                    folder / "query",
                    master=made.url if made else master,
                    producers=2,
                    rate=400.0,
                    size=100,
                )
            )
            at_work.start()
            stage = Stage(at_work, made)
            parts += [f"### {master}\n"]
            for title, act in (
                ("before", None),
                ("after kill -9 of the executor that launched the intake", stage.kill_executor),
                ("after kill -9 of the intake", stage.kill_intake),
            ):
                if act is not None:
                    act()
                    title += f" (rows again after {at_work.await_progress(RECOVERY_SECONDS):.1f} s)"
                progress.say(title)
                parts += [f"{title}:\n", "```", *map(str, stage.places()), "```\n"]
            books = at_work.finish()
            good = good and all(line.good for line in books)
            parts += ["```", str(total(books)), f"drivers started again: {at_work.restarts}", "```"]
    return good, "\n".join(parts) + "\n"


class Stage:
    """A query and the executors it runs on."""

    def __init__(self, at_work: World, made: Cluster | None) -> None:
        self._at_work = at_work
        self._made = made

    def executors(self) -> list[int]:
        """Both of them; waits for one that is being replaced."""

        def both() -> list[int] | None:
            if self._made is None:
                found = self._at_work.driver.executors()
            else:
                found = [pid for pids in self._made.executors().values() for pid in pids]
            return found if len(found) == 2 else None

        return wait_until(both, 90.0, "two executors")

    def places(self) -> list[Place]:
        driver = self._at_work.driver
        intakes = self._at_work.pids("intake")
        return places(driver.jvm, driver.planners(), self.executors(), intakes)

    def kill_executor(self) -> None:
        found = self.places()
        [intake] = [place for place in found if place.kind == "intake"]
        executors = [place for place in found if place.kind == "executor"]
        chosen = next((one for one in executors if one.place in intake.place), executors[0])
        _kill(chosen.pid)

    def kill_intake(self) -> None:
        _kill(self._at_work.intake())


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    ended(pid, 30.0)

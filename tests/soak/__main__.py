"""``make soak``: long runs that break things on purpose.

    python -m tests.soak [restarts|kills|bridge|backpressure|many|cluster …] [--seconds S]
                         [--bounces N] [--out DIR]

Each scenario prints its progress, writes a table to ``DIR/<scenario>.md`` and a picture beside
it. Exit code 0 only when the ledger of each balanced: lost_after_ack, duplicates and order_breaks
are 0, nothing was left running, and intakes that were killed came back in time.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from tests.soak import backpressure, bridge, cluster, kills, many, restarts
from tests.soak.progress import Progress

SCENARIOS = ("restarts", "kills", "bridge", "backpressure", "many", "cluster")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", default=[])
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="of the kill loop; 0: by bounces"
    )
    parser.add_argument("--bounces", type=int, default=5, help="hits of each kind")
    parser.add_argument("--halt", type=float, default=kills.HALT_SECONDS, help="s of a SIGSTOP")
    parser.add_argument("--pressure-seconds", type=float, default=300.0)
    parser.add_argument("--master", default="", help="of the kill loops")
    parser.add_argument("--targets", default="", help="of the kill loops: processes to hit")
    parser.add_argument("--signals", default=",".join(kills.SIGNALS))
    parser.add_argument("--out", type=Path, default=Path("soak-out"))
    options = parser.parse_args()
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {unknown[0]}: {', '.join(SCENARIOS)}")
    # ended like this, it ends what it has started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out: Path = options.out.resolve()
    worst = 0
    for name in options.scenarios or SCENARIOS:
        home = out / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        progress = Progress(name)
        good, report = _run(name, home, progress, options)
        (out / f"{name}.md").write_text(report)
        for picture in home.glob("*.png"):
            shutil.copy(picture, out / picture.name)
        print(report, flush=True)
        progress.say(f"{'good' if good else 'BAD'}; {out / f'{name}.md'}")
        worst = max(worst, 0 if good else 1)
    return worst


def _run(
    name: str, home: Path, progress: Progress, options: argparse.Namespace
) -> tuple[bool, str]:
    match name:
        case "kills" | "bridge":
            loop = {"kills": kills.run, "bridge": bridge.run}[name]
            chosen: dict[str, Any] = {"master": options.master} if options.master else {}
            if options.targets:
                chosen["targets"] = tuple(options.targets.split(","))
            return loop(
                home,
                progress,
                bounces=options.bounces,
                seconds=options.seconds,
                signals=tuple(options.signals.split(",")),
                halt=options.halt,
                **chosen,
            )
        case "restarts":
            return restarts.run(home, progress, bounces=options.bounces)
        case "backpressure":
            return backpressure.run(home, progress, seconds=options.pressure_seconds)
        case "many":
            return many.run(home, progress)
    return cluster.run(home, progress)


if __name__ == "__main__":
    sys.exit(main())

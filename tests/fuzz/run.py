"""Coverage-guided fuzzing: ``python -m tests.fuzz.run TARGET [seconds]``.

Needs atheris (the extra ``fuzz``). Reads and extends ``tests/fuzz/corpus/TARGET`` only with
``--keep``; without it new inputs go to a directory of their own. A find is written to
``artifacts/``: put it into the corpus when it is fixed, so that ``make test`` replays it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import CORPUS, TARGETS, target


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("seconds", type=int, nargs="?", default=60)
    parser.add_argument("--work", type=Path, help="where new inputs go; default: thrown away")
    parser.add_argument("--length", type=int, default=512, help="longest input in bytes")
    options = parser.parse_args(arguments)

    import atheris

    with atheris.instrument_imports(include=["aqueduct_core", "aqueduct_spark"]):
        run = target(options.target)

    artifacts = Path("artifacts")
    artifacts.mkdir(exist_ok=True)
    seeds = CORPUS / options.target
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        atheris.Setup(
            [
                sys.argv[0],
                str(work),
                *([str(seeds)] if seeds.is_dir() else []),
                f"-max_total_time={options.seconds}",
                f"-max_len={options.length}",
                "-timeout=10",
                "-rss_limit_mb=2048",
                f"-artifact_prefix={artifacts}/{options.target}-",
                "-print_final_stats=1",
            ],
            run,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])

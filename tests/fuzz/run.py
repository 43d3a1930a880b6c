"""Coverage-guided fuzzing: ``python -m tests.fuzz.run TARGET [SECONDS]``.

Needs atheris (the extra ``fuzz``; ``make fuzz`` installs it). Starts from the seeds and from
``tests/fuzz/corpus/TARGET``. New inputs are thrown away unless ``--work`` names a directory for
them; ``tests.fuzz.minimise`` takes the best of those into the corpus. A find is written to
``artifacts/``: it belongs into the corpus once it is fixed, so that ``make test`` replays it.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import CORPUS, TARGETS, target

_PACKAGES = ["aqueduct_core", "aqueduct_spark"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("seconds", type=int, nargs="?", default=60)
    parser.add_argument("--work", type=Path, help="where new inputs go; default: thrown away")
    parser.add_argument("--length", type=int, default=512, help="longest input in bytes")
    options = parser.parse_args(arguments)

    import atheris

    # whatever imports the project has to be imported in here
    with atheris.instrument_imports(include=_PACKAGES):
        run = target(options.target)
        seeds = importlib.import_module("tests.fuzz.seeds").seeds

    logging.getLogger("aqueduct_core").setLevel(logging.CRITICAL)
    corpus = CORPUS / options.target
    corpus.mkdir(parents=True, exist_ok=True)
    artifacts = Path("artifacts")
    artifacts.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch) / "work"
        start = Path(scratch) / "seeds"
        work.mkdir(parents=True, exist_ok=True)
        start.mkdir()
        for name, data in seeds(options.target):
            (start / name).write_bytes(data)
        task = [
            f"-max_total_time={options.seconds}",
            f"-max_len={options.length}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix={artifacts}/{options.target}-",
            *map(str, (work, start, corpus)),
        ]
        atheris.Setup([sys.argv[0], *task], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])

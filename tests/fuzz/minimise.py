"""A small corpus out of many inputs: ``python -m tests.fuzz.minimise TARGET DIRECTORY``.

Goes through the seeds, the corpus and the inputs of ``DIRECTORY``, smallest first, and keeps those
that take a step from line to line of the project that no smaller one takes, or take one twice, or
more often. What it keeps replaces ``tests/fuzz/corpus/TARGET``; the seeds are replayed anyway and
are not kept.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

from tests.fuzz.seeds import seeds
from tests.fuzz.targets import CORPUS, TARGETS, target

LONGEST = 4096
_PACKAGES = ("aqueduct_core", "aqueduct_spark")
Step: TypeAlias = tuple[CodeType, int, int]
_OFTEN = 3
"""Once, two or three times, more often."""


def steps(run: Callable[[bytes], None], data: bytes) -> set[tuple[Step, int]]:
    """Every (code, line, next line) of the project that the input takes, and how often, about."""
    found: Counter[Step] = Counter()
    last: dict[FrameType, int] = {}

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            line = frame.f_lineno
            found[frame.f_code, last.get(frame, 0), line] += 1
            last[frame] = line
        elif event == "return":
            last.pop(frame, None)
        return local

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return local if any(package in name for package in _PACKAGES) else None

    sys.settrace(enter)
    try:
        run(data)
    finally:
        sys.settrace(None)
    return {(step, min(times.bit_length(), _OFTEN)) for step, times in found.items()}


def minimise(run: Callable[[bytes], None], given: list[bytes], inputs: set[bytes]) -> list[bytes]:
    """Those of ``inputs`` that add something to ``given`` and to each other."""
    reached: set[tuple[Step, int]] = set()
    for data in given:
        reached |= steps(run, data)
    kept = []
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        fresh = steps(run, data) - reached
        if fresh:
            kept.append(data)
            reached |= fresh
    return kept


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.minimise")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("directory", type=Path, nargs="?", help="inputs of a fuzzing run")
    options = parser.parse_args(arguments)
    logging.getLogger("aqueduct_core").setLevel(logging.CRITICAL)
    corpus = CORPUS / options.target
    corpus.mkdir(parents=True, exist_ok=True)
    old = sorted(corpus.iterdir())
    found = sorted(options.directory.iterdir()) if options.directory else []
    inputs = {path.read_bytes() for path in [*old, *found] if path.stat().st_size <= LONGEST}
    kept = minimise(target(options.target), [data for _, data in seeds(options.target)], inputs)
    for path in old:
        path.unlink()
    for data in kept:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    size = sum(map(len, kept))
    print(f"{options.target}: kept {len(kept)} of {len(inputs)} inputs, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

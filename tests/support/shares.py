"""Runs the tests in three processes side by side.

Most tests with processes wait more than they compute, so two cores do all shares in little more
than the time of the longest one. The output of the first share is shown as it comes, that of the
others when they have ended. ``python -m tests.support.shares [what pytest takes …]``: with
arguments it is one pytest with these. The exit code is 0 only if every share is green.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack

AROUND_SPARK = ("tests/docs", "tests/faults", "tests/jobs", "tests/spark")

SHARES: dict[str, list[str]] = {
    "with Spark": ["-m", "spark"],
    "around Spark, and faults": ["-m", "not spark", *AROUND_SPARK],
    "the others": ["-m", "not spark", *(f"--ignore={path}" for path in AROUND_SPARK)],
}


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.run(_command(arguments), check=False).returncode
    names = list(SHARES)
    with ExitStack() as stack:
        kept = {name: stack.enter_context(tempfile.TemporaryFile()) for name in names[1:]}
        running = {
            name: stack.enter_context(
                subprocess.Popen(
                    _command(SHARES[name]),
                    stdin=subprocess.DEVNULL,
                    stdout=kept.get(name),
                    stderr=subprocess.STDOUT if name in kept else None,
                )
            )
            for name in names
        }
        try:
            codes = {name: process.wait() for name, process in running.items()}
        except BaseException:
            for process in running.values():
                process.kill()
            raise
        for name, output in kept.items():
            output.seek(0)
            print(f"\n=== {name}", flush=True)
            print(output.read().decode("utf-8", "replace"))
    print(", ".join(f"{name}: exit {code}" for name, code in codes.items()), flush=True)
    return max(abs(code) for code in codes.values())


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

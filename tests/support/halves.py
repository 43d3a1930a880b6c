"""Runs the tests in two processes side by side: those that start Spark, and all others.

A test with Spark waits most of the time, so two cores do both halves in little more than the time
of the longer one. ``python -m tests.support.halves [what pytest takes …]``; the output of the
first half is shown as it comes, that of the second when it has ended. The exit code is 0 only if
both are green.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

SHOWN = "spark"
KEPT = "not spark"

NO_TESTS = 5
"""Exit code of pytest when the half holds none of the tests that were asked for."""


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryFile() as kept:
        other = subprocess.Popen(
            _command(KEPT, arguments),
            stdout=kept,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            codes = {SHOWN: subprocess.run(_command(SHOWN, arguments), check=False).returncode}
            codes[KEPT] = other.wait()
        finally:
            other.kill()
            other.wait()
        kept.seek(0)
        print(f"\n=== {KEPT}", flush=True)
        sys.stdout.write(kept.read().decode("utf-8", "replace"))
    print("\n" + ", ".join(f"{half}: exit {code}" for half, code in codes.items()), flush=True)
    if all(code == NO_TESTS for code in codes.values()):
        return NO_TESTS
    return max(0 if code == NO_TESTS else code for code in codes.values())


def _command(marker: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-m", marker, *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

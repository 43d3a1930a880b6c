"""Memory and file descriptors of long-lived processes over time, as a table and as a picture."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.processes import open_files, private_bytes, resident_bytes

INTERVAL = 1.0
WARM_SECONDS = 20.0
"""At the start of a life memory grows as it should; slopes are of what follows."""


@dataclass(frozen=True)
class Sample:
    at: float
    kind: str
    pid: int
    resident: int
    private: int
    files: int


@dataclass(frozen=True)
class Life:
    """One process: MB of private memory at first (behind the warm-up), at last and at most, and how
    it grows, MB an hour; ``resident`` counts mapped files too."""

    kind: str
    pid: int
    seconds: float
    first: float
    last: float
    most: float
    slope: float
    resident: float
    files_first: int
    files_most: int


class Recorder:
    """Samples what ``who`` names (kind → pids) each second, until the end of the block."""

    def __init__(self, who: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        self.samples: list[Sample] = []
        self.marks: list[tuple[float, str]] = []
        self.more: list[tuple[float, str, float]] = []
        self._who = who
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(10)

    def mark(self, text: str) -> None:
        self.marks.append((self.now(), text))

    def note(self, name: str, value: float) -> None:
        """One point of a further series of the picture."""
        self.more.append((self.now(), name, value))

    def now(self) -> float:
        return time.monotonic() - self._begun

    def lives(self) -> list[Life]:
        keys = list(dict.fromkeys((s.kind, s.pid) for s in self.samples))
        return [_life(kind, pid, self.samples) for kind, pid in keys]

    def _run(self) -> None:
        while not self._over.wait(INTERVAL):
            try:
                who = self._who()
            except (OSError, ValueError, AssertionError):
                continue
            for kind, pids in who.items():
                for pid in pids:
                    resident = resident_bytes(pid)
                    if resident:
                        now, private = self.now(), private_bytes(pid)
                        sample = Sample(now, kind, pid, resident, private, open_files(pid))
                        self.samples.append(sample)


def _life(kind: str, pid: int, samples: Sequence[Sample]) -> Life:
    mine = [s for s in samples if (s.kind, s.pid) == (kind, pid)]
    warm = [s for s in mine if s.at >= mine[0].at + WARM_SECONDS] or mine[-1:]
    memory = [s.private / 1e6 for s in warm]
    slope = 0.0
    if warm[-1].at - warm[0].at >= WARM_SECONDS:
        slope = float(np.polyfit([s.at for s in warm], memory, 1)[0]) * 3600
    return Life(
        kind,
        pid,
        mine[-1].at - mine[0].at,
        memory[0],
        memory[-1],
        max(s.private for s in mine) / 1e6,
        slope,
        max(s.resident for s in mine) / 1e6,
        warm[0].files,
        max(s.files for s in mine),
    )


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown."""
    lines = [list(header), ["---"] * len(header), *[[_text(v) for v in row] for row in rows]]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def lives_table(recorder: Recorder, kinds: Sequence[str], least: float = WARM_SECONDS) -> str:
    """The lives that lasted long enough to say something."""
    rows = [
        (
            n.kind,
            n.pid,
            n.seconds,
            n.first,
            n.last,
            n.most,
            n.slope,
            n.resident,
            n.files_first,
            n.files_most,
        )
        for n in recorder.lives()
        if n.kind in kinds and n.seconds >= least
    ]
    header = ("process", "pid", "seconds", "MB warm", "MB last", "MB most", "MB/h",
              "MB resident", "files", "most")  # fmt: skip
    return table(header, rows)


def draw(recorder: Recorder, path: Path, title: str) -> None:
    """One PNG: memory, file descriptors, and what was noted besides."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for _, name, _ in recorder.more))
    figure, axes = plt.subplots(2 + len(names), 1, figsize=(11, 3.2 * (2 + len(names))),
                                layout="constrained", sharex=True)  # fmt: skip
    figure.suptitle(title)
    kinds = list(dict.fromkeys(s.kind for s in recorder.samples))
    colours = dict(zip(kinds, COLOURS * 3, strict=False))
    for axis, label, value in (
        (axes[0], "private MB", lambda s: s.private / 1e6),
        (axes[1], "open files", lambda s: s.files),
    ):
        _lives(axis, recorder.samples, colours, value)
        axis.set(ylabel=label)
        axis.set_ylim(bottom=0)
    axes[0].legend(loc="upper left", ncols=len(kinds))
    for axis, name in zip(axes[2:], names, strict=True):
        points = [(at, value) for at, n, value in recorder.more if n == name]
        axis.plot([at for at, _ in points], [value for _, value in points], color="black", lw=1.2)
        axis.set(ylabel=name)
        axis.set_ylim(bottom=0)
    for axis in axes:
        for at, text in recorder.marks:
            axis.axvline(at, color="0.8", lw=0.7, zorder=0)
            if axis is axes[0]:
                axis.text(at, axis.get_ylim()[1], text, rotation=90, va="top", fontsize=6)
    axes[-1].set(xlabel="seconds")
    figure.savefig(path, dpi=110)
    plt.close(figure)


# A palette that stays apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def _lives(axis: Any, samples: Sequence[Sample], colours: Mapping[str, str], value: Any) -> None:
    said = set()
    for kind, pid in dict.fromkeys((s.kind, s.pid) for s in samples):
        mine = [s for s in samples if (s.kind, s.pid) == (kind, pid)]
        label = None if kind in said else kind
        said.add(kind)
        axis.plot([s.at for s in mine], [value(s) for s in mine], color=colours[kind],
                  label=label, lw=1.2)  # fmt: skip


def _text(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else str(value)

"""How benches measure: repetitions in pairs, CPU by process, and what the kernel dropped.

Reference and candidates run one after the other in each repetition, in opposite order by turns, so
that what drifts (a machine that is shared, a disk that fills) falls on all alike; figures are
ratios inside a repetition.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.bench.loads import KINDS
from tests.bench.sheet import Sheet, machine
from tests.support.processes import cpu_seconds, descendants

T = TypeVar("T")

PROC_UDP = (Path("/proc/net/udp"), Path("/proc/net/udp6"))
LOCAL_PORT, INODE, DROPS = 1, 9, 12
"""Columns of those tables."""


class Effort(NamedTuple):
    """How much a bench does: ``seconds`` is about what one measured run takes; ``kinds`` are the
    loads, for those benches that have several."""

    repetitions: int
    seconds: float
    kinds: tuple[str, ...] = KINDS


def in_turns(
    kinds: Mapping[str, Callable[[], T]], effort: Effort, sheet: Sheet
) -> Iterator[dict[str, T]]:
    """Each kind once a repetition, in opposite order by turns; the results in the order of
    ``kinds``."""
    for repetition in range(effort.repetitions):
        sheet.calibrate()
        order = list(kinds) if repetition % 2 == 0 else list(reversed(kinds))
        results = {kind: kinds[kind]() for kind in order}
        yield {kind: results[kind] for kind in kinds}


def ratios(
    runs: Iterable[Mapping[str, T]], candidate: str, reference: str, value: Callable[[T], float]
) -> list[float]:
    """Of each repetition, the candidate's value over that of the reference."""
    return [value(run[candidate]) / value(run[reference]) for run in runs]


class CpuMeter:
    """CPU seconds of processes since it was made, of those too that they start meanwhile.

    What a process used that has ended before `used` is lost, as far as no `look` came between.
    """

    def __init__(self, *roots: int) -> None:
        self._roots = roots
        self._before = dict(self._now())
        self._last = dict(self._before)

    def look(self) -> None:
        """Note what has been used so far, of processes that may end soon."""
        self._last.update(self._now())

    def used(self) -> float:
        self.look()
        return sum(cpu - self._before.get(pid, 0.0) for pid, cpu in self._last.items())

    def _now(self) -> Iterator[tuple[int, float]]:
        for root in self._roots:
            for pid in (root, *descendants(root)):
                try:
                    yield pid, cpu_seconds(pid)
                except OSError:
                    continue  # it has ended since


def dropped(port: int, tables: Sequence[Path] = PROC_UDP) -> int:
    """Datagrams that the kernel dropped at the UDP sockets of a local port, since each was made."""
    return sum(
        int(fields[DROPS])
        for fields in _udp_sockets(tables)
        if int(fields[LOCAL_PORT].rpartition(":")[2], 16) == port
    )


def dropped_at(pid: int, tables: Sequence[Path] = PROC_UDP) -> int:
    """The same at those that a process has open."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(descriptor))
        except OSError:
            continue  # it was closed meanwhile
    return sum(
        int(fields[DROPS]) for fields in _udp_sockets(tables) if f"socket:[{fields[INODE]}]" in own
    )


def _udp_sockets(tables: Sequence[Path]) -> Iterator[list[str]]:
    for table in tables:
        try:
            rows = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue  # a kernel without IPv6
        for row in rows:
            yield row.split()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that ``percent`` of all do not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True)
class Bench:
    """A bench: what it is called, what it measures, and how much it does unless told otherwise."""

    name: str
    title: str
    measure: Callable[[Effort, Sheet], None]
    repetitions: int = 5
    seconds: float = 4.0
    kinds: tuple[str, ...] = KINDS

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Measure as the command line says; 1 where a figure is not what it must be."""
        parser = argparse.ArgumentParser(prog=f"tests.bench.{self.name}", description=self.title)
        parser.add_argument("--repetitions", type=int, default=self.repetitions)
        parser.add_argument("--seconds", type=float, default=self.seconds, help="of a run, about")
        parser.add_argument("--kinds", help=f"some of the loads {','.join(KINDS)}")
        parser.add_argument("--out", type=Path, help="a folder for the figures as JSON")
        options = parser.parse_args(arguments)
        kinds = tuple(options.kinds.split(",")) if options.kinds else self.kinds
        if unknown := set(kinds) - set(KINDS):
            parser.error(f"no loads are called {', '.join(sorted(unknown))}")
        part = "" if kinds == self.kinds else "-".join(kinds)
        sheet = Sheet(self.name, self.title, machine=machine())
        if options.out:
            sheet.forget(options.out, part)
        self.measure(Effort(options.repetitions, options.seconds, kinds), sheet)
        for line in sheet.lines():
            print(line, flush=True)
        if options.out:
            sheet.write(options.out, part)
        return 1 if sheet.missed else 0

    def run(self) -> None:
        """As the main module."""
        raise SystemExit(self.main())

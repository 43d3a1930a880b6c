"""The project's sequence reader against the reference decoder.

``python -m tests.fuzz.differential --count 1000000 [--seed N]`` runs as many generated cases as
wanted, prints a tally, and stops at the first disagreement with a case to paste into a test.

Invariant: behind every piece of every case, both decoders have given the same frames, have parsed
up to the same byte, and refuse with the same code, or both want more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import PeerFault
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import Block, Frame, MessageFrame
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from tests.support import reference_decoder
from tests.support.reference_decoder import Limits, Reading
from tests.support.sequence_generator import Case, SequenceGenerator


@cache
def config_of(limits: Limits) -> Config:
    return Config(
        max_payload_bytes=limits.payload,
        max_headers_bytes=limits.headers,
        max_header_pairs=limits.pairs,
        max_attachments_bytes=limits.attachments_region,
        max_attachments=limits.attachments,
        max_ranges_bytes=limits.ranges,
    )


class Disagreement(AssertionError):
    """The decoders differ on a case."""


@dataclass
class Gate:
    version_required: bool
    headers_known: bool


class ProjectReading:
    """The project's reader as it goes through a case."""

    def __init__(self, case: Case) -> None:
        self.gate = Gate(case.early, not case.gated)
        config = config_of(case.limits)
        self._reader = SequenceReader(
            Side(case.sender), self.gate, config, datagram=case.datagram
        )  # fmt: skip
        self.frames: list[tuple[Any, ...]] = []
        self.code: int | None = None

    def feed(self, piece: bytes, ended: bool) -> Reading:
        if self.code is None:
            try:
                self._reader.feed(piece)
                while (frame := self._reader.next()) is not None:
                    self.frames += plain(frame)
                    self.gate.version_required = False
                if ended and not self._reader.held:
                    self._reader.end()
            except PeerFault as fault:
                self.code = fault.code
        return Reading(self.frames, self.code, self._reader.parsed)


def plain(frame: Frame) -> list[tuple[Any, ...]]:
    """A frame as (name, values…), a block as its messages."""
    if isinstance(frame, Block):
        return [("MessageFrame", *message[:4]) for message in frame.messages()]
    if isinstance(frame, MessageFrame):
        return [("MessageFrame", *frame[:4])]
    return [(type(frame).__name__, *frame)]


def check(case: Case) -> Reading:
    """The reading that both decoders agree on.

    Raises:
        Disagreement: they do not.
    """
    project = ProjectReading(case)
    so_far = b""
    pieces = case.pieces or (b"",)
    last = len(pieces) - 1
    reference = Reading([], None, 0)
    for i, piece in enumerate(pieces):
        so_far += piece
        ended = case.ended and i == last
        found = project.feed(piece, ended)
        if case.gated:
            if i < last:
                continue
            project.gate.headers_known = True
            found = project.feed(b"", ended)
        reference = reference_decoder.read(
            so_far,
            sender=case.sender,
            datagram=case.datagram,
            version_required=case.early,
            ended=ended,
            limits=case.limits,
        )
        if found != reference:
            raise Disagreement(f"behind piece {i}:\n  {found}\n  {reference}\n  {case}")
        if reference.code is not None:
            break
    return reference


def run(count: int, seed: int) -> Counter[str]:
    """How often each frame and each outcome came up in ``count`` cases."""
    generator = SequenceGenerator(seed)
    tally: Counter[str] = Counter()
    for _ in range(count):
        reading = check(generator.case())
        tally["refused with " + str(reading.code) if reading.code else "accepted"] += 1
        tally.update({name for name, *_ in reading.frames})
    return tally


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.differential")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        tally = run(options.count, options.seed)
    except Disagreement as found:
        print(f"the decoders disagree {found}")
        return 1
    seconds = time.monotonic() - start
    print(f"{options.count} sequences, seed {options.seed}, {seconds:.0f} s: no disagreement")
    for name, times in sorted(tally.items()):
        print(f"{times:>10}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

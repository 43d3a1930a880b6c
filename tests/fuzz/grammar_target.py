"""Target: one frame sequence, cut anywhere, read by the project's reader and by the reference.

Invariant: behind every piece the two have given the same frames and parsed up to the same byte;
then both refuse with the same defined code, or both want more. What the reader holds back is
never more than the bytes it was given, and bytes routed to a machine that is gone are refused
exactly where they would be refused otherwise.
"""

from __future__ import annotations

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from tests.fuzz.byte_source import ByteSource
from tests.fuzz.differential import Gate, check, config_of
from tests.support.reference_decoder import Limits, Reading
from tests.support.sequence_generator import TIGHT, Case


def run(data: bytes) -> None:
    """The first byte: who sends, how, and what the reader knows; the second: how many cuts,
    then one byte for each; the others are the sequence."""
    source = ByteSource(data)
    flags = source.byte()
    steps = [1 + source.byte() for _ in range(source.below(8))]
    sequence = source.rest()
    datagram = bool(flags & 2)
    case = Case(
        pieces=(sequence,) if datagram else tuple(_cut(sequence, steps)),
        sender=flags & 1,
        datagram=datagram,
        early=bool(flags & 4),
        gated=bool(flags & 8) and not datagram,
        ended=datagram or bool(flags & 16),
        limits=TIGHT if flags & 32 else Limits(),
    )
    reading = check(case)
    if not datagram:
        _skipped(case, reading)


def _cut(data: bytes, steps: list[int]) -> list[bytes]:
    """Pieces of the given lengths in turn, and so on from the start; no steps: one piece."""
    pieces = []
    at = turn = 0
    while at < len(data):
        step = steps[turn % len(steps)] if steps else len(data)
        pieces.append(data[at : at + step])
        at += step
        turn += 1
    return pieces


def _skipped(case: Case, reading: Reading) -> None:
    """The same bytes on the stream of a machine that has ended (AQ-SEQ-11, AQ-ERR-4)."""
    reader = SequenceReader(Side(case.sender), Gate(case.early, True), config_of(case.limits))
    kinds: list[str] = []
    code: Code | None = None
    given = 0
    try:
        for piece in case.pieces:
            given += len(piece)
            reader.feed(piece)
            while (frame := reader.next()) is not None:
                kinds.append(type(frame).__name__)
                if kinds[-1] == "RouteTo":
                    reader.skip()
            assert 0 <= reader.waiting <= _most_held(config_of(case.limits), given)
        if case.ended:
            reader.end()
    except PeerFault as fault:
        code = fault.code
    assert code == reading.code
    expected = ["Skipped" if name == "MessageFrame" else name for name, *_ in reading.frames]
    # a payload that is thrown away need not have come in whole
    assert kinds == expected or kinds == [*expected, "Skipped"]


def _most_held(config: Config, given: int) -> int:
    """What is skipped keeps no payload: at most the head of one frame."""
    head = 64 + max(
        config.max_headers_bytes + config.max_attachments_bytes, config.max_ranges_bytes
    )  # fmt: skip
    return min(given, head)

"""The project's decoder agrees with the one that was written from the specification alone."""

from __future__ import annotations

import pytest

from tests.core.aqueduct.vectors import VECTORS, Vector
from tests.fuzz import differential
from tests.fuzz.differential import Disagreement, check, run
from tests.support import reference_decoder
from tests.support.reference_decoder import Limits
from tests.support.rules import rule
from tests.support.sequence_generator import Case, SequenceGenerator

COUNT = 20_000


@rule("AQ-VARINT-2", "AQ-VARINT-4", "AQ-BYTES-2", "AQ-HDRDATA-2", "AQ-SEQ-1", "AQ-SEQ-2")
@rule("AQ-SEQ-5", "AQ-SEQ-7", "AQ-SEQ-9", "AQ-SEQ-10", "AQ-FRAME-14", "AQ-VER-4")
def test_both_decoders_agree() -> None:
    tally = run(COUNT, seed=2)
    frames = {name for name in tally if name[0].isupper()}
    assert len(frames) == 13, "every kind of frame was read"
    assert {f"refused with {code}" for code in (1, 2, 3, 5, 8)} <= set(tally)
    assert tally["accepted"] > COUNT / 5


def _case(vector: Vector) -> Case:
    return Case(
        pieces=(vector.data,),
        sender=vector.sender,
        datagram=vector.datagram,
        early=vector.early,
        gated=False,
        ended=vector.datagram or not vector.waits,
        limits=Limits(),
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_the_reference_reads_the_vectors(vector: Vector) -> None:
    reading = check(_case(vector))
    assert reading.code == vector.code
    if vector.code is None or vector.waits:
        assert reading.frames == list(vector.frames)


def test_a_disagreement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge must be able to say no, here to a reference with a VERSION frame of one byte."""
    monkeypatch.setattr(reference_decoder, "VERSION_FRAME", b"\xef")
    with pytest.raises(Disagreement, match="behind piece"):
        run(1000, seed=3)
    assert differential.main(["--count", "1000"]) == 1


def test_a_seed_gives_the_same_cases() -> None:
    first, second = SequenceGenerator(5), SequenceGenerator(5)
    assert [first.case() for _ in range(50)] == [second.case() for _ in range(50)]

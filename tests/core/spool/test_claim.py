"""FAULTS 32: of several owners the last one writes, and what it noted is found after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import Disk
from aqueduct_core.spool.claim import Claim, ClaimNotes, read_notes, taken_epochs
from aqueduct_core.spool.format.durable import NOTHING, Durable

FRESH = ClaimNotes("a1", 0, "", 2, NOTHING, None)


def take(directory: Path) -> Claim:
    return Claim.take(directory, Disk(), read_notes(directory) or FRESH, taken_epochs(directory))


def test_a_torn_slot_leaves_the_one_before(tmp_path: Path) -> None:
    claim = take(tmp_path)
    for group in (1, 2, 3):
        assert claim.advance(Durable(1, group, (group, 0), "s"))
    claim.close()
    assert read_notes(tmp_path).durable.group == 3  # type: ignore[union-attr]
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    torn = data.replace(b"[1,3,[3,0]", b"[1,3,[9,0]", 1)
    assert torn != data
    path.write_bytes(torn)
    assert read_notes(tmp_path).durable[:3] == (1, 2, (2, 0))  # type: ignore[union-attr]


def test_a_successor_fences_and_goes_on_from_what_was_noted(tmp_path: Path) -> None:
    first = take(tmp_path)
    first.note(Durable(4, 7, (3, 9), "s"), {"query": [1, None]})
    second = take(tmp_path)
    assert (first.held(), second.held(), second.epoch) == (False, True, 2)
    assert first.lost().subclass == "LOCKED"
    notes = read_notes(tmp_path)
    assert notes is not None
    assert (notes.epoch, notes.durable.ends, notes.cursors) == (2, (3, 9), {"query": [1, None]})
    assert taken_epochs(tmp_path) == [2]
    for claim in (first, second):
        claim.close()


def test_of_two_at_a_time_one_is_refused(tmp_path: Path) -> None:
    known = read_notes(tmp_path) or FRESH
    claim = Claim.take(tmp_path, Disk(), known, [])
    with pytest.raises(SpoolFailed, match=r"LOCKED.*epoch 1"):
        Claim.take(tmp_path, Disk(), known, [])
    assert claim.held()
    claim.close()

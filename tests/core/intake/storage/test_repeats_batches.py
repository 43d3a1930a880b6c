"""What the intake remembers of a sink: its rows are numbered by batch, batches rise."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.aqueduct.conventions.dedupe.numbering import batch_floor
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from tests.core.intake.bench import Peer, bench
from tests.core.intake.storage.test_group_commit import offer


def batch(number: int, row: int = 0) -> AqueductSource:
    floor = batch_floor(number)
    return AqueductSource("c", "w/0", "cafe", 8, floor + row, floor)


def test_a_batch_that_begins_ends_the_batches_before_it(tmp_path: Path) -> None:
    """One range is remembered, and late rows are repeats."""
    peer, late = Peer(), Peer()
    with bench(tmp_path) as b:
        for number in range(5):
            b.groups.add(offer(peer, [b"row %d" % number], origin=batch(number)))
            b.settle()
        b.groups.add(offer(late, [b"late", b"late too"], origin=batch(3)))
        b.groups.add(offer(peer, [b"row 4", b"next"], origin=batch(4)))
        b.settle()
        assert b.values() == [*(b"row %d" % n for n in range(5)), b"next"]
        assert [(r.first, r.stop) for r in late.acked] == [(0, 2)]
        assert list(b.spool.sequences.seen("w/0", "c")) == [(0, batch_floor(4) + 2)]


def test_late_rows_in_the_group_of_the_batch_that_follows(tmp_path: Path) -> None:
    peer, late = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"new"], origin=batch(4)))
        b.groups.add(offer(late, [b"late"], origin=batch(3)))
        b.settle()
        assert b.values() == [b"new"]
        assert [(r.first, r.stop) for r in late.acked] == [(0, 1)]

"""What a segment file holds is found without anything that knows of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from aqueduct_core.spool.format.scan import scan
from tests.core.spool.rows import (
    SCHEMA,
    open_spool,
    segments,
    store,
)


def test_a_payload_that_is_a_segment_is_not_taken_for_one(tmp_path: Path) -> None:
    """A record inside a payload was written elsewhere: also after damage it is no record."""
    with open_spool(tmp_path / "a") as spool:
        store(spool, [2, 2], groups=2)
    (inner,) = segments(tmp_path / "a")
    with open_spool(tmp_path / "b") as spool:
        value = pa.record_batch(
            [pa.array([inner.read_bytes()], pa.binary()), pa.array([0], pa.int64())], SCHEMA
        )
        spool.append(0, value)
        spool.settle(5)
        store(spool, [0, 1])
        spool.commit("q", [1, 1])
    (outer,) = segments(tmp_path / "b")
    whole = scan(outer, 1)
    damaged = bytearray(outer.read_bytes())
    damaged[whole.rows[0].at + 40] ^= 1
    outer.write_bytes(damaged)
    found = scan(outer, 1)
    assert [record.at for record in found.rows] == [whole.rows[1].at]
    assert found.damage == [(whole.rows[0].at, whole.rows[1].at)]

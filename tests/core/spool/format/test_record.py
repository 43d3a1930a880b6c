"""FAULTS 19: a changed bit of a record is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.spool.format.record import Damaged, verify
from aqueduct_core.spool.format.scan import scan
from tests.core.spool.rows import open_spool, segments, store


def test_every_bit_of_a_record_is_checked(tmp_path: Path) -> None:
    """Also those of the checksum itself: its digits in another case are another record."""
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2])
    (path,) = segments(tmp_path)
    record = scan(path, 1).rows[0]
    data = bytearray(path.read_bytes())
    for position in range(record.at, record.end):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(Damaged):
                verify(memoryview(data), record.at, 1)
            data[position] ^= 1 << bit
    assert verify(memoryview(data), record.at, 1) == record

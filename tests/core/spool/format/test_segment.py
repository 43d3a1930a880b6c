"""FAULTS 19: an index is whole, or none."""

from __future__ import annotations

import pytest

from aqueduct_core.spool.format.segment import Index


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\x00" * 9, b"\x01" * 16])
def test_a_damaged_index_is_none(data: bytes) -> None:
    """Eight zeros carry the right checksum of nothing."""
    assert Index.unpack(data, 1) is None

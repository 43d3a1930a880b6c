"""How many bytes rows take, as an index of sizes tells it."""

from __future__ import annotations

import pytest

from aqueduct_spark.planning.ranges import SizeIndex, offset_of, size_of

UNEVEN: SizeIndex = [(110, 1000), (111, 5000), (120, 5009)]
"""Rows 100 to 119: ten of 100 bytes, one of 4000, nine of one."""


@pytest.mark.parametrize(
    ("stop", "size"),
    [(100, 0), (105, 500), (110, 1000), (111, 5000), (115, 5004), (120, 5009), (999, 5009)],
)
def test_sizes(stop: int, size: int) -> None:
    assert size_of(UNEVEN, 100, stop) == size


@pytest.mark.parametrize(
    ("size", "offset"),
    [
        (0, 100),
        (99, 100),
        (100, 101),
        (999, 109),
        (1000, 110),
        (4999, 110),
        (5000, 111),
        (9999, 120),
    ],
)
def test_offsets(size: int, offset: int) -> None:
    assert offset_of(UNEVEN, 100, size) == offset

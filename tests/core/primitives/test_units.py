"""Durations and sizes as people write them."""

from __future__ import annotations

import pytest

from aqueduct_core.primitives.units import duration, size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500us", 0.0005),
        ("20ms", 0.02),
        ("1.5S", 1.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        (" 7 d", 604_800.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "20", "-1s", "1.s", "s", "1w", "1 week", "1s2", "1s 2s", "0x1s", "١s"]
)
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration: write 500ms"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512b", 512),
        ("64k", 64 << 10),
        ("64KB", 64 << 10),
        ("1.5 k", 1536),
        ("10GiB", 10 << 30),
        ("16m", 16 << 20),
        ("10g", 10 << 30),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "64", "-1k", "k", "1x", "1kbb", "1m1m", "64 megs"])
def test_other_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="no size: write 512b"):
        size(text)

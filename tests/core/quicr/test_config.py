"""Settings outside of their bounds are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.quicr.config import DropSettings, QuicrConfig


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("max_transactions", 0, "max_transactions is 0.*from 1 to 65536"),
        ("max_url", 1 << 20, "max_url is 1048576.*from 1 to 16384"),
        ("max_object", (64 << 20) + 1, "max_object is 67108865"),
        ("max_notified", 0, "max_notified is 0.*from 1 to"),
        ("repeat_after", 0.001, "repeat_after is 0.001.*from 0.01 to 60"),
        ("write_ahead", 100, "write_ahead is 100.*from 1200 to"),
    ],
)
def test_bounds_of_a_connection(setting: str, value: Any, text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        QuicrConfig(**{setting: value})


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("reading", "middle", "reading is 'middle'.*Use low or high"),
        ("threshold", 0, "threshold is 0.*seconds from 0.001 to 60"),
        ("interval", 61, "interval is 61.*seconds from 0.001 to 60"),
    ],
)
def test_bounds_of_dropping(setting: str, value: Any, text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        DropSettings(**{setting: value})

"""Bounds of a relay."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.quicr.relay.config import RelayConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory", 1), ("lifetime", 0), ("linger", -1), ("max_media", 0), ("max_subscriptions", 2000)],
)
def test_a_bound_that_makes_no_sense_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidOption, match=rf"{name} is {value}"):
        RelayConfig(**{name: value})  # type: ignore[arg-type]

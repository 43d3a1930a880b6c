"""Bounds of a line."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.telehash.config import TelehashConfig
from tests.support.rules import rule


@rule("P-7", "T-4")
def test_defaults_are_those_of_the_protocol_and_its_peers() -> None:
    config = TelehashConfig()
    assert (config.window, config.receive_window, config.channel_timeout) == (32, 100, 10.0)
    assert config.max_packet == 1_472


@rule("P-7", "T-4", "T-10")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", 0),
        ("window", 101),
        ("receive_window", 1_001),
        ("channel_timeout", 0.05),
        ("ack_delay", 1.0),
        ("max_channels", 0),
        ("max_packet", 10),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=name):
        TelehashConfig(**{name: value})


def test_it_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        TelehashConfig().window = 5  # type: ignore[misc]

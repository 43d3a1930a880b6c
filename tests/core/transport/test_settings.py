"""Settings are checked when they are made."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport import LinkSettings, ListenLimits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_timeout", 0.0),
        ("handshake_timeout", -1.0),
        ("stream_window", 100),
        ("connection_window", 0),
        ("max_streams_uni", 0),
        ("max_datagram_size", 1_199),
        ("max_datagram_size", 66_000),
        ("max_datagram_frame_size", -1),
        ("congestion", "magic"),
        ("alpn", ""),
    ],
)
def test_a_value_out_of_bounds_names_the_setting(name: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=name):
        LinkSettings(**{name: value})  # type: ignore[arg-type]


def test_limits_are_at_least_one() -> None:
    with pytest.raises(InvalidOption, match="handshakes"):
        ListenLimits(handshakes=0)


def test_the_defaults_are_legal() -> None:
    assert LinkSettings().alpn == "aqueduct"
    assert ListenLimits().connections >= 1

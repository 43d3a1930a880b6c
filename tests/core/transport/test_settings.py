"""Settings are checked when they are made."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport import LinkSettings, ListenLimits
from aqueduct_core.transport.settings import LARGEST_DATAGRAM, LEAST_WINDOW, share


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_timeout", 0.0),
        ("handshake_timeout", -1.0),
        ("stream_window", 100),
        ("connection_window", 0),
        ("max_streams_uni", -1),
        ("max_streams_bidi", -1),
        ("initial_datagram_size", 1_199),
        ("max_datagram_size", 1_199),
        ("max_datagram_size", 66_000),
        ("max_datagram_frame_size", -1),
        ("congestion", "magic"),
    ],
)
def test_a_value_out_of_bounds_names_the_setting(name: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=name):
        LinkSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("handshakes", 0),
        ("memory", 1_000),
        ("outgoing", 1_000),
        ("connection_share", 0.0),
        ("connection_share", 1.5),
    ],
)
def test_a_limit_out_of_bounds_is_named(name: str, value: float) -> None:
    with pytest.raises(InvalidOption, match=name):
        ListenLimits(**{name: value})  # type: ignore[arg-type]


def test_the_defaults_are_legal() -> None:
    assert LinkSettings().max_streams_bidi == 0
    assert ListenLimits().connections >= 1


def test_a_part_of_the_shared_window_is_never_too_small_and_never_more_than_one_may_have() -> None:
    settings = LinkSettings(connection_window=16 << 20, stream_window=4 << 20)
    assert share(settings, 1_000, None) is settings
    assert share(settings, 0, 128 << 20) is settings
    windows = [share(settings, n, 128 << 20).connection_window for n in range(4_096)]
    assert windows == sorted(windows, reverse=True)
    assert windows[7] == 16 << 20
    assert windows[31] == 4 << 20
    assert windows[-1] == LEAST_WINDOW
    assert sum(windows[:500]) < 700 << 20
    crowded = share(settings, 1_000, 128 << 20)
    assert crowded.stream_window == crowded.connection_window == LEAST_WINDOW
    with pytest.raises(InvalidOption, match="shared_window"):
        ListenLimits(shared_window=1)


def test_where_datagrams_may_be_fragmented_they_stay_as_they_begin() -> None:
    settings = LinkSettings(initial_datagram_size=1_400)
    assert settings.max_datagram_size == LARGEST_DATAGRAM
    assert settings.for_fragments == LinkSettings(
        initial_datagram_size=1_400, max_datagram_size=1_400
    )


def test_datagrams_do_not_begin_larger_than_they_may_become() -> None:
    with pytest.raises(InvalidOption, match="max_datagram_size"):
        LinkSettings(initial_datagram_size=1_400, max_datagram_size=1_300)

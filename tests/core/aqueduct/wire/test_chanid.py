"""Channel identifiers."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.aqueduct.wire.chanid import ChannelCounters, Side
from aqueduct_core.primitives import varint
from tests.support.rules import rule

C, S = Side.CLIENT, Side.SERVER


@rule("AQ-CHANID-1", "AQ-CHANID-3")
@pytest.mark.parametrize(
    ("text", "channel", "parts"),
    [
        pytest.param("00", 0, (C, C, False, 0), id="T28"),
        pytest.param("08", 8, (C, C, False, 1), id="T29"),
        pytest.param("01", 1, (S, C, False, 0), id="T30"),
        pytest.param("02", 2, (C, S, False, 0), id="T31"),
        pytest.param("03", 3, (S, S, False, 0), id="T32"),
        pytest.param("04", 4, (C, C, True, 0), id="T33"),
        pytest.param("06", 6, (C, S, True, 0), id="T34"),
        pytest.param("2f", 47, (S, S, True, 5), id="T35"),
        pytest.param("8001", 128, (C, C, False, 16), id="T36"),
        pytest.param(
            "f8ffffffffffffff7f",
            9223372036854775800,
            (C, C, False, (1 << 60) - 1),
            id="T37",
        ),
    ],
)
def test_parts(text: str, channel: int, parts: tuple[Side, Side, bool, int]) -> None:
    assert varint.encode(channel).hex() == text
    assert chanid.make(*parts) == channel
    assert (
        chanid.creator(channel),
        chanid.sender(channel),
        chanid.oneshot(channel),
        chanid.index(channel),
    ) == parts


@rule("AQ-CHANID-2")
def test_counters() -> None:
    for side, expected in (
        (C, {(C, False): [8, 16], (S, False): [2, 10], (C, True): [4, 12], (S, True): [6, 14]}),
        (S, {(C, False): [1, 9], (S, False): [3, 11], (C, True): [5, 13], (S, True): [7, 15]}),
    ):
        counters = ChannelCounters(side)
        for kind, channels in expected.items():
            assert counters.upcoming([kind, kind]) == channels
            assert not counters.allocated(channels[0])
            counters.take([kind])
            assert counters.allocated(channels[0])
            assert counters.upcoming([kind]) == channels[1:]


@rule("AQ-CHANID-4")
def test_counters_end() -> None:
    counters = ChannelCounters(S)
    counters._next[C, False] = chanid.INDEX_LIMIT - 1
    counters.take([(C, False)])
    with pytest.raises(ValueError, match="index"):
        counters.upcoming([(C, False)])


@rule("AQ-CHANID-3")
def test_the_entrypoint() -> None:
    assert chanid.make(C, C, False, 0) == chanid.ENTRYPOINT
    assert ChannelCounters(C).allocated(chanid.ENTRYPOINT)
    assert C.other is S
    assert S.other is C

"""Inputs about the link that change slowly: the peer's stream limit and the round-trip time."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import LinkRoom, LinkRtt, StreamLimit
from aqueduct_core.transport.aioquic.hints import Hints
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import Wire
from tests.support.rules import rule


class Measured:
    peer_stream_limits = (100, 0)
    round_trip: float | None = None
    bytes_per_round_trip = 12_000


def test_what_has_changed_enough_is_told_once() -> None:
    link = Measured()
    hints = Hints(link)
    assert hints.inputs() == [StreamLimit(100), LinkRoom(12_000)]
    assert hints.inputs() == []
    link.round_trip = 0.1
    assert hints.inputs() == [LinkRtt(0.1)]
    link.round_trip = 0.12
    assert hints.inputs() == []
    link.round_trip = 0.13
    link.peer_stream_limits = (150, 0)
    assert hints.inputs() == [StreamLimit(150), LinkRtt(0.13)]
    link.peer_stream_limits = (150, 7)
    assert hints.inputs() == [StreamLimit(7, bidirectional=True)]
    for size, told in ((14_000, []), (16_000, [LinkRoom(16_000)]), (11_000, [LinkRoom(11_000)])):
        link.bytes_per_round_trip = size
        assert hints.inputs() == told


@rule("AQ-SEND-6")
def test_a_link_tells_its_round_trip_time_and_the_peer_s_stream_limit() -> None:
    wire = Wire(delay=0.05, settings=LinkSettings(max_streams_uni=20))
    seen: list[object] = []
    collect = wire.client.link.inputs
    wire.client.link.inputs = lambda: [seen.append(f) or f for f in collect()]  # type: ignore
    wire.connect()
    wire.rest(1.0)
    limits = [input.streams for input in seen if isinstance(input, StreamLimit)]
    times = [input.seconds for input in seen if isinstance(input, LinkRtt)]
    assert limits == [20]
    assert times[-1] == pytest.approx(0.1, rel=0.3)

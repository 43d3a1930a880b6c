"""What acknowledgements cost: turns and packets of both ends, by counts."""

from __future__ import annotations

from collections import Counter

import pytest

from aqueduct_core.transport.aioquic.acknowledging import LONGEST
from aqueduct_core.transport.aioquic.send import RunConnection
from aqueduct_core.transport.settings import SMALLEST_DATAGRAM, LinkSettings
from tests.core.transport.wire import CLIENT, End, Wire

KB = 1024
DELAY = 0.005
"""Seconds of one way of a `Wire`."""


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", "1")


@pytest.fixture
def acks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Acknowledgements that were written, by end."""
    counts: Counter[str] = Counter()
    write = RunConnection._write_ack_frame

    def counted(self: RunConnection, builder: object, space: object, now: float) -> None:
        counts["client" if self._is_client else "server"] += 1
        write(self, builder, space, now)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(RunConnection, "_write_ack_frame", counted)
    return counts


def connected() -> Wire:
    wire = Wire(settings=LinkSettings(max_datagram_size=SMALLEST_DATAGRAM), delay=DELAY)
    wire.connect()
    wire.rest(0.5)
    return wire


def sent(end: End) -> int:
    return end.link.counts.datagrams_sent


def test_a_flight_is_acknowledged_in_the_turn_in_which_it_came(acks: Counter[str]) -> None:
    wire = connected()
    acks.clear()
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(4 * KB))
    wire.pump()
    wire.rest(DELAY)
    wire.pump()
    assert acks["server"] == 1
    timer = wire.server.link.timer
    assert timer is not None
    assert timer > wire.now + 1.0  # no turn is to come for it


def test_a_small_message_is_acknowledged_with_what_answers_it(acks: Counter[str]) -> None:
    wire = connected()
    stream, back = wire.client.probe.open(), wire.server.probe.open()
    wire.rest(0.1)
    acks.clear()
    before = sent(wire.server)
    wire.client.probe.write(stream, b"question")
    wire.rest(DELAY + 0.006)
    assert acks["server"] == 0
    wire.server.probe.write(back, b"answer")
    wire.rest(DELAY + 0.001)
    assert acks["server"] == 1
    assert sent(wire.server) == before + 1
    assert wire.client.link.unsent == 0


def test_a_small_message_without_an_answer_is_acknowledged_before_the_sender_doubts() -> None:
    wire = connected()
    stream = wire.client.probe.open()
    before = sent(wire.client)
    wire.client.probe.write(stream, b"by itself")
    wire.rest(2 * DELAY + LONGEST - 0.001)
    assert wire.client.link.unsent > 0
    wire.rest(0.002)
    assert wire.client.link.unsent == 0
    assert sent(wire.client) == before + 1  # nothing was taken for lost


def test_messages_both_ways_need_no_packets_but_their_own() -> None:
    wire = connected()
    stream, back = wire.client.probe.open(), wire.server.probe.open()
    before = sent(wire.client), sent(wire.server)
    for _ in range(50):
        wire.client.probe.write(stream, b"there")
        wire.rest(0.004)
        wire.server.probe.write(back, b"back")
        wire.rest(0.004)
    assert sent(wire.client) - before[0] <= 52
    assert sent(wire.server) - before[1] <= 52


def test_a_hole_is_told_at_once(acks: Counter[str]) -> None:
    wire = connected()
    stream = wire.client.probe.open()
    wire.mangle = lambda data: []
    wire.client.probe.write(stream, b"lost")
    wire.pump()
    wire.mangle = lambda data: [data]
    acks.clear()
    wire.client.probe.write(stream, b"behind it")
    wire.pump()
    wire.rest(DELAY + 0.0011)
    assert acks["server"] == 1


def test_that_a_hole_is_filled_is_told_at_once(acks: Counter[str]) -> None:
    """What was only late must not be sent again."""
    wire = connected()
    stream = wire.client.probe.open()
    held: list[bytes] = []

    def hold(data: bytes) -> list[bytes]:
        held.append(data)
        return []

    wire.mangle = hold
    wire.client.probe.write(stream, b"late")
    wire.pump()
    wire.mangle = lambda data: [data]
    wire.client.probe.write(stream, b"behind it")
    wire.pump()
    wire.rest(DELAY + 0.0011)
    acks.clear()
    wire.server.link.receive([(held[0], CLIENT)], wire.now)
    wire.rest(0.0011)
    assert acks["server"] == 1


def test_the_time_that_a_peer_waited_is_no_part_of_the_path() -> None:
    """Else a connection with single messages would take its path for congested."""
    wire = connected()
    stream = wire.client.probe.open()
    window = wire.client.link._quic._loss.congestion_window
    for _ in range(40):
        wire.client.probe.write(stream, b"by itself")
        wire.rest(0.05)
    control = wire.client.link._quic._loss._cc
    assert control.ssthresh is None
    assert control.congestion_window >= window

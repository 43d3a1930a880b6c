"""The window follows what the path holds, not what queues can be made to hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.congestion import (
    ALGORITHMS,
    FLOOR,
    HEADROOM,
    MEMORY,
    BoundedCubic,
    BoundedReno,
)
from aqueduct_core.transport.aioquic.factory import _configuration
from aqueduct_core.transport.settings import LinkSettings

SIZE = 1_200
Control = BoundedCubic | BoundedReno


def packet(now: float) -> QuicSentPacket:
    made = QuicSentPacket(
        epoch=Epoch.ONE_RTT,
        in_flight=True,
        is_ack_eliciting=True,
        is_crypto_packet=False,
        packet_number=0,
        packet_type=QuicPacketType.ONE_RTT,
    )
    made.sent_bytes, made.sent_time = SIZE, now
    return made


class Path:
    """A path without loss: ``rtt`` seconds long, ``rate`` bytes a second, an endless queue."""

    def __init__(self, control: Control, *, rtt: float, rate: float) -> None:
        self.control, self.rtt, self.rate = control, rtt, rate
        self.now = 1.0

    def round(self, *, most: float = float("inf")) -> None:
        """Fill the window (the application has ``most`` bytes), and have all of it acknowledged."""
        control = self.control
        sent = []
        while control.bytes_in_flight + SIZE <= min(control.congestion_window, most):
            sent.append(packet(self.now))
            control.on_packet_sent(packet=sent[-1])
        took = max(self.rtt, len(sent) * SIZE / self.rate)
        self.now += took
        for one in sent:
            control.on_packet_acked(now=self.now, packet=one)
        control.on_rtt_measurement(now=self.now, rtt=took)


@pytest.mark.parametrize("kind", [BoundedCubic, BoundedReno])
def test_a_queue_without_end_is_not_filled(kind: type[Control]) -> None:
    path = Path(kind(max_datagram_size=SIZE), rtt=0.001, rate=60e6)
    for _ in range(200):
        path.round()
        assert path.control.congestion_window <= FLOOR


@pytest.mark.parametrize("kind", [BoundedCubic, pytest.param(BoundedReno, marks=pytest.mark.long)])
def test_a_long_path_is_filled_beyond_the_floor(kind: type[Control]) -> None:
    path = Path(kind(max_datagram_size=SIZE), rtt=0.05, rate=60e6)
    on_path = path.rtt * path.rate
    for _ in range(12):
        path.round()
    assert path.control.congestion_window >= on_path > FLOOR
    for _ in range(20):
        path.round()
        assert path.control.congestion_window <= 2 * HEADROOM * on_path


def test_growth_is_that_of_slow_start_until_the_path_is_full() -> None:
    path = Path(BoundedReno(max_datagram_size=SIZE), rtt=0.1, rate=1e9)
    windows = []
    for _ in range(9):
        path.round()
        windows.append(path.control.congestion_window)
    assert all(later == 2 * before for before, later in pairwise(windows))


def test_a_path_that_became_longer_is_learned() -> None:
    path = Path(BoundedReno(max_datagram_size=SIZE), rtt=0.001, rate=60e6)
    for _ in range(50):
        path.round()
    path.rtt = 0.2
    rounds = int(MEMORY / path.rtt) + 20
    for _ in range(rounds):
        path.round()
    learned = path.control.congestion_window
    path.round()
    assert FLOOR < learned < path.control.congestion_window


def test_links_are_made_with_it() -> None:
    for name, ours in ALGORITHMS.items():
        made = _configuration(["any"], LinkSettings(congestion=name), is_client=True)
        assert made.congestion_control_algorithm == ours

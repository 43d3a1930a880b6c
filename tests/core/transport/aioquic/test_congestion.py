"""The window follows what the path holds, not what queues can be made to hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket
from aioquic.tls import Epoch
from hypothesis import given
from hypothesis import strategies as st

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


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["acked", "acked", "acked", "lost", "slower"]),
        st.lists(st.sampled_from([SIZE, SIZE, 900, 38]), min_size=1, max_size=80),
        st.floats(0.000_1, 0.05),
    ),
    max_size=40,
)


def books(control: Control) -> tuple[object, ...]:
    names = {"_rtt_monitor"} ^ set(vars(control))
    return tuple(getattr(control, name) for name in sorted(names))


@pytest.mark.parametrize("kind", [BoundedCubic, BoundedReno])
@given(RUNS, st.sampled_from([20_000, 900_000, 4_000_000]))
def test_a_run_does_to_the_window_what_its_packets_do(
    kind: type[Control], runs: list[tuple[str, list[int], float]], window: int
) -> None:
    whole, singly = kind(max_datagram_size=SIZE), kind(max_datagram_size=SIZE)
    for control in (whole, singly):
        control.congestion_window = window
    now = 1.0
    for what, sizes, took in runs:
        packets = [packet(now) for _ in sizes]
        for one, size in zip(packets, sizes, strict=True):
            one.sent_bytes = size
            singly.on_packet_sent(packet=one)
        whole.begin_anew(now)
        whole.on_run_sent(sum(sizes))
        assert books(whole) == books(singly)
        now += took
        if what == "lost":
            for control in (whole, singly):
                control.on_packets_lost(now=now, packets=packets)
            continue
        if what == "slower":
            for control in (whole, singly):
                control.ssthresh = control.congestion_window  # as HyStart ends slow start
        for one in packets:
            singly.on_packet_acked(now=now, packet=one)
        whole.on_run_acked(now, packets)
        assert books(whole) == books(singly)
        for control in (whole, singly):
            control.on_rtt_measurement(now=now, rtt=took)
        assert books(whole) == books(singly)


def test_after_a_long_silence_cubic_begins_anew_once() -> None:
    """Before the first packet, and not again with each packet until one is acknowledged."""
    cubic, reno = BoundedCubic(max_datagram_size=SIZE), BoundedReno(max_datagram_size=SIZE)
    first = cubic.congestion_window
    for control in (cubic, reno):
        control.begin_anew(1.0)
        control.on_packet_sent(packet=packet(1.0))
        control.on_packet_acked(now=1.1, packet=packet(1.0))
        control.congestion_window = 50 * SIZE
        control.begin_anew(2.9)
        assert control.congestion_window == 50 * SIZE
        control.begin_anew(3.0)
    assert cubic.congestion_window == first
    assert reno.congestion_window == 50 * SIZE
    cubic.congestion_window = 40 * SIZE
    cubic.begin_anew(3.1)
    cubic.on_packet_sent(packet=packet(3.1))
    assert cubic.congestion_window == 40 * SIZE


def test_links_are_made_with_it() -> None:
    for name, ours in ALGORITHMS.items():
        made = _configuration(["any"], LinkSettings(congestion=name), is_client=True)
        assert made.congestion_control_algorithm == ours

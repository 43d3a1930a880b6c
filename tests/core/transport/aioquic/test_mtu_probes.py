"""Datagrams grow to what the path carries, and shrink with it: two links on a virtual clock."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicTransportParameters, push_quic_transport_parameters
from aioquic.quic.packet_builder import QuicDeliveryState

from aqueduct_core.engine.inputs import DatagramFate, DatagramLimit, DatagramOutcome, Input
from aqueduct_core.transport.aioquic.link import DATAGRAM_OVERHEAD, WORTH_A_SEARCH
from aqueduct_core.transport.path_mtu import MAX_PROBES, RAISE_AFTER
from aqueduct_core.transport.settings import LARGEST_DATAGRAM, SMALLEST_DATAGRAM, LinkSettings
from tests.core.transport.wire import End, Wire

KB = 1_000


class Path:
    """Between the ends of a wire: carries datagrams of ``mtu`` bytes at most, and keeps the sizes
    of all that it was given."""

    def __init__(self, mtu: int, **wire: Any) -> None:
        self.mtu = mtu
        self.given: list[int] = []
        self.wire = Wire(**wire)
        self.wire.mangle = self._carry
        self.wire.connect()
        self.wire.rest(0.5)

    def _carry(self, data: bytes) -> list[bytes]:
        self.given.append(len(data))
        return [data] if len(data) <= self.mtu else []

    @property
    def too_large(self) -> int:
        return sum(size > self.mtu for size in self.given)

    def send(self, size: int = 400 * KB, *, back: bool = False, limit: float = 120.0) -> None:
        """Have random bytes arrive, from the client or ``back`` from the server."""
        ends = (self.wire.client, self.wire.server)
        sender, receiver = reversed(ends) if back else ends
        stream = sender.probe.open()
        data = random.Random(size).randbytes(size)
        sender.probe.write(stream, data, end=True)
        self.wire.run(lambda: stream in receiver.probe.ended, limit)
        assert receiver.probe.digests[stream].digest() == hashlib.sha256(data).digest()

    def settle(self) -> None:
        """Until nothing is on its way, and no probe is wanted."""
        self.wire.rest(3.0)


def size_of(end: End) -> int:
    return end.link._quic.datagram_size


@pytest.mark.parametrize("mtu", [1_200, 1_300, 1_452, 1_472, 8_972, 9_000, 65_000])
@pytest.mark.parametrize("back", [False, True])
def test_each_end_finds_out_what_passes_towards_the_other(mtu: int, back: bool) -> None:
    path = Path(mtu)
    sender, receiver = path.wire.client, path.wire.server
    if back:
        sender, receiver = receiver, sender
    path.send(back=back)
    path.send(back=back)
    path.settle()
    assert mtu * 0.95 < size_of(sender) <= mtu or size_of(sender) == LARGEST_DATAGRAM
    assert size_of(receiver) == SMALLEST_DATAGRAM  # it has sent acknowledgements alone
    assert path.too_large <= 4 * MAX_PROBES


def test_losing_probes_is_no_congestion() -> None:
    windows = []
    for mtu in (1_200, 1_472):
        path = Path(mtu, settings=LinkSettings(max_datagram_size=1_472))
        quic = path.wire.client.link._quic
        path.send()
        path.settle()
        windows.append(quic._loss.congestion_window)
        assert quic._congestion.losses == 0
        assert quic._loss.bytes_in_flight == 0
    assert windows[0] >= 0.9 * windows[1]
    assert path.too_large == 0


@pytest.mark.parametrize("congestion", ["cubic", "reno"])
def test_larger_datagrams_make_no_larger_window(congestion: str) -> None:
    path = Path(9_000, settings=LinkSettings(congestion=congestion))
    quic = path.wire.client.link._quic
    grown: list[tuple[int, int]] = []
    resize = quic._resize

    def watched(size: int) -> None:
        before = quic._loss.congestion_window
        resize(size)
        grown.append((before, quic._loss.congestion_window))

    quic._resize = watched  # type: ignore[method-assign]
    path.send()
    path.settle()
    assert size_of(path.wire.client) == 9_000
    assert grown
    assert all(before == after for before, after in grown)


def test_who_sends_little_is_not_searched_for() -> None:
    path = Path(9_000)
    path.send(WORTH_A_SEARCH // 2)
    path.settle()
    assert max(path.given) == SMALLEST_DATAGRAM


@pytest.mark.parametrize("most", [1_200, 1_452])
def test_a_cap_is_kept(most: int) -> None:
    path = Path(9_000, settings=LinkSettings(max_datagram_size=most))
    path.send()
    assert max(path.given) == size_of(path.wire.client) == most


def test_a_size_that_is_known_is_used_from_the_start() -> None:
    path = Path(9_000, settings=LinkSettings(initial_datagram_size=1_400, max_datagram_size=1_400))
    assert max(path.given, default=0) <= 1_400
    path.send(10 * KB)
    assert max(path.given) == 1_400


def tell_limit(end: End, server: End, limit: int) -> bytes:
    """Have the client's ``end`` learn of it as if the server had; what the server did say."""
    buffer = Buffer(capacity=1_000)
    push_quic_transport_parameters(buffer, QuicTransportParameters(max_udp_payload_size=limit))
    said = server.link._quic._serialize_transport_parameters()
    # The parameters of the server, with another limit: the one of ours is the last of them.
    assert said[-4:] == b"\x03\x02\x63\x28"
    quic = end.link._quic
    quic._parse_transport_parameters(said[:-4] + bytes(buffer.data))
    quic._searched = None
    return said


def test_a_peer_is_sent_no_more_than_it_says_that_it_takes() -> None:
    path = Path(9_000)
    said = tell_limit(path.wire.client, path.wire.server, 1_400)
    path.send()
    assert size_of(path.wire.client) == 1_400
    quic = path.wire.client.link._quic
    quic._parse_transport_parameters(said, from_session_ticket=True)
    assert quic._peer_takes == 1_400


def test_a_peer_may_take_less_than_we_begin_with() -> None:
    path = Path(9_000, settings=LinkSettings(initial_datagram_size=1_452))
    tell_limit(path.wire.client, path.wire.server, 1_300)
    path.given.clear()
    path.send()
    path.settle()
    assert max(path.given) == size_of(path.wire.client) == 1_300


@pytest.mark.parametrize("mtu", [1_200, 1_472])
def test_a_path_that_shrinks_in_the_midst(mtu: int) -> None:
    """Nothing passes any more but what is small; that costs a second or two, and no more."""
    path = Path(9_000)
    path.send()
    path.settle()
    assert size_of(path.wire.client) == 9_000
    path.mtu = mtu
    before, lost = path.wire.now, path.too_large
    path.send(limit=10.0)
    assert path.wire.now - before < 5.0
    path.settle()
    assert size_of(path.wire.client) == mtu
    assert path.too_large - lost < 300


def test_small_packets_that_pass_do_not_hide_that_large_ones_do_not() -> None:
    """Acknowledgements keep coming, so no probe timeout tells: losses do."""
    path = Path(9_000)
    path.send()
    path.mtu = 1_472
    probe = path.wire.client.probe
    small, large = probe.open(), probe.open()
    probe.write(large, bytes(300 * KB), end=True)
    ended = path.wire.server.probe.ended

    def drip() -> bool:
        probe.datagram(b"x")
        return large in ended

    probe.write(small, b"x")
    path.wire.run(drip, limit=20.0)
    path.settle()
    assert size_of(path.wire.client) == 1_472


def test_a_path_that_grows_is_used_after_the_raise_timer() -> None:
    path = Path(1_472)
    path.send()
    path.settle()
    path.mtu = 9_000
    path.wire.rest(RAISE_AFTER + 5)
    path.send()
    path.settle()
    assert size_of(path.wire.client) == 9_000


def test_a_path_that_carries_nothing_for_a_while_is_as_large_as_before() -> None:
    path = Path(9_000)
    path.send()
    path.mtu = 0
    path.wire.client.probe.write(path.wire.client.probe.open(), bytes(100))
    path.wire.rest(3.0)
    assert size_of(path.wire.client) == SMALLEST_DATAGRAM
    path.mtu = 9_000
    path.send()
    path.settle()
    assert size_of(path.wire.client) == 9_000
    search = path.wire.client.link._quic._search
    assert search is not None
    assert search.black_holes == 0


@pytest.mark.parametrize("mtu", [1_472, 9_000])
def test_a_path_that_loses_and_reorders(mtu: int) -> None:
    path = Path(mtu, loss=0.05, jitter=0.01, seed=3)
    for _ in range(4):
        path.send()
    path.settle()
    assert size_of(path.wire.client) <= mtu
    assert size_of(path.wire.client) > SMALLEST_DATAGRAM


def test_a_peer_that_acknowledges_no_probe_is_sent_a_few() -> None:
    path = Path(9_000)
    quic: Any = path.wire.client.link._quic
    quic._on_probe_delivery = lambda delivery, number, sent_at: None
    path.send()
    path.settle()
    assert size_of(path.wire.client) == SMALLEST_DATAGRAM
    assert sum(size > SMALLEST_DATAGRAM for size in path.given) == 1
    assert quic._loss.bytes_in_flight == 0


def test_a_peer_that_acknowledges_what_it_did_not_get_harms_itself_alone() -> None:
    """It says that datagrams of any size passed; what it then loses, it gets in small ones."""
    path = Path(1_472)
    quic: Any = path.wire.client.link._quic
    judged = quic._on_probe_delivery
    quic._on_probe_delivery = lambda delivery, number, sent_at: judged(
        QuicDeliveryState.ACKED, number, sent_at
    )
    path.send(100 * KB)
    path.settle()
    assert size_of(path.wire.client) == 9_000
    quic._on_probe_delivery = judged
    path.send(limit=20.0)
    path.settle()
    assert size_of(path.wire.client) == 1_472


def test_the_interface_refuses_and_is_believed() -> None:
    path = Path(9_000)
    link = path.wire.client.link
    transmit = link.transmit

    def refusing(now: float) -> list[Any]:
        """As the driver does it, on an interface of Ethernet."""
        out = transmit(now)
        large = [len(data) for data, _ in out if len(data) > 1_472]
        if large:
            link.too_large(min(large), now)
        return [item for item in out if len(item[0]) <= 1_472]

    link.transmit = refusing  # type: ignore[method-assign]
    path.send()
    path.settle()
    assert size_of(path.wire.client) == 1_472
    assert max(path.given) == 1_472


def test_a_client_that_moves_is_sent_small_datagrams_again() -> None:
    path = Path(9_000)
    path.send(back=True)
    path.settle()
    assert size_of(path.wire.server) == 9_000
    path.wire.client_address = ("127.0.0.9", 999)
    path.mtu = 1_300
    path.send(10 * KB)
    assert size_of(path.wire.server) == SMALLEST_DATAGRAM
    path.send(back=True)
    path.settle()
    assert size_of(path.wire.server) == 1_252


def test_the_end_of_a_connection_with_a_probe_under_way() -> None:
    path = Path(9_000)
    path.send(WORTH_A_SEARCH)
    link = path.wire.client.link
    assert link._quic._ask_at is not None
    path.wire.client.probe.close(3, "enough")
    path.wire.pump()
    asked = link._quic._ask_at
    assert link.timer is not None
    assert link.timer > asked  # the end of the closing period, and nothing else
    path.wire.run(lambda: path.wire.server.probe.lost is not None)
    path.wire.client.link.free()
    assert path.wire.client.link.timer is None
    path.wire.client.link.too_large(1_472, path.wire.now)


# Datagrams of the application


def watched(path: Path) -> tuple[list[Input], Callable[[], list[int]]]:
    seen: list[Input] = []
    path.wire.client.probe.on_input = seen.append
    return seen, lambda: [
        input.max_datagram_size for input in seen if isinstance(input, DatagramLimit)
    ]


def test_an_engine_learns_of_larger_datagrams_when_they_are_confirmed() -> None:
    path = Path(9_000)
    _, limits = watched(path)
    probe = path.wire.client.probe
    assert probe.ready is not None
    assert probe.ready.max_datagram_size == SMALLEST_DATAGRAM - DATAGRAM_OVERHEAD
    path.send()
    path.settle()
    assert limits() == sorted(limits())
    assert limits()[-1] == 9_000 - DATAGRAM_OVERHEAD
    probe.datagram(bytes(limits()[-1]), token=1)
    probe.datagram(bytes(limits()[-1] + 1), token=2)
    path.wire.run(lambda: bool(path.wire.server.probe.datagrams))
    assert probe.refused == [2]


def test_datagrams_that_have_become_too_large_come_back_and_stop_nobody() -> None:
    path = Path(9_000)
    seen, limits = watched(path)
    path.send()
    path.settle()
    probe = path.wire.client.probe
    path.mtu = 1_200
    for token in range(400):
        probe.datagram(bytes(8_000 if token % 2 else 1_000), token=token)
    path.wire.run(lambda: limits()[-1] < 1_200, limit=20.0)
    fates = [input for input in seen if isinstance(input, DatagramOutcome)]
    at = seen.index(DatagramLimit(limits()[-1]))
    refused = [each.token for each in fates if each.outcome is DatagramFate.REFUSED]
    assert refused
    assert all(token % 2 for token in refused)
    assert seen.index(DatagramOutcome(refused[0], DatagramFate.REFUSED)) > at
    path.wire.run(lambda: not path.wire.client.link.backlogged, limit=20.0)
    assert path.wire.client.link._quic.queued_datagrams == 0
    path.settle()
    arrived = path.wire.server.probe.datagrams
    assert sum(len(data) == 1_000 for data in arrived) >= 50

"""The socket: bursts, a full kernel buffer, segments, errors of the network."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from aqueduct_core.transport import udp_socket
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.udp_socket import UdpSocket
from tests.support.event_loop import eventually
from tests.support.virtual_loop import run_virtually

Burst = list[tuple[bytes, Address]]


def opened(
    sock: socket.socket, on_burst: Callable[[Burst], None], peer: Address | None = None
) -> tuple[UdpSocket, list[OSError]]:
    errors: list[OSError] = []
    return UdpSocket(sock, on_burst, errors.append, peer), errors


def bound() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


@pytest.mark.parametrize("coalesced", [True, False])
def test_what_is_sent_arrives_as_it_was(coalesced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not coalesced:
        monkeypatch.setattr(udp_socket, "UDP_GRO", -1)
        monkeypatch.setattr(udp_socket, "UDP_SEGMENT", -1)

    async def main() -> None:
        got: Burst = []
        receiver, _ = opened(bound(), got.extend)
        sender, _ = opened(bound(), lambda burst: None)
        sizes = [1_200] * 70 + [300] + [1_200, 1_200, 7] + [1] * 5 + [1_400] * 3 + [60_000, 1_200]
        data = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
        sender.send([(piece, receiver.address) for piece in data])
        await eventually(lambda: len(got) == len(data))
        assert [piece for piece, _ in got] == data
        assert {address for _, address in got} == {sender.address}
        assert receiver.counts.datagrams_received == sender.counts.datagrams_sent == len(data)
        sender.close()
        receiver.close()
        sender.close()
        sender.send([(b"late", receiver.address)])

    run_virtually(main())


def test_a_full_kernel_buffer_keeps_order_and_bounds_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Datagram sockets of the Unix family fill up for good while nobody reads."""
    monkeypatch.setattr(udp_socket, "MAX_PENDING", 5)
    monkeypatch.setattr(udp_socket, "BUFFER_BYTES", 4_096)

    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        theirs.setblocking(False)
        peer = ("peer", 1)
        sender, _ = opened(ours, lambda burst: None, peer)
        sent = [i.to_bytes(4, "big") for i in range(2_000)]
        for piece in sent:
            sender.send([(piece, peer)])
        counts = sender.counts
        assert counts.datagrams_dropped == 2_000 - counts.datagrams_sent - 5
        loop = asyncio.get_running_loop()
        expected = counts.datagrams_sent + 5
        got = [await loop.sock_recv(theirs, 10) for _ in range(expected)]
        assert got == sent[:expected]
        sender.send([(b"more", peer)])
        assert await loop.sock_recv(theirs, 10) == b"more"
        sender.close()
        theirs.close()

    run_virtually(main())


def test_an_answer_that_nobody_listens_is_reported() -> None:
    async def main() -> None:
        gone = bound()
        address = gone.getsockname()
        gone.close()
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(address)
        sender, errors = opened(sock, lambda burst: None, address)
        sender.send([(b"hello", address)])
        await eventually(lambda: bool(errors))
        assert isinstance(errors[0], ConnectionRefusedError)
        sender.close()

    run_virtually(main())


def test_one_turn_reads_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_socket, "RECVFROM_PER_TURN", 8)
    monkeypatch.setattr(udp_socket, "DATAGRAMS_PER_TURN", 8)

    async def main(gro: int) -> None:
        monkeypatch.setattr(udp_socket, "UDP_GRO", gro)
        bursts: list[int] = []
        left: list[bool] = []

        def note(burst: Burst) -> None:
            bursts.append(len(burst))
            left.append(receiver.backlogged)

        receiver, _ = opened(bound(), note)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for i in range(50):
                sender.sendto(bytes([i]), receiver.address)
        await eventually(lambda: sum(bursts) == 50)
        assert max(bursts) <= 8
        assert left == [True] * 6 + [False]
        assert receiver.counts.arrivals == 50
        receiver.close()

    for gro in (104, -1):
        run_virtually(main(gro))


class Interface(socket.socket):
    """A socket, connected if it is given an address, on an interface that takes ``mtu`` bytes in
    one datagram, cuts larger writes where it can ``segment``, and tells of ``earlier`` errors
    first, each once."""

    mtu = 1_472
    segments = True

    def __init__(self, address: Address | None, *earlier: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        if address is not None:
            self.connect(address)
        self.earlier = list(earlier)
        self.runs: list[int] = []

    def send(self, data: Any, *flags: Any) -> int:
        self._tell()
        if len(data) > self.mtu:
            raise OSError(errno.EMSGSIZE, "too long")
        return super().send(data, *flags)

    def sendto(self, data: Any, *rest: Any) -> int:
        self._tell()
        if len(data) > self.mtu:
            raise OSError(errno.EMSGSIZE, "too long")
        return super().sendto(data, *rest)

    def sendmsg(self, parts: Any, *rest: Any) -> int:
        self._tell()
        if len(parts[0]) > self.mtu or not self.segments:
            raise OSError(errno.EINVAL, "no")
        self.runs.append(len(parts))
        return super().sendmsg(parts, *rest)

    def recvmsg_into(self, *arguments: Any) -> Any:
        self._tell()
        return super().recvmsg_into(*arguments)

    def _tell(self) -> None:
        if self.earlier:
            raise OSError(self.earlier.pop(0), "of an earlier one")


class Sending:
    """What an `Interface` does with what is sent on it."""

    def __init__(self, *earlier: int) -> None:
        self.got: list[int] = []
        self.receiver, _ = opened(bound(), lambda burst: self.got.extend(len(d) for d, _ in burst))
        self.sock = Interface(self.receiver.address, *earlier)
        self.sender, self.errors = opened(self.sock, lambda burst: None, self.receiver.address)

    def send(self, *sizes: int) -> int | None:
        return self.sender.send([(bytes(size), self.receiver.address) for size in sizes])

    async def arrived(self, *sizes: int) -> None:
        await eventually(lambda: len(self.got) == len(sizes))
        assert self.got == list(sizes)
        self.sender.close()
        self.receiver.close()


def test_what_the_interface_does_not_take_is_said_and_stops_nobody() -> None:
    async def main() -> None:
        both = Sending()
        assert both.send(1_200, 1_200) is None
        assert both.send(9_000, 1_200, 1_200, 2_000, 1_200, 1_200) == 2_000
        assert both.send(1_200, 1_200, 1_200) is None
        assert both.sock.runs[-1] == 3  # it goes on to segment
        assert both.sender.counts.datagrams_dropped == 2
        await both.arrived(*[1_200] * 9)

    run_virtually(main())


def test_what_is_refused_later_is_said_with_the_next_that_is_sent_there() -> None:
    """It waited while the kernel had no room."""

    async def main() -> None:
        both = Sending(errno.EAGAIN)
        assert both.send(9_000, 2_000, 1_200) is None
        await eventually(lambda: both.got == [1_200])
        assert both.send(1_200) == 2_000
        assert both.send(1_200) is None
        await both.arrived(1_200, 1_200, 1_200)

    run_virtually(main())


def test_what_is_refused_is_said_to_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_socket, "MAX_REFUSED", 2)

    async def main() -> None:
        to = [("127.0.0.1", 1_000 + i) for i in range(4)]
        sock = Interface(None, errno.EAGAIN)
        sender, _ = opened(sock, lambda burst: None)
        assert sender.send([(bytes(9_000 + i), to[i]) for i in range(4)]) is None
        await eventually(lambda: sender.counts.datagrams_dropped == 4)
        assert sender.send([(bytes(10), to[2])]) == 9_002
        assert sender.send([(bytes(10), to[2])]) is None
        # Of as many addresses as are remembered, the ones that were refused last.
        assert sender.send([(bytes(10), to[0]), (bytes(10), to[1])]) is None
        assert sender.send([(bytes(10), to[3]), (bytes(8_000), to[3])]) == 8_000
        assert sender.send([(bytes(10), to[3])]) is None
        sender.close()

    run_virtually(main())


def test_an_interface_that_cannot_segment_is_done_without() -> None:
    async def main() -> None:
        both = Sending()
        both.sock.segments = False
        assert both.send(*[1_200] * 5) is None
        both.sock.segments = True
        assert both.send(*[1_200] * 5) is None
        assert both.sock.runs == []
        await both.arrived(*[1_200] * 10)

    run_virtually(main())


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.ECONNREFUSED])
def test_what_icmp_says_of_an_earlier_datagram_is_not_said_of_this_one(number: int) -> None:
    async def main() -> None:
        both = Sending(number)
        assert both.send(*[1_200] * 3) is None
        assert both.sock.runs == [3]
        both.sock.earlier = [errno.EMSGSIZE]
        assert both.send(1_200) is None
        await both.arrived(*[1_200] * 4)

    run_virtually(main())


def test_sizes_that_icmp_tells_are_not_reported() -> None:
    """Anybody can forge them (RFC 9000 section 14.2.1)."""

    async def main() -> None:
        both = Sending()
        back: Burst = []
        sock = Interface(both.receiver.address, errno.EMSGSIZE)
        listening, errors = opened(sock, back.extend, both.receiver.address)
        both.receiver.send([(b"x", listening.address)])
        await eventually(lambda: bool(back))
        assert errors == []
        listening.close()
        await both.arrived()

    run_virtually(main())


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_datagrams_arrive_whole_or_not_at_all(family: socket.AddressFamily) -> None:
    async def main() -> None:
        for wanted in (True, False):
            sock = socket.socket(family, socket.SOCK_DGRAM)
            before = sock.getsockopt(socket.IPPROTO_IP, udp_socket.IP_MTU_DISCOVER)
            both = UdpSocket(sock, lambda burst: None, lambda error: None, unfragmented=wanted)
            assert both.unfragmented is wanted
            now = sock.getsockopt(socket.IPPROTO_IP, udp_socket.IP_MTU_DISCOVER)
            assert now == (udp_socket.IP_PMTUDISC_PROBE if wanted else before)
            if family == socket.AF_INET6 and wanted:
                option = udp_socket.IPV6_MTU_DISCOVER
                assert sock.getsockopt(socket.IPPROTO_IPV6, option) == now
            both.close()

    run_virtually(main())


def test_a_system_without_a_way_to_have_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(udp_socket.sys, "platform", "darwin")
        both = UdpSocket(bound(), lambda burst: None, lambda error: None, unfragmented=True)
        assert not both.unfragmented
        both.close()

    run_virtually(main())


def test_what_finds_the_kernel_s_buffer_full_is_counted() -> None:
    async def main() -> None:
        got: Burst = []
        receiver, _ = opened(bound(), got.extend)
        receiver._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert receiver.overflowed == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(200):  # nobody reads before the loop has a turn
                sender.sendto(bytes(1_200), receiver.address)
        await eventually(lambda: len(got) + receiver.overflowed == 200)
        assert receiver.overflowed > 100
        receiver.close()
        assert receiver.overflowed == 0

    run_virtually(main())


@pytest.mark.parametrize("allowed", [True, False])
def test_a_socket_of_many_peers_has_a_larger_buffer_where_that_is_allowed(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not allowed:
        monkeypatch.setattr(udp_socket, "SO_RCVBUFFORCE", -1)

    async def main() -> None:
        many, _ = opened(bound(), lambda burst: None)
        one, _ = opened(bound(), lambda burst: None, many.address)
        sizes = [each._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in (many, one)]
        assert sizes[0] in ((sizes[1], 2 * udp_socket.SHARED_BUFFER_BYTES) if allowed else sizes)
        for each in (many, one):
            each.close()

    run_virtually(main())

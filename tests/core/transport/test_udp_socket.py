"""The socket: bursts, a full kernel buffer, segments, errors of the network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

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
        receiver, _ = opened(bound(), lambda burst: bursts.append(len(burst)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for i in range(50):
                sender.sendto(bytes([i]), receiver.address)
        await eventually(lambda: sum(bursts) == 50)
        assert max(bursts) <= 8
        receiver.close()

    for gro in (104, -1):
        run_virtually(main(gro))

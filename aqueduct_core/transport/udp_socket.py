"""A non-blocking UDP socket on asyncio's poller: bursts in, bursts out.

asyncio's own datagram transport calls back once for each datagram; handling a burst at a time is
worth a factor of three and more. Where the kernel has it, one call reads up to 64 KiB of datagrams
of one sender (UDP_GRO), and one call writes as many (UDP_SEGMENT).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.transport.link import Address

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104
LARGEST_READ = 65_535
DATAGRAMS_PER_TURN = 512
"""Datagrams read before the event loop gets a turn again: about 10 ms of work."""
RECVFROM_PER_TURN = 64
BUFFER_BYTES = 4 * 1024 * 1024
"""Asked of the kernel for each direction; it grants what its own limit allows."""
MAX_PENDING = 4_096
"""Datagrams kept while the kernel's buffer is full; more are dropped, and QUIC repeats them."""
MAX_SEGMENTS = 64
"""Most segments that the kernel takes in one UDP_SEGMENT write."""
LARGEST_WRITE = 65_000

_SEGMENT = struct.Struct("=H")
_GRO = struct.Struct("=i")
_NO_SPACE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
_logger = logging.getLogger(__name__)

OnBurst = Callable[[list[tuple[bytes, Address]]], None]
OnError = Callable[[OSError], None]


@dataclass(slots=True)
class SocketCounts:
    """Totals since the socket was opened."""

    bursts: int = 0
    datagrams_received: int = 0
    datagrams_sent: int = 0
    datagrams_dropped: int = 0


class UdpSocket:
    """Owns ``sock`` and watches it until ``close``.

    Args:
        sock: a bound or connected datagram socket.
        on_burst: called with all datagrams of one turn, never with none.
        on_error: called with an error that the network reported on this socket (ICMP), which only
            connected sockets see.
        peer: the address of a connected socket, given to every datagram; None: as received.

    ``address`` is the local address as bound.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_burst: OnBurst,
        on_error: OnError,
        peer: Address | None = None,
    ) -> None:
        self.counts = SocketCounts()
        self._sock = sock
        self._on_burst = on_burst
        self._on_error = on_error
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._pending: deque[tuple[bytes, Address]] = deque()
        self._closed = False
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        self._gro = _accepts(sock, UDP_GRO, 1)
        self._gso = _accepts(sock, UDP_SEGMENT, 0)
        self._buffer = bytearray(LARGEST_READ) if self._gro else bytearray()
        self.address: Address = sock.getsockname()
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, datagrams: list[tuple[bytes, Address]]) -> None:
        """Send in order; what the kernel has no room for is kept and sent later."""
        if self._closed:
            return
        if not self._pending:
            sent = self._write(datagrams)
            if sent == len(datagrams):
                return
            datagrams = datagrams[sent:]
            self._loop.add_writer(self._sock.fileno(), self._writable)
        room = MAX_PENDING - len(self._pending)
        self._pending.extend(datagrams[:room])
        self.counts.datagrams_dropped += max(0, len(datagrams) - room)

    def close(self) -> None:
        """Stop watching and close the socket; what was not sent yet is dropped."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._pending.clear()
        self._sock.close()

    def _readable(self) -> None:
        datagrams: list[tuple[bytes, Address]] = []
        try:
            if self._gro:
                self._read_coalesced(datagrams)
            else:
                self._read_single(datagrams)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            # An ICMP answer to something we sent; the datagrams read before it still count.
            if datagrams:
                self._deliver(datagrams)
            if not self._closed:
                self._on_error(error)
            return
        if datagrams:
            self._deliver(datagrams)

    def _deliver(self, datagrams: list[tuple[bytes, Address]]) -> None:
        self.counts.bursts += 1
        self.counts.datagrams_received += len(datagrams)
        self._on_burst(datagrams)

    def _read_coalesced(self, datagrams: list[tuple[bytes, Address]]) -> None:
        receive = self._sock.recvmsg_into
        buffer = self._buffer
        view = memoryview(buffer)
        space = socket.CMSG_SPACE(_GRO.size)
        while len(datagrams) < DATAGRAMS_PER_TURN:
            size, ancillary, _, address = receive([buffer], space)
            peer = self._peer or address
            segment = size
            for level, kind, data in ancillary:
                if level == SOL_UDP and kind == UDP_GRO:
                    segment = _GRO.unpack_from(data)[0]
            if size <= segment:
                datagrams.append((bytes(view[:size]), peer))
                continue
            for start in range(0, size, segment):
                datagrams.append((bytes(view[start : min(start + segment, size)]), peer))

    def _read_single(self, datagrams: list[tuple[bytes, Address]]) -> None:
        receive = self._sock.recvfrom
        for _ in range(RECVFROM_PER_TURN):
            data, address = receive(LARGEST_READ)
            datagrams.append((data, self._peer or address))

    def _writable(self) -> None:
        pending = list(self._pending)
        sent = self._write(pending)
        for _ in range(sent):
            self._pending.popleft()
        if not self._pending and not self._closed:
            self._loop.remove_writer(self._sock.fileno())

    def _write(self, datagrams: list[tuple[bytes, Address]]) -> int:
        """Write from the front; return how many are done with (sent or refused for good)."""
        done = 0
        while done < len(datagrams):
            stop = _batch(datagrams, done) if self._gso else done + 1
            try:
                self._write_batch(datagrams[done:stop])
            except OSError as error:
                if error.errno in _NO_SPACE:
                    return done
                if stop - done > 1:
                    # The way out cannot segment (no checksum offload, a tunnel): do without.
                    self._gso = False
                    continue
                self._refused(error)
                if self._closed:
                    return len(datagrams)
            else:
                self.counts.datagrams_sent += stop - done
            done = stop
        return done

    def _write_batch(self, batch: list[tuple[bytes, Address]]) -> None:
        data, address = batch[0]
        if len(batch) == 1:
            if self._peer is None:
                self._sock.sendto(data, address)
            else:
                self._sock.send(data)
            return
        ancillary = [(SOL_UDP, UDP_SEGMENT, _SEGMENT.pack(len(data)))]
        parts = [data for data, _ in batch]
        if self._peer is None:
            self._sock.sendmsg(parts, ancillary, 0, address)
        else:
            self._sock.sendmsg(parts, ancillary)

    def _refused(self, error: OSError) -> None:
        """One datagram cannot be sent: the peer's loss recovery repeats what it held."""
        self.counts.datagrams_dropped += 1
        if error.errno in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
            # Report after the current turn, so that nobody is called back in the midst of sending.
            self._loop.call_soon(self._report, error)
        else:
            _logger.debug("a datagram was not sent: %s", error)

    def _report(self, error: OSError) -> None:
        if not self._closed:
            self._on_error(error)


def _batch(datagrams: list[tuple[bytes, Address]], start: int) -> int:
    """Where a run of equal-sized datagrams to one address ends; the last may be shorter."""
    data, address = datagrams[start]
    size = len(data)
    most = min(len(datagrams), start + MAX_SEGMENTS, start + max(1, LARGEST_WRITE // size))
    stop = start + 1
    while stop < most:
        data, other = datagrams[stop]
        if other != address or len(data) > size:
            break
        stop += 1
        if len(data) < size:
            break
    return stop


def _accepts(sock: socket.socket, option: int, value: int) -> bool:
    try:
        sock.setsockopt(SOL_UDP, option, value)
    except OSError:
        return False
    return True

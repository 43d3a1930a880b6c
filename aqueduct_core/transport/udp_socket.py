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
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.transport.link import Address
from aqueduct_core.transport.moderation import Moderation

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER = 10, 23
IP_PMTUDISC_PROBE = 3
"""Of Linux, and the same for IPv6: never fragment, and ask nobody but the interface what fits."""
LARGEST_READ = 65_535
DATAGRAMS_PER_TURN = 512
"""Datagrams read before the event loop gets a turn again: about 10 ms of work."""
BYTES_PER_TURN = 1 << 20
"""The same of larger ones, each of which takes longer."""
RECVFROM_PER_TURN = 64
BUFFER_BYTES = 4 * 1024 * 1024
"""Asked of the kernel for each direction; it grants what its own limit allows."""
SHARED_BUFFER_BYTES = 16 * 1024 * 1024
"""For what comes to a socket that many peers send to at once: 500 of them have more on its way than
fits into the other. Beyond the kernel's limit it is granted to those who may (CAP_NET_ADMIN)."""
SO_RCVBUFFORCE = 33
SO_MEMINFO = 55
DROPS = 8
"""The place in that option, of nine, of the datagrams that found no room."""
MAX_PENDING = 4_096
"""Datagrams kept while the kernel's buffer is full; more are dropped, and QUIC repeats them."""
MAX_REFUSED = 256
"""Addresses of which it is remembered that a size was refused, until they are sent to again."""
MAX_SEGMENTS = 64
"""Most segments that the kernel takes in one UDP_SEGMENT write."""
LARGEST_WRITE = 65_000

_SEGMENT = struct.Struct("=H")
_GRO = struct.Struct("=i")
_MEMINFO = struct.Struct("=9I")
_NO_SPACE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
_UNREACHABLE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
_logger = logging.getLogger(__name__)

OnBurst = Callable[[list[tuple[bytes, Address]]], None]
OnError = Callable[[OSError], None]


@dataclass(slots=True)
class SocketCounts:
    """Totals since the socket was opened. ``arrivals``: reads of the kernel, each of a datagram or
    of several that came together; a burst is all of them in one turn."""

    bursts: int = 0
    arrivals: int = 0
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
        unfragmented: have datagrams arrive whole or not at all (RFC 9000 §14).
        moderation: says when the socket is left alone for a while; None: it never is.

    ``address`` is the local address as bound. ``unfragmented``: so it is; False where the system
    has no way to have it.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_burst: OnBurst,
        on_error: OnError,
        peer: Address | None = None,
        *,
        unfragmented: bool = False,
        moderation: Moderation | None = None,
    ) -> None:
        self.counts = SocketCounts()
        self._sock = sock
        self._on_burst = on_burst
        self._on_error = on_error
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._pending: deque[tuple[bytes, Address]] = deque()
        self._closed = False
        self._moderation = moderation
        self._rest: asyncio.TimerHandle | None = None
        self.backlogged = False
        """The last burst was not all that had arrived."""
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        if peer is None:
            _accepts(sock, socket.SOL_SOCKET, SO_RCVBUFFORCE, SHARED_BUFFER_BYTES)
        self._gro = _accepts(sock, SOL_UDP, UDP_GRO, 1)
        self._gso = _accepts(sock, SOL_UDP, UDP_SEGMENT, 0)
        self.unfragmented = unfragmented and _never_fragments(sock)
        self._too_large: dict[Address, int] = {}
        self._buffer = bytearray(LARGEST_READ) if self._gro else bytearray()
        self.address: Address = sock.getsockname()
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def overflowed(self) -> int:
        """Datagrams that came while the kernel's buffer was full, so far; 0 where the system does
        not say, and when the socket is closed."""
        if self._closed:
            return 0
        try:
            found = self._sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _MEMINFO.size)
        except OSError:
            return 0
        return int(_MEMINFO.unpack(found)[DROPS]) if len(found) == _MEMINFO.size else 0

    def send(self, datagrams: list[tuple[bytes, Address]]) -> int | None:
        """Send in order; what the kernel has no room for is kept and sent later.

        The size of the smallest to one of these addresses that was dropped since they were last
        sent to, because the interface takes none of it: now, or when what was kept was sent.
        """
        if self._closed:
            return None
        sent = 0
        if not self._pending:
            sent = self._write(datagrams)
            if sent < len(datagrams):
                self._loop.add_writer(self._sock.fileno(), self._writable)
        if sent < len(datagrams):
            kept = datagrams[sent : sent + MAX_PENDING - len(self._pending)]
            self._pending.extend(kept)
            self.counts.datagrams_dropped += len(datagrams) - sent - len(kept)
        refused = self._too_large
        if not refused:
            return None
        sizes = [refused.pop(address) for address in {to for _, to in datagrams} & refused.keys()]
        return min(sizes, default=None)

    def close(self) -> None:
        """Stop watching and close the socket; what was not sent yet is dropped."""
        if self._closed:
            return
        self._closed = True
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._pending.clear()
        self._sock.close()

    def _readable(self) -> None:
        datagrams: list[tuple[bytes, Address]] = []
        arrived = self.counts.arrivals
        self.backlogged = False
        try:
            if self._gro:
                self._read_coalesced(datagrams)
            else:
                self._read_single(datagrams)
            self.backlogged = True
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            # An ICMP answer to something we sent; the datagrams read before it still count.
            if datagrams:
                self._deliver(datagrams)
            if not self._closed and error.errno != errno.EMSGSIZE:
                self._on_error(error)  # sizes are found out by what the peer acknowledges
            return
        if datagrams:
            self._deliver(datagrams)
            if self._moderation is not None and not (self.backlogged or self._closed):
                arrivals = self.counts.arrivals - arrived
                sizes = [len(data) for data, _ in datagrams]
                self._rest_for(self._moderation.rest(arrivals, sizes))

    def _rest_for(self, seconds: float) -> None:
        if seconds:
            self._loop.remove_reader(self._sock.fileno())
            self._rest = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        """What came meanwhile is read, or it is watched for."""
        assert self._moderation is not None
        self._rest = None
        read = self.counts.bursts
        try:
            self._readable()
        finally:
            if self._rest is None and not self._closed:
                self._loop.add_reader(self._sock.fileno(), self._readable)
        if self.counts.bursts == read:
            self._moderation.idle()

    def _deliver(self, datagrams: list[tuple[bytes, Address]]) -> None:
        self.counts.bursts += 1
        self.counts.datagrams_received += len(datagrams)
        self._on_burst(datagrams)

    def _read_coalesced(self, datagrams: list[tuple[bytes, Address]]) -> None:
        receive = self._sock.recvmsg_into
        counts = self.counts
        buffer = self._buffer
        view = memoryview(buffer)
        space = socket.CMSG_SPACE(_GRO.size)
        read = 0
        while len(datagrams) < DATAGRAMS_PER_TURN and read < BYTES_PER_TURN:
            size, ancillary, _, address = receive([buffer], space)
            read += size
            counts.arrivals += 1
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
            self.counts.arrivals += 1
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
        again = alone = False
        while done < len(datagrams):
            stop = _batch(datagrams, done) if self._gso and not alone else done + 1
            try:
                self._write_batch(datagrams[done:stop])
            except OSError as error:
                if error.errno in _NO_SPACE:
                    return done
                batched = stop - done > 1
                if not again and (
                    error.errno == errno.EMSGSIZE or (batched and error.errno in _UNREACHABLE)
                ):
                    again = True  # it may be what ICMP said of an earlier one, and is said once
                    continue
                if batched:
                    alone = True
                    continue
                self._refused(error, *datagrams[done])
                if self._closed:
                    return len(datagrams)
            else:
                self.counts.datagrams_sent += stop - done
                if alone:
                    # The way out cannot segment (no checksum offload, a tunnel): do without.
                    self._gso = False
            again = alone = False
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

    def _refused(self, error: OSError, data: bytes, address: Address) -> None:
        """One datagram cannot be sent: the peer's loss recovery repeats what it held."""
        self.counts.datagrams_dropped += 1
        if error.errno in _UNREACHABLE:
            # Report after the current turn, so that nobody is called back in the midst of sending.
            self._loop.call_soon(self._report, error)
            return
        _logger.debug("a datagram was not sent: %s", error)
        if error.errno == errno.EMSGSIZE:
            refused = self._too_large
            refused[address] = min(len(data), refused.pop(address, len(data)))
            if len(refused) > MAX_REFUSED:
                del refused[next(iter(refused))]

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


def _never_fragments(sock: socket.socket) -> bool:
    """Have the system neither fragment nor let anybody fragment; whether it does so."""
    if not sys.platform.startswith("linux"):
        return False
    done = _accepts(sock, socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    if sock.family == socket.AF_INET6:  # which may carry IPv4, too
        return done and _accepts(sock, socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_PROBE)
    return done


def _accepts(sock: socket.socket, level: int, option: int, value: int) -> bool:
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return False
    return True

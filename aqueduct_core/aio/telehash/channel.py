"""One channel of a line: packets to and fro, in order and each once where it is reliable."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from aqueduct_core.errors import ChannelEnded
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    CloseReason,
    PacketBatch,
    PacketsAcked,
    TelehashEvent,
)
from aqueduct_core.telehash.faults import ChannelOver
from aqueduct_core.transport.awaiting import Signal

UNTAKEN = 1 << 20
"""Bytes of unreliable packets that a program has not taken; those that come on top are dropped, as
the network may do with any. Reliable ones are within the window that `TelehashConfig` gives."""
PACKET_BYTES = 400
"""Memory of a packet that waits for the program, beside its body and JSON."""


@dataclass(frozen=True, slots=True)
class ReceivedPacket:
    """What the peer has sent.

    Attributes:
        seq: its number; of an unreliable channel None.
        body: any bytes.
        js_text: compact JSON in UTF-8, or None; ``js`` is what it says.
        end: it is the last one.
    """

    seq: int | None
    body: bytes
    js_text: bytes | None = None
    end: bool = False

    @property
    def js(self) -> Any:
        """What was under ``_``; where the peer has none, its own keys; None: there are none (P4).
        Parsed anew each time."""
        return None if self.js_text is None else json.loads(self.js_text)

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return PACKET_BYTES + len(self.body) + len(self.js_text or b"")


class ChannelLine(Protocol):
    """A line, as its channels see it."""

    engine: TelehashEngine
    config: TelehashConfig
    held: int
    """Bytes of packets that its channels hold for programs."""

    @property
    def peer_name(self) -> str:
        """Who is at the other end, for errors."""

    @property
    def how_lost(self) -> str:
        """Why the line is over."""

    def now(self) -> float:
        """The clock of the engine."""

    def kick(self) -> None:
        """Have what commands brought about carried out."""


class TelehashChannel:
    """A channel that either side has opened, and an async iterator of what the peer sends on it.

    The next step of the iteration acknowledges the packet before it, so the peer learns that a
    packet was processed and not just received (T7); who leaves the loop by an error has not
    acknowledged the one at hand. Iteration stops behind the end of either side, which is that of
    both (P5).

    Usage: as a context manager, which ends it in good order (`end`), or, by an error, with an
    ``err`` (`fail`). Belongs to one event loop; several tasks may send, one may read.

    Attributes:
        number: on the wire.
        type: what it is for, as the opener has named it.
        reliable: packets come in order, each once; else as datagrams do.
        dropped: unreliable packets that came while too many were not taken.
    """

    def __init__(
        self, line: ChannelLine, number: int, type: str, *, reliable: bool, timeout: float | None
    ) -> None:
        self.number = number
        self.type = type
        self.reliable = reliable
        self.timeout = timeout
        """Seconds without a packet after which reading fails; None: never."""
        self.dropped = 0
        self._line = line
        self._changed = Signal()
        self._packets: deque[ReceivedPacket] = deque()
        self._bytes = 0
        self._heard = 0
        self._given: ReceivedPacket | None = None
        self._complete = False  # the peer's end was processed
        self._end_sent = False
        self._sent = 0
        self._acked = 0
        self._closed: CloseReason | None = None
        self._error: ChannelEnded | None = None
        self._error_told = False

    def __del__(self) -> None:
        self._hold(-self._bytes)  # of what the program has not taken, and will not

    def __repr__(self) -> str:
        state = "open" if self._closed is None else self._closed.value
        return f"<TelehashChannel {self.number} {self.type!r} with {self.peer_name}, {state}>"

    @property
    def peer_name(self) -> str:
        """Host and port of the peer."""
        return self._line.peer_name

    @property
    def unacked(self) -> int:
        """Reliable packets that were sent, and of which the peer has not said that it has processed
        them."""
        return self._sent - self._acked

    @property
    def closed(self) -> bool:
        """It is over, for whatever reason."""
        return self._closed is not None

    # Sending

    async def send(
        self, body: bytes = b"", *, js: Mapping[str, Any] | None = None, end: bool = False
    ) -> int | None:
        """Send a packet; its number, of an unreliable channel None. Waits while as many are not
        acked as the window has (`TelehashConfig.window`).

        Args:
            body: any bytes.
            js: what JSON can say; the peer finds it under ``_``.
            end: there will be none behind it, in either direction once the peer has processed it.

        Raises:
            PacketTooLarge: it does not fit; there is no fragmentation.
            ChannelEnded: FAILED: the peer has ended it by an error; CANCELLED: it was ended;
                TIMEOUT: the peer has acked nothing for too long; LOST: the line is over.
        """
        engine = self._line.engine
        while True:
            self._check_open()
            if engine.closed is None and engine.room(self.number):
                break
            await self._changed.wait()
        try:
            seq = engine.send(self.number, js=js, body=body, end=end, now=self._line.now())
        except ChannelOver:
            raise self._ended("the peer has ended it") from None
        self._end_sent |= end
        self._sent += self.reliable
        self._line.kick()
        return seq

    async def delivered(self) -> None:
        """Return when the peer has processed all that was sent; of an unreliable channel, at once.

        Raises: ChannelEnded, as of `send`: it is not known whether the rest was processed.
        """
        await self._changed.until(lambda: self.closed or not self.unacked)
        if self.unacked:
            self._raise(self._error or self._ended(f"{self.unacked} packets were not acked"))

    async def end(self, body: bytes = b"", *, js: Mapping[str, Any] | None = None) -> None:
        """Send a last packet, unless either side has ended the channel, and return when the peer
        has processed all of them. May be called again.

        Raises: PacketTooLarge, ChannelEnded, as `send`.
        """
        self.acknowledge()
        if not (self._end_sent or self._complete or self.closed):
            await self.send(body, js=js, end=True)
        await self.delivered()

    def fail(self, err: str = "failed") -> None:
        """End it at once, in both directions, with a text for the peer (P6): what was not processed
        is dropped. Does nothing where it has ended."""
        if not self.closed:
            self._line.engine.fail(self.number, err, self._line.now())
            self._close(CloseReason.FAILED, self._ended("this side has ended it"))
            self._line.kick()

    # Receiving

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedPacket:
        self.acknowledge()
        while not self._packets:
            if self._complete or self.closed:
                if self._error is not None:
                    self._raise(self._error)
                raise StopAsyncIteration
            await self._more()
        self._given = packet = self._packets.popleft()
        self._hold(-packet.size)
        return packet

    def acknowledge(self) -> None:
        """The packet that was given last is processed; the next step says so, too."""
        packet, self._given = self._given, None
        if packet is None or packet.seq is None:
            return
        if packet.end:
            self._complete = True
            self._changed.fire()  # nothing can be sent any more
        self._line.engine.done(self.number, packet.seq + 1, self._line.now())
        self._line.kick()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.fail("cancelled" if isinstance(error, asyncio.CancelledError) else "failed")
            return
        if self._error is not None and self._error_told:
            return  # the program knows, and has not minded
        try:
            await self.end()
        except BaseException:
            self.fail("cancelled")
            raise

    # What the line tells

    def opened(self, *, end: bool) -> None:
        """This side has opened it, by its first packet."""
        self._sent += self.reliable
        self._end_sent = end

    def hear(self, event: TelehashEvent) -> None:
        """Take in an event of the channel."""
        match event:
            case PacketBatch():
                self._heard += 1
                self._take_in(event)
            case PacketsAcked(_, upto):
                self._acked = upto
            case ChannelClosed(_, reason, err, by_peer, unacked):
                self._acked = self._sent - unacked
                self._close(reason, self._why(reason, err, by_peer=by_peer))
        self._changed.fire()

    def _take_in(self, batch: PacketBatch) -> None:
        for i, item in enumerate(batch.messages()):
            if not self.reliable and self._bytes > UNTAKEN:
                self.dropped += batch.count - i
                break
            packet = ReceivedPacket(
                item.number if self.reliable else None,
                item.payload,
                batch.js[i],
                batch.end and i == batch.count - 1,
            )
            self._packets.append(packet)
            self._hold(packet.size)
        if batch.end and not self.reliable:
            self._complete = True  # nothing has to be acknowledged

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._line.held += size

    async def _more(self) -> None:
        """Wait for a packet, or the end."""
        heard = self._heard
        try:
            async with asyncio.timeout(self.timeout):
                await self._changed.until(
                    lambda: bool(self._packets) or self._complete or self.closed
                )
        except TimeoutError:
            if self._heard != heard:
                return
            raise ChannelEnded(
                "NO_REPLY",
                f"Nothing came on {self._name} in {self.timeout:g} s",
                "Look whether the peer is there, or raise the timeout",
            ) from None

    def _close(self, reason: CloseReason, error: ChannelEnded | None) -> None:
        if self.closed:
            return
        self._closed, self._error = reason, error
        if error is not None and self.reliable:
            # The peer knows that they were not processed, and may send them again elsewhere.
            self._packets.clear()
            self._hold(-self._bytes)
            self._given = None
        self._changed.fire()

    def _why(self, reason: CloseReason, err: str | None, *, by_peer: bool) -> ChannelEnded | None:
        match reason:
            case CloseReason.FAILED if by_peer:
                return ChannelEnded(
                    "FAILED",
                    f"The peer has ended {self._name} by an error: {err}",
                    "See to what it says, and open another one",
                )
            case CloseReason.FAILED:
                return self._ended("this side has ended it")
            case CloseReason.TIMED_OUT:
                timeout = self._line.config.channel_timeout
                return ChannelEnded(
                    "TIMEOUT",
                    f"On {self._name} nothing was acked for {timeout:g} s: {self.unacked} packets "
                    "are not",
                    "Look whether the peer takes this type and its program reads, or raise "
                    "the channel timeout",
                )
            case CloseReason.LOST:
                return ChannelEnded(
                    "LOST",
                    f"The line of {self._name} is over: {self._line.how_lost}",
                    "Dial again, and send again what was not acked",
                )
        return None

    def _check_open(self) -> None:
        if self._error is not None:
            self._raise(self._error)
        if self.closed or self._complete or self._end_sent:
            raise self._ended("it was ended")

    def _raise(self, error: ChannelEnded) -> None:
        self._error_told = True
        raise error

    def _ended(self, how: str) -> ChannelEnded:
        return ChannelEnded(
            "CANCELLED", f"Nothing more goes over {self._name}: {how}", "Open another one"
        )

    @property
    def _name(self) -> str:
        return f"channel {self.number} '{self.type}' with {self.peer_name}"

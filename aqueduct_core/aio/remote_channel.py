"""What ``LocalChannel`` is for a local channel, for a networked one: the sink of a sender, and the
source of a receiver. Both turn calls into commands of the engine."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from aqueduct_core.aio.half import CarriedHalf, abandon
from aqueduct_core.aio.local_channel import FRAME_BYTES, LocalChannel
from aqueduct_core.aio.network import TURN_MESSAGES, NetworkConnection
from aqueduct_core.aio.outcomes import LostInTransit, Misuse, Outcome, OverLimit
from aqueduct_core.aio.receive_state import QueuedBatch, ReceiveState
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.engine import Attach, Sent
from aqueduct_core.aqueduct.events import Numbered
from aqueduct_core.aqueduct.faults import (
    ChannelGone,
    ConnectionOver,
    LocalError,
    QueueFull,
    TooLarge,
    TooMany,
)
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers

BULK_BYTES = 256 * 1024
"""Bytes that one bulk send hands to the engine before it looks at the high-water mark again."""

DATAGRAM_BULK_BYTES = 32 * 1024
"""The same for unreliable messages, of which a link takes fewer at once."""

UNNUMBERED = -1
"""In place of the number of an unreliable message that waits in the engine."""


class _Unread(NamedTuple):
    """Messages of a local queue that were not read before the channel became networked: one
    with headers or halves, or plain ones in a row."""

    payloads: list[bytes]
    headers: Headers
    carried: tuple[CarriedHalf, ...]


class RemoteSink:
    """The sink of a networked sender. ``bind`` is called with each half that has left in a message,
    and the channel that it became.

    Holds: what a local receiver had not read, until the engine has taken it (no more than a local
    queue takes), and the halves in each message that waits in the engine's send queue.
    """

    def __init__(
        self,
        network: NetworkConnection,
        state: SendState,
        channel: int,
        bind: Callable[[CarriedHalf, int], None],
    ) -> None:
        self._network = network
        self._state = state
        self._channel = channel
        self._bind = bind
        self._unread: deque[_Unread] = deque()
        self._waiting: deque[tuple[CarriedHalf, ...]] = deque()
        self._finish_then = False

    def offer(self, payload: bytes, headers: Headers, carried: Sequence[CarriedHalf]) -> int | None:
        network = self._network
        if self._unread or network.full(self):
            return None
        try:
            if self._congested():
                return None
            return self._send(payload, headers, carried)
        except QueueFull:
            return None
        except TooMany:
            network.wake_on_events(self)
            return None
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            network.kick()

    def offer_many(
        self, payloads: Sequence[bytes], start: int, headers: HeaderColumn | None = None
    ) -> tuple[int, int]:
        network, state = self._network, self._state
        if self._unread or network.full(self):
            return 0, 0
        bulk = DATAGRAM_BULK_BYTES if state.mode is Mode.UNRELIABLE else BULK_BYTES
        part = list(payloads[start : start + TURN_MESSAGES])
        del part[1 + bisect_left(list(accumulate(map(len, part))), bulk) :]
        column = None if headers is None else headers.part(start, start + len(part))
        try:
            return self._send_many(part, column)
        except QueueFull:
            return 0, 0
        except TooMany:
            network.wake_on_events(self)
            return 0, 0
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            network.kick()

    def take_over(self, queue: Iterable[QueuedBatch]) -> bool:
        """Send what a local receiver had not read, before anything else; False: the engine
        refuses some of it for good, and the channel is over."""
        for queued in queue:
            batch, carried = queued.rest()
            self._state.deliveries.wait(batch.count)
            if batch.headers or carried or self._state.oneshot:
                for i, single in enumerate(batch.messages()):
                    self._unread.append(
                        _Unread([single.payload], single.headers, carried.get(i, ()))
                    )
            else:
                self._unread.append(_Unread([one.payload for one in batch.messages()], (), ()))
        return self.resume()

    def wake(self) -> None:
        """Something that the sender waits for may be there: room, credit, events."""
        self.resume()
        self._state.notify()

    def resume(self) -> bool:
        """Go on sending what was not read; False: the engine refuses it for good."""
        try:
            while self._unread and self._resend(self._unread[0]):
                self._unread.popleft()
        except QueueFull:
            return True
        except TooMany:
            self._network.wake_on_events(self)
            return True
        except LocalError:
            # The connection ended, or takes less than a local queue: as if it were lost.
            for unread in self._unread:
                abandon(unread.carried)
            self._unread.clear()
            self.cancel()
            self._state.ended(LostInTransit(self._state.label))
            return False
        if self._finish_then and not self._unread:
            self._finish_then = False
            self.finish()
        return True

    def _resend(self, unread: _Unread) -> bool:
        """Send a message, or some of those in a row; whether all of it went."""
        self._network.kick()
        payloads, headers, carried = unread
        if headers or carried or self._state.oneshot:
            if self._congested():
                return False
            self._send(payloads[0], headers, carried, fresh=False)
            return True
        while payloads:
            _, count = self._send_many(payloads, None, fresh=False)
            del payloads[:count]
            if not count:
                return False
        return True

    def numbered(self, event: Numbered) -> None:
        """The oldest messages in the engine's queue left."""
        deliveries, count = self._state.deliveries, event.stop - event.first
        if self._state.mode is Mode.UNRELIABLE:
            deliveries.number(event.reliable, event.first, count)
        for _ in range(count):
            carried = self._waiting.popleft()
            if carried:
                for half, channel in zip(carried, event.attached, strict=True):
                    self._bind(half, channel)

    def dropped(self, count: int) -> None:
        """The oldest messages in the engine's queue will not go (AQ-SEND-12)."""
        if self._state.mode is Mode.UNRELIABLE:
            self._state.deliveries.drop(count)
        for _ in range(count):
            self._lose(self._waiting.popleft())

    def dispose(self) -> None:
        """The channel is over: what has not left never will, nor what it was to carry."""
        for unread in self._unread:
            self._lose(unread.carried)
        self._unread.clear()
        for carried in self._waiting:
            self._lose(carried)
        self._waiting.clear()

    def _lose(self, carried: Iterable[CarriedHalf]) -> None:
        """Channels that were to leave are lost on this side; nobody else knows them."""
        for half in carried:
            half.in_transit = False
            if isinstance(half, ReceiveState) and isinstance(half.source, LocalChannel):
                sender = half.source.sender
                sender.ended(self._loss(sender.label))
            elif isinstance(half, SendState) and isinstance(half.sink, LocalChannel):
                receiver = half.sink.receiver
                receiver.ended(self._loss(receiver.label))
            half.abandon()

    def _loss(self, label: str) -> Outcome:
        if self._network.engine.closed is not None:
            return self._network.lost(label)
        return LostInTransit(label)

    def finish(self) -> None:
        if self._unread:
            self._finish_then = True
        else:
            self._command(lambda: self._network.engine.finish(self._channel, self._network.now()))

    def cancel(self) -> None:
        for unread in self._unread:  # the engine tells by itself what it drops
            self._state.deliveries.drop(len(unread.payloads))
            self._lose(unread.carried)
        self._unread.clear()
        self._command(lambda: self._network.engine.cancel(self._channel, self._network.now()))

    def _send(
        self,
        payload: bytes,
        headers: Headers,
        carried: Sequence[CarriedHalf],
        *,
        fresh: bool = True,
    ) -> int:
        """``fresh``: the message is not counted in ``deliveries`` yet."""
        network, state = self._network, self._state
        attach = [
            Attach(sends=isinstance(half, ReceiveState), oneshot=half.oneshot, headers=half.headers)
            for half in carried
            if isinstance(half, SendState | ReceiveState)
        ]
        sent: Sent = network.engine.send(
            self._channel,
            payload,
            now=network.now(),
            mode=state.mode,
            headers=headers,
            attach=attach,
        )
        network.handed_over(self, len(payload) + FRAME_BYTES)
        deliveries = state.deliveries
        if not fresh:
            deliveries.leave(1)
        state.finishing = state.finishing or state.oneshot  # the engine does it by itself
        if sent.number is None:
            self._waiting.append(tuple(carried))
            for half in carried:
                half.in_transit = True
            if state.mode is Mode.UNRELIABLE:
                deliveries.wait(1)
                return UNNUMBERED
        number = deliveries.sent(sent.reliable, sent.number)
        if sent.number is not None:
            for half, channel in zip(carried, sent.attached, strict=True):
                self._bind(half, channel)
        return number

    def _send_many(
        self, payloads: Sequence[bytes], headers: HeaderColumn | None, *, fresh: bool = True
    ) -> tuple[int, int]:
        """In bulk where that can be; what fits no datagram goes one by one."""
        network, state = self._network, self._state
        engine, unreliable = network.engine, state.mode is Mode.UNRELIABLE
        datagrams = unreliable and network.datagrams
        added = 0 if headers is None else headers.longest_added
        fits = not datagrams or max(map(len, payloads)) + added <= engine.datagram_room(
            self._channel, len(payloads)
        )
        count = 0
        if fits and not state.oneshot:
            first, stop = engine.send_many(
                self._channel, payloads, now=network.now(), mode=state.mode, headers=headers
            )
            count = stop - first
        if count or not (unreliable or state.oneshot):
            if not fresh:
                state.deliveries.leave(count)
            size = sum(map(len, payloads[:count])) + FRAME_BYTES * count
            network.handed_over(self, size, count)
            return state.deliveries.sent(not datagrams, first, count), count
        numbers = []
        for i, payload in enumerate(payloads):
            if self._congested():
                break
            pairs = () if headers is None else headers[i]
            numbers.append(self._send(payload, pairs, (), fresh=fresh))
        return (numbers or [0])[0], len(numbers)

    def _congested(self) -> bool:
        """Whether the next message has to wait, for the link or for the receiver's credit, lest
        the engine drop one that waits: its ``Writable`` wakes us."""
        unreliable = self._state.mode is Mode.UNRELIABLE
        return unreliable and self._network.engine.congested(self._channel)

    def _command(self, command: Callable[[], None]) -> None:
        """A command that comes too late changes nothing: the end of the channel is on its way."""
        try:
            command()
        except (ChannelGone, ConnectionOver):
            pass
        self._network.kick()

    def _refused(self, error: LocalError) -> Exception:
        if isinstance(error, ConnectionOver | ChannelGone):
            return self._network.lost(self._state.label)
        kind = OverLimit if isinstance(error, TooLarge) else Misuse
        return kind(f"{self._state.label}: {error}")


class RemoteSource:
    """The source of a networked receiver."""

    def __init__(self, network: NetworkConnection, channel: int) -> None:
        self._network = network
        self._channel = channel

    def taken(self, size: int) -> None:
        network = self._network
        if network.closed is None:
            network.engine.consumed(self._channel, size, network.now())
            network.kick_later()

    def close(self) -> None:
        try:
            self._network.engine.close(self._channel, self._network.now())
        except (ChannelGone, ConnectionOver):
            pass
        self._network.kick()

"""What a pipe is for a local channel, for a networked one: the sink of an outlet, the source of an
inlet. Both turn calls into commands of the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from aqueduct_core.aio.local_channel import FRAME_BYTES, LocalChannel
from aqueduct_core.aio.message import CarriedHalves, abandon
from aqueduct_core.aio.outcomes import LostInTransit, Misuse, Outcome
from aqueduct_core.aio.receive_state import Queued, ReceiveState
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.engine import Attach, Sent
from aqueduct_core.aqueduct.events import Numbered
from aqueduct_core.aqueduct.faults import (
    ChannelGone,
    ConnectionOver,
    LocalError,
    QueueFull,
    TooMany,
)
from aqueduct_core.engine.message_batch import Headers

if TYPE_CHECKING:
    from aqueduct_core.aio.network import NetworkConnection

PORTION = 256 * 1024
"""Bytes that one bulk send hands to the engine before it looks at the high-water mark again."""

DATAGRAM_PORTION = 32 * 1024
"""The same for unreliable messages, of which a link takes fewer at once."""

TURN_MESSAGES = 4096
"""Messages of a turn of the event loop above which senders wait for the next one. However small
they are, each costs time, and the peer hears nothing of us meanwhile."""


UNNUMBERED = -1
"""In place of the number of an unreliable message that waits in the engine."""


class _Unread(NamedTuple):
    """Messages of a local queue that were not read before the channel became networked: one
    with headers or cargo, or plain ones in a row."""

    payloads: list[bytes]
    headers: Headers
    cargo: tuple[CarriedHalves, ...]


class RemoteSink:
    """The sink of a networked outlet.

    Holds: what a local receiver had not read, until the engine has taken it (no more than a local
    queue takes), and the cargo of each message that waits in the engine's send queue.
    """

    def __init__(self, wire: NetworkConnection, outlet: SendState, channel: int) -> None:
        self._wire = wire
        self._outlet = outlet
        self._channel = channel
        self._unread: deque[_Unread] = deque()
        self._waiting: deque[tuple[CarriedHalves, ...]] = deque()
        self._finish_then = False

    def offer(self, payload: bytes, headers: Headers, cargo: Sequence[CarriedHalves]) -> int | None:
        wire, outlet = self._wire, self._outlet
        if self._unread or wire.full(outlet):
            return None
        try:
            if self._congested():
                return None
            return self._send(payload, headers, cargo)
        except QueueFull:
            return None
        except TooMany:
            wire.hold(outlet)
            return None
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            wire.kick()

    def offer_many(self, payloads: Sequence[bytes], start: int) -> tuple[int, int]:
        wire, outlet = self._wire, self._outlet
        if self._unread or wire.full(outlet):
            return 0, 0
        stop, size = start, 0
        portion = DATAGRAM_PORTION if outlet.mode is Mode.UNRELIABLE else PORTION
        while stop < min(len(payloads), start + TURN_MESSAGES) and size < portion:
            size += len(payloads[stop])
            stop += 1
        try:
            return self._send_many(payloads[start:stop])
        except QueueFull:
            return 0, 0
        except TooMany:
            wire.hold(outlet)
            return 0, 0
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            wire.kick()

    def take_over(self, queue: Iterable[Queued]) -> bool:
        """Send what a local receiver had not read, before anything else; False: the engine
        refuses some of it for good, and the channel is over."""
        for queued in queue:
            run, cargo = queued.rest()
            self._outlet.ledger.wait(run.count)
            if run.headers or cargo or self._outlet.oneshot:
                for i, single in enumerate(run.messages()):
                    self._unread.append(_Unread([single.payload], single.headers, cargo.get(i, ())))
            else:
                self._unread.append(_Unread([one.payload for one in run.messages()], (), ()))
        return self.resume()

    def resume(self) -> bool:
        """Go on sending what was not read; False: the engine refuses it for good."""
        try:
            while self._unread and self._resend(self._unread[0]):
                self._unread.popleft()
        except QueueFull:
            return True
        except TooMany:
            self._wire.hold(self._outlet)
            return True
        except LocalError:
            # The connection ended, or takes less than a local queue: as if it were lost.
            for unread in self._unread:
                abandon(unread.cargo)
            self._unread.clear()
            self.cancel()
            self._outlet.ended(LostInTransit(self._outlet.label))
            return False
        if self._finish_then and not self._unread:
            self._finish_then = False
            self.finish()
        return True

    def _resend(self, unread: _Unread) -> bool:
        """Send a message, or some of those in a row; whether all of it went."""
        self._wire.kick()
        payloads, headers, cargo = unread
        if headers or cargo or self._outlet.oneshot:
            if self._congested():
                return False
            self._send(payloads[0], headers, cargo, fresh=False)
            return True
        while payloads:
            _, count = self._send_many(payloads, fresh=False)
            del payloads[:count]
            if not count:
                return False
        return True

    def numbered(self, item: Numbered) -> None:
        """The oldest messages in the engine's queue left."""
        wire, ledger, count = self._wire, self._outlet.ledger, item.stop - item.first
        if self._outlet.mode is Mode.UNRELIABLE:
            ledger.leave(count)
            ledger.sent(item.reliable, item.first, count)
        for _ in range(count):
            cargo = self._waiting.popleft()
            if cargo:
                for core, channel in zip(cargo, item.attached, strict=True):
                    wire.bind(core, channel)

    def dropped(self, count: int) -> None:
        """The oldest messages in the engine's queue will not go (AQ-SEND-12)."""
        if self._outlet.mode is Mode.UNRELIABLE:
            self._outlet.ledger.drop(count)
        for _ in range(count):
            self._lose(self._waiting.popleft())

    def dispose(self) -> None:
        """The channel is over: what has not left never will, nor what it was to carry."""
        for unread in self._unread:
            self._lose(unread.cargo)
        self._unread.clear()
        for cargo in self._waiting:
            self._lose(cargo)
        self._waiting.clear()

    def _lose(self, cargo: Iterable[CarriedHalves]) -> None:
        """Channels that were to leave are lost on this side; nobody else knows them."""
        for core in cargo:
            core.aboard = False
            if isinstance(core, ReceiveState) and isinstance(core.source, LocalChannel):
                stays = core.source.outlet
                stays.ended(self._loss(stays.label))
            elif isinstance(core, SendState) and isinstance(core.sink, LocalChannel):
                receiver = core.sink.inlet
                receiver.ended(self._loss(receiver.label))
            core.abandon()

    def _loss(self, label: str) -> Outcome:
        if self._wire.engine.closed is not None:
            return self._wire.lost(label)
        return LostInTransit(label)

    def finish(self) -> None:
        if self._unread:
            self._finish_then = True
        else:
            self._command(lambda: self._wire.engine.finish(self._channel, self._wire.now()))

    def cancel(self) -> None:
        for unread in self._unread:  # the engine tells by itself what it drops
            self._outlet.ledger.drop(len(unread.payloads))
            self._lose(unread.cargo)
        self._unread.clear()
        self._command(lambda: self._wire.engine.cancel(self._channel, self._wire.now()))

    def _send(
        self,
        payload: bytes,
        headers: Headers,
        cargo: Sequence[CarriedHalves],
        *,
        fresh: bool = True,
    ) -> int:
        """``fresh``: the ledger does not count the message yet."""
        wire, outlet = self._wire, self._outlet
        attach = [
            Attach(sends=isinstance(core, ReceiveState), oneshot=core.oneshot, headers=core.headers)
            for core in cargo
            if isinstance(core, SendState | ReceiveState)
        ]
        sent: Sent = wire.engine.send(
            self._channel,
            payload,
            now=wire.now(),
            mode=outlet.mode,
            headers=headers,
            attach=attach,
        )
        wire.gave(len(payload) + FRAME_BYTES)
        ledger = outlet.ledger
        if not fresh:
            ledger.leave(1)
        outlet.finishing = outlet.finishing or outlet.oneshot  # the engine does it by itself
        if sent.number is None:
            self._waiting.append(tuple(cargo))
            for core in cargo:
                core.aboard = True
            if outlet.mode is Mode.UNRELIABLE:
                ledger.wait(1)
                return UNNUMBERED
        number = ledger.sent(sent.reliable, sent.number)
        if sent.number is not None:
            for core, channel in zip(cargo, sent.attached, strict=True):
                wire.bind(core, channel)
        return number

    def _send_many(self, payloads: Sequence[bytes], *, fresh: bool = True) -> tuple[int, int]:
        """In bulk where that can be; what fits no datagram, or waits for credit although it is
        unreliable, goes one by one."""
        wire, outlet = self._wire, self._outlet
        engine, unreliable = wire.engine, outlet.mode is Mode.UNRELIABLE
        datagrams = unreliable and wire.datagrams
        fits = not datagrams or max(map(len, payloads)) <= engine.datagram_room(
            self._channel, len(payloads)
        )
        count = 0
        if fits and not outlet.oneshot:
            first, stop = engine.send_many(
                self._channel, payloads, now=wire.now(), mode=outlet.mode
            )
            count = stop - first
        if count or not (unreliable or outlet.oneshot):
            if not fresh:
                outlet.ledger.leave(count)
            wire.gave(sum(map(len, payloads[:count])) + FRAME_BYTES * count, count)
            return outlet.ledger.sent(not datagrams, first, count), count
        numbers = []
        for payload in payloads:
            if self._congested():
                break
            numbers.append(self._send(payload, (), (), fresh=fresh))
        return (numbers or [0])[0], len(numbers)

    def _congested(self) -> bool:
        """Whether the next message has to wait for the link: it comes soon, and wakes us."""
        unreliable = self._outlet.mode is Mode.UNRELIABLE
        return unreliable and self._wire.engine.congested(self._channel)

    def _command(self, command: Callable[[], None]) -> None:
        """A command that comes too late changes nothing: the end of the channel is on its way."""
        try:
            command()
        except (ChannelGone, ConnectionOver):
            pass
        self._wire.kick()

    def _refused(self, error: LocalError) -> Exception:
        if isinstance(error, ConnectionOver | ChannelGone):
            return self._wire.lost(self._outlet.label)
        return Misuse(f"{self._outlet.label}: {error}")


class RemoteSource:
    """The source of a networked inlet."""

    def __init__(self, wire: NetworkConnection, inlet: ReceiveState | None, channel: int) -> None:
        self._wire = wire
        self._inlet = inlet
        self._channel = channel

    def taken(self, size: int) -> None:
        wire = self._wire
        if wire.closed is None:
            wire.engine.consumed(self._channel, size, wire.now())
            wire.kick()

    def close(self) -> None:
        try:
            self._wire.engine.close(self._channel, self._wire.now())
        except (ChannelGone, ConnectionOver):
            pass
        self._wire.kick()

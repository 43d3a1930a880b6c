"""The two halves of a channel as applications hold them, and how to make a pair of them.

    sender, receiver = channel(mode="ordered", name="readings")

makes a channel inside this process. Sending one half inside a message,

    await connection.entrypoint.send(b"subscribe", attach=sender)

makes it a networked one; code that uses a half cannot tell. A half that is dropped without being
finished or closed is given up: a sender cancels, a receiver closes. All calls of a half
belong to the event loop in which the channel was made.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TypeAlias

from aqueduct_core.aio.attaching import claim
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.headers import HeadersLike, as_headers
from aqueduct_core.aio.local_channel import LocalChannel
from aqueduct_core.aio.message import Batch, CarriedHalves, Message, abandon_later
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    Finished,
    Misuse,
    Outcome,
    ReceiverClosed,
)
from aqueduct_core.aio.receive_state import ReceiverStatistics, ReceiveState, TakenBatch
from aqueduct_core.aio.send_state import Observer, SendState, again
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import NAME, channel_headers
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.engine.message_batch import Headers

Payload: TypeAlias = bytes | bytearray | memoryview


def channel(
    mode: str | Mode = "ordered",
    *,
    oneshot: bool = False,
    name: str | None = None,
    headers: HeadersLike = (),
) -> tuple[Sender, Receiver]:
    """A new channel with both halves in this process; needs a running event loop.

    Args:
        mode: ``ordered``, ``unordered`` or ``unreliable``.
        oneshot: at most one message; the channel finishes by itself after it (AQ-SEND-14).
        name: a stable name, told to the peer in the channel's headers; at most 256 bytes.
        headers: further headers of the channel, for the peer that gets the other half.
    """
    loop = asyncio.get_running_loop()
    pairs = channel_headers(name=name, extra=as_headers(headers))
    outlet = SendState(loop, pairs, Mode(mode), oneshot=oneshot)
    inlet = ReceiveState(loop, pairs, oneshot=oneshot)
    LocalChannel(outlet, inlet)
    return Sender(outlet), Receiver(inlet)


def oneshot(*, name: str | None = None, headers: HeadersLike = ()) -> tuple[Sender, Receiver]:
    """A new channel for one message, for instance the reply to a request."""
    return channel(oneshot=True, name=name, headers=headers)


class Sender:
    """The sending half of a channel.

    Ends when it was finished and the receiver has closed, or by one of the outcomes
    ``ReceiverClosed``, ``LostInTransit`` and ``ConnectionLost``, which every call then raises.
    As a context manager it finishes at the end, and cancels when the block raised.
    Each waiting call may be cancelled: a message was then either sent whole or not at all.
    """

    __slots__ = ("__weakref__", "_finalizer", "_outlet")

    def __init__(self, outlet: SendState) -> None:
        self._outlet: SendState | None = outlet
        self._finalizer = weakref.finalize(self, abandon_later, outlet.loop, [outlet])
        self._finalizer.atexit = False

    @property
    def mode(self) -> Mode:
        return self._core().mode

    def use(self, mode: str | Mode) -> None:
        """Choose the mode before the first message (AQ-SEND-13). Raises: Misuse after it."""
        outlet = self._core()
        if outlet.ledger.total and Mode(mode) is not outlet.mode:
            raise Misuse(f"{outlet.label} has sent messages: its mode cannot change any more")
        outlet.mode = Mode(mode)

    @property
    def name(self) -> str | None:
        return _name(self._core().headers)

    @property
    def headers(self) -> Headers:
        """The headers of the channel, as its creator gave them."""
        return self._core().headers

    @property
    def channel_id(self) -> int | None:
        """The number of the channel on its connection; None while it is local."""
        return self._core().channel

    @property
    def statistics(self) -> SenderStatistics:
        return self._core().ledger.statistics()

    @property
    def outcome(self) -> Outcome | None:
        """How the channel ended, if it did and not in good order."""
        return self._core().outcome

    def observe(self, settled: Observer, ended: Callable[[], None]) -> None:
        """Call ``settled`` for each range of messages that got an outcome, and ``ended`` at the
        end of the channel; both at once and inside the event loop, so they must not wait."""
        outlet = self._core()
        outlet.observer = settled
        outlet.on_end = ended

    async def send(
        self, payload: Payload, *, headers: HeadersLike = (), attach: Half | Iterable[Half] = ()
    ) -> int:
        """Send one message; its number. Waits while queue or transport are full.

        The message may leave later, when the receiver gives credit for it; its number is certain
        all the same. Not so on an unreliable channel: there the number is -1 where it is not
        known yet, as the link has to take the message first. The call waits for a link that is
        slower than its caller, and not for credit: without that the message is dropped
        (``statistics`` count it as nacked) when too many newer ones wait behind it (AQ-FLOW-5).

        The halves in ``attach`` leave this process with the message. They must be local ones of
        this event loop; each can be sent once.

        Raises:
            ReceiverClosed, LostInTransit, ConnectionLost: the channel has ended.
            Misuse: the call is not allowed, or the message is over a limit; nothing was sent.
        """
        data = as_payload(payload)
        pairs = as_headers(headers)
        halves = (attach,) if isinstance(attach, Sender | Receiver) else tuple(attach)
        while True:
            outlet = self._core()
            outlet.refuse()
            cargo = claim([_core(half) for half in halves], outlet) if halves else ()
            number = outlet.sink.offer(data, pairs, cargo)
            if number is not None:
                for half in halves:
                    half._leave()
                return number
            await outlet.changed.wait()

    async def send_many(self, payloads: Iterable[bytes]) -> int:
        """Send many messages without headers at the least cost; how many. Waits for room.

        Raises as ``send``; when it raises or is cancelled, a first part may have been sent
        (``statistics`` tells).
        """
        parts = list(payloads)
        position = 0
        while position < len(parts):
            outlet = self._core()
            outlet.refuse()
            if outlet.oneshot and len(parts) > 1:
                raise Misuse(f"{outlet.label} is a oneshot: it carries one message")
            _, count = outlet.sink.offer_many(parts, position)
            position += count
            if not count:
                await outlet.changed.wait()
        return len(parts)

    async def flush(self) -> None:
        """Wait until everything sent so far was acked or nacked.

        Raises: LostInTransit, ConnectionLost. A receiver that closed has nacked the rest, which
        is an answer: ``statistics`` tells it.
        """
        outlet = self._core()
        ledger, entered = outlet.ledger, outlet.ledger.entered
        await outlet.changed.until(lambda: outlet.done or ledger.left >= entered)
        mark = ledger.mark()
        await outlet.changed.until(lambda: outlet.done or outlet.ledger.reached(mark))
        if not outlet.ledger.reached(mark) and outlet.outcome is not None:
            raise again(outlet.outcome)

    async def finish(self) -> None:
        """Say that no more messages come; returns when the receiver has closed and all
        reliable messages were acked. May be called again, for instance after a cancellation.

        Raises:
            ReceiverClosed: reliable messages were not acked.
            LostInTransit, ConnectionLost: the channel ended otherwise.
        """
        outlet = self._core()
        outlet.finish()
        await outlet.changed.until(lambda: outlet.done)
        outcome = outlet.outcome
        if isinstance(outcome, ReceiverClosed) and not outcome.unacked:
            return
        if outcome is not None:
            raise again(outcome)

    async def cancel(self) -> None:
        """Give the channel up: what the receiver has not read is thrown away. Returns at once.

        Raises: Misuse after ``finish``.
        """
        self._core().cancel()

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._outlet is None:  # it left in a message
            return
        if error is None:
            if not self._outlet.cancelled:
                await self.finish()
        else:
            self._outlet.abandon()

    def _core(self) -> SendState:
        if self._outlet is None:
            raise Misuse("this sender was sent away in a message: it is no longer here")
        return self._outlet

    def _leave(self) -> None:
        outlet = self._core()
        self._finalizer.detach()
        self._outlet = None
        outlet.changed.fire()

    def __repr__(self) -> str:
        if self._outlet is None:
            return "<Sender, sent away>"
        counts = self._outlet.ledger.statistics()
        return (
            f"<Sender of {self._outlet.label}, {self._outlet.mode.value}, "
            f"{counts.sent} sent, {counts.acked} acked, {counts.nacked} nacked>"
        )


class Receiver:
    """The receiving half of a channel: an async iterator of messages.

    Ends when the sender finished (iteration stops) or by ``Cancelled``, ``Overflowed``,
    ``LostInTransit`` or ``ConnectionLost``. Holds a bounded queue: credit goes back
    to the sender only for what was taken. As a context manager it closes at the end.
    Each waiting call may be cancelled: no message is lost by that.
    """

    __slots__ = ("__weakref__", "_finalizer", "_inlet")

    def __init__(self, inlet: ReceiveState) -> None:
        self._inlet: ReceiveState | None = inlet
        self._finalizer = weakref.finalize(self, abandon_later, inlet.loop, [inlet])
        self._finalizer.atexit = False

    @property
    def name(self) -> str | None:
        return _name(self._core().headers)

    @property
    def headers(self) -> Headers:
        """The headers of the channel, as its creator gave them."""
        return self._core().headers

    @property
    def channel_id(self) -> int | None:
        """The number of the channel on its connection; None while it is local."""
        return self._core().channel

    @property
    def statistics(self) -> ReceiverStatistics:
        return self._core().statistics()

    @property
    def outcome(self) -> Outcome | None:
        """How the channel ended, if it did otherwise than by ``close`` on this side; messages may
        still be queued."""
        return self._core().outcome

    @property
    def counts(self) -> Counts:
        """What both sides counted; complete when the channel has ended."""
        return self._core().counts

    async def receive(self) -> Message:
        """The next message.

        Raises:
            Finished: the sender finished and everything was read.
            Cancelled, Overflowed, LostInTransit, ConnectionLost: the channel ended otherwise.
            Misuse: the receiver was closed on this side.
        """
        while True:
            inlet = self._core()
            taken = inlet.pop()
            if taken is not None:
                return _message(taken)
            await self._wait(inlet)

    async def runs(self) -> AsyncIterator[Batch]:
        """What arrives, as runs of messages in columns; ends and raises as iteration does."""
        while True:
            inlet = self._core()
            popped = inlet.pop_run()
            if popped is not None:
                run, first, cargo = popped
                yield Batch(run, first, cargo, wrap)
                continue
            try:
                await self._wait(inlet)
            except Finished:
                return

    async def close(self) -> None:
        """Want no more: the sender learns it, unread messages are thrown away. Returns at once."""
        self._core().close()

    def __aiter__(self) -> Receiver:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except Finished:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Receiver:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._inlet is not None:
            self._inlet.close()

    async def _wait(self, inlet: ReceiveState) -> None:
        if inlet.closed and not isinstance(inlet.outcome, ConnectionLost):
            raise Misuse(f"{inlet.label} was closed on this side: nothing more can be read")
        if inlet.outcome is not None:
            raise again(inlet.outcome)
        await inlet.changed.wait()

    def _core(self) -> ReceiveState:
        if self._inlet is None:
            raise Misuse("this receiver was sent away in a message: it is no longer here")
        return self._inlet

    def _leave(self) -> None:
        inlet = self._core()
        self._finalizer.detach()
        self._inlet = None
        inlet.changed.fire()

    def __repr__(self) -> str:
        if self._inlet is None:
            return "<Receiver, sent away>"
        counts = self._inlet.statistics()
        return (
            f"<Receiver of {self._inlet.label}, {counts.received} received, {counts.taken} taken>"
        )


Half: TypeAlias = Sender | Receiver


def wrap(core: CarriedHalves) -> Half:
    """The half for the state that came in a message."""
    core.aboard = False
    if isinstance(core, SendState):
        return Sender(core)
    assert isinstance(core, ReceiveState)
    return Receiver(core)


def _message(taken: TakenBatch) -> Message:
    single = taken.single
    return Message(single.payload, single.headers, taken.number, taken.reliable, taken.cargo, wrap)


def _core(half: Half) -> SendState | ReceiveState:
    if not isinstance(half, Sender | Receiver):
        raise TypeError(f"only senders and receivers can be attached, not {half!r}")
    return half._core()


def _name(headers: Headers) -> str | None:
    value = next((value for key, value in headers if key == NAME), None)
    return None if value is None else value.decode(errors="replace")


def as_payload(payload: Payload) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"a payload is bytes, not {type(payload).__name__}; encode text first")

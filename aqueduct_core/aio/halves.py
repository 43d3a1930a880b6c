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
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, TypeAlias

from aqueduct_core.aio.deliveries import DeliveryReport, SenderStatistics
from aqueduct_core.aio.half import CarriedHalf, Half
from aqueduct_core.aio.local_channel import LocalChannel, attachable
from aqueduct_core.aio.message import Batch, HeadersLike, Message, as_headers
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    Finished,
    Misuse,
    ReceiverClosed,
)
from aqueduct_core.aio.receive_state import ReceiverStatistics, ReceiveState, TakenMessage
from aqueduct_core.aio.send_state import Observer, SendState, again
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import channel_headers
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.escape import escaped

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

    Raises:
        Misuse: no event loop is running.
        BadHeader: a name or header that is too long or not of its form; a ``ValueError``.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise Misuse(
            "a channel belongs to an event loop, and none is running here: make it inside a "
            "coroutine, such as the one that asyncio.run runs"
        ) from None
    pairs = channel_headers(name=name, extra=as_headers(headers))
    send_state = SendState(loop, pairs, Mode(mode), oneshot=oneshot)
    receive_state = ReceiveState(loop, pairs, oneshot=oneshot)
    LocalChannel(send_state, receive_state)
    return Sender(send_state), Receiver(receive_state)


def oneshot(*, name: str | None = None, headers: HeadersLike = ()) -> tuple[Sender, Receiver]:
    """A new channel for one message, for instance the reply to a request."""
    return channel(oneshot=True, name=name, headers=headers)


class Sender(Half[SendState]):
    """The sending half of a channel.

    Ends when it was finished and the receiver has closed, or by one of the outcomes
    ``ReceiverClosed``, ``LostInTransit`` and ``ConnectionLost``, which every call then raises.
    As a context manager it finishes at the end, and cancels when the block raised.
    Each waiting call may be cancelled: a message was then either sent whole or not at all.
    """

    __slots__ = ()

    @property
    def mode(self) -> Mode:
        return self._present().mode

    def use(self, mode: str | Mode) -> None:
        """Choose the mode before the first message (AQ-SEND-13). Raises: Misuse after it."""
        state = self._present()
        if state.deliveries.total and Mode(mode) is not state.mode:
            raise Misuse(f"{state.label} has sent messages: its mode cannot change any more")
        state.mode = Mode(mode)

    @property
    def statistics(self) -> SenderStatistics:
        return self._present().deliveries.statistics()

    def observe(self, settled: Observer, ended: Callable[[], None]) -> None:
        """Call ``settled`` for each range of messages that got an outcome, and ``ended`` at the
        end of the channel; both at once and inside the event loop, so they must not wait."""
        state = self._present()
        state.observer = settled
        state.on_end = ended

    async def send(
        self,
        payload: Payload,
        *,
        headers: HeadersLike = (),
        attach: Half[Any] | Iterable[Half[Any]] = (),
    ) -> int:
        """Send one message; its number. Waits while queue or transport are full.

        The message may leave later, when the receiver gives credit for it; its number is certain
        all the same. Not so on an unreliable channel: there the number is -1 where it is not
        known yet, as the link has to take the message first. There too the call waits for a link
        and a receiver that are slower than its caller: nothing is dropped on this side. Who has
        fresh data and would rather lose some of it than wait gives the call a time
        (``asyncio.timeout``): a message that it interrupts was not sent.

        The halves in ``attach`` leave this process with the message. They must be local ones of
        this event loop; each can be sent once.

        A call that is cancelled has sent nothing.

        Raises:
            ReceiverClosed, LostInTransit, ConnectionLost: the channel has ended.
            Misuse: the call is not allowed, or the message is over a limit; nothing was sent.
        """
        data = as_payload(payload)
        pairs = as_headers(headers)
        halves = (attach,) if isinstance(attach, Half) else tuple(attach)
        while True:
            state = self._here()
            state.refuse()
            carried = attachable([_state_of(half) for half in halves], state) if halves else ()
            number = state.sink.offer(data, pairs, carried)
            if number is not None:
                for half in halves:
                    half._leave()
                return number
            try:
                await state.room.wait()
            except asyncio.CancelledError as error:
                error.add_note(f"the message for {state.label} was not sent")
                raise

    async def send_and_wait(
        self,
        payload: Payload,
        *,
        headers: HeadersLike = (),
        attach: Half[Any] | Iterable[Half[Any]] = (),
    ) -> DeliveryReport:
        """Send one message, and return when it is acked or nacked.

        As ``send``; an ack says that the receiver has the message, and that it is stored where the
        receiver is an intake. Messages are sent one behind the other's ack by this: for many, call
        ``send``, and ``flush`` behind the last one.

        A call that is cancelled while it waits for the outcome has sent the message; a note on the
        ``CancelledError`` says which of both it was.

        Raises: as ``send``, when nothing was sent; ConnectionLost, and Misuse where the channel was
        cancelled on this side, also when the message was sent, and nobody can say any more what
        became of it.
        """
        number = await self.send(payload, headers=headers, attach=attach)
        return await delivery_of_latest(self, number)

    async def send_many(
        self, payloads: Iterable[bytes], *, headers: HeaderColumn | None = None
    ) -> int:
        """Send many messages at the least cost; how many. Waits for room.

        ``headers``, one for each payload where there are any, are a column: encoded once, however
        often they are sent (``HeaderColumn.of``).

        Raises as ``send``; when it raises or is cancelled, a first part may have been sent:
        ``statistics`` tell, and a note on the ``CancelledError``.
        """
        parts = list(payloads)
        if headers is not None and len(headers) != len(parts):
            raise Misuse(f"headers of {len(headers)} messages for {len(parts)} payloads")
        position = 0
        while position < len(parts):
            state = self._here()
            state.refuse()
            if state.oneshot and len(parts) > 1:
                raise Misuse(f"{state.label} is a oneshot: it carries one message")
            _, count = state.sink.offer_many(parts, position, headers)
            position += count
            if not count:
                try:
                    await state.room.wait()
                except asyncio.CancelledError as error:
                    error.add_note(f"{position} of {len(parts)} messages were sent")
                    raise
        return len(parts)

    async def flush(self) -> None:
        """Wait until everything sent so far was acked or nacked.

        Raises: LostInTransit, ConnectionLost. A receiver that closed has nacked the rest, which
        is an answer: ``statistics`` tells it.
        """
        state = self._here()
        deliveries, entered = state.deliveries, state.deliveries.entered
        await state.changed.until(lambda: state.done or deliveries.left >= entered)
        mark = deliveries.mark()
        await state.changed.until(lambda: state.done or deliveries.reached(mark))
        if not deliveries.reached(mark) and state.outcome is not None:
            raise again(state.outcome)

    async def finish(self) -> None:
        """Say that no more messages come; returns when the receiver has closed and all
        reliable messages were acked. May be called again, for instance after a cancellation.

        Raises:
            ReceiverClosed: reliable messages were not acked.
            LostInTransit, ConnectionLost: the channel ended otherwise.
        """
        state = self._here()
        state.finish()
        await state.changed.until(lambda: state.done)
        outcome = state.outcome
        if isinstance(outcome, ReceiverClosed) and not outcome.unacked:
            return
        if outcome is not None:
            raise again(outcome)

    async def close(self, reason: str = "") -> None:
        """End the channel in good order: ``finish``, or nothing where it was cancelled. May be
        called again. ``reason`` is for this side, see ``cancel``. Raises: as ``finish``."""
        state = self._here()
        if not state.cancelled:
            state.reason = state.reason or reason
            await self.finish()

    async def cancel(self, reason: str = "") -> None:
        """Give the channel up: what the receiver has not read is thrown away. Returns at once, and
        may be called again.

        ``reason`` stands in the errors of later calls on this side. The protocol has no place
        for it: the receiver learns that the channel was cancelled, and not why.

        Raises: Misuse while a ``finish`` is under way, which the protocol cannot take back.
        """
        self._here().cancel(reason)

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state is None:  # it left in a message
            return
        if error is None:
            if not self._state.cancelled:
                await self.finish()
        else:
            self._state.abandon()

    def __repr__(self) -> str:
        if self._state is None:
            return "<Sender, sent away>"
        counts = self._state.deliveries.statistics()
        return (
            f"<Sender of {self._state.label}, {self._state.mode.value}, "
            f"{counts.sent} sent, {counts.acked} acked, {counts.nacked} nacked>"
        )


class Receiver(Half[ReceiveState]):
    """The receiving half of a channel, an async iterator of messages.

    Ends when the sender finished (iteration stops) or by ``Cancelled``, ``Overflowed``,
    ``LostInTransit`` or ``ConnectionLost``. Holds a bounded queue: credit goes back
    to the sender only for what was taken. As a context manager it closes at the end.
    Each waiting call may be cancelled: no message is lost by that.
    """

    __slots__ = ()

    @property
    def statistics(self) -> ReceiverStatistics:
        return self._present().statistics()

    @property
    def counts(self) -> Counts:
        """What both sides counted; complete when the channel has ended."""
        return self._present().counts

    async def receive(self) -> Message:
        """The next message.

        Raises:
            Finished: the sender finished and everything was read.
            Cancelled, Overflowed, LostInTransit, ConnectionLost: the channel ended otherwise.
            Misuse: the receiver was closed on this side.
        """
        while True:
            state = self._here()
            taken = state.pop()
            if taken is not None:
                return _message(taken)
            await self._wait(state)

    async def batches(self) -> AsyncIterator[Batch]:
        """Receive what arrives in columns, many messages at a time, at the least cost.

        Ends and raises as iteration does.
        """
        while True:
            state = self._here()
            popped = state.pop_batch()
            if popped is not None:
                columns, first, carried = popped
                yield Batch(columns, first, carried, wrap)
                continue
            try:
                await self._wait(state)
            except Finished:
                return

    async def close(self, reason: str = "") -> None:
        """Want no more: what has arrived is acked, what is unread is thrown away, and the sender
        learns that what it sent beyond that is nacked. Returns at once, and may be called again.

        ``reason`` stands in the errors of later calls on this side; the protocol has no place for
        it, so the sender does not learn it.
        """
        state = self._here()
        if not state.closed:
            state.reason = reason
        state.close()

    async def cancel(self, reason: str = "") -> None:
        """The same as ``close``: the protocol knows one way for a receiver to end a channel."""
        await self.close(reason)

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
        if self._state is not None:
            self._state.close()

    async def _wait(self, state: ReceiveState) -> None:
        if state.closed and not isinstance(state.outcome, ConnectionLost):
            why = f" ({escaped(state.reason)})" if state.reason else ""
            raise Misuse(f"{state.label} was closed on this side{why}: nothing more can be read")
        if state.outcome is not None:
            raise again(state.outcome)
        await state.changed.wait()

    def __repr__(self) -> str:
        if self._state is None:
            return "<Receiver, sent away>"
        counts = self._state.statistics()
        return (
            f"<Receiver of {self._state.label}, {counts.received} received, {counts.taken} taken>"
        )


async def delivery_of_latest(sender: Sender, number: int) -> DeliveryReport:
    """See ``SendState.delivery_of_latest``."""
    return await sender._present().delivery_of_latest(number)


def wrap(state: CarriedHalf) -> Half[Any]:
    """The half for the state that came in a message."""
    state.in_transit = False
    if isinstance(state, SendState):
        return Sender(state)
    assert isinstance(state, ReceiveState)
    return Receiver(state)


def _message(taken: TakenMessage) -> Message:
    single = taken.single
    return Message(
        single.payload, single.headers, taken.number, taken.reliable, taken.carried, wrap
    )


def _state_of(half: Half[Any]) -> SendState | ReceiveState:
    if not isinstance(half, Sender | Receiver):
        raise TypeError(f"only senders and receivers can be attached, not {half!r}")
    return half._present()


def as_payload(payload: Payload) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"a payload is bytes, not {type(payload).__name__}; encode text first")

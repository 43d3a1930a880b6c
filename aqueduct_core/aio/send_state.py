"""The state behind a ``Sender``: it stays the same when the channel becomes networked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from aqueduct_core.aio.deliveries import Deliveries, DeliveryReport, Verdict
from aqueduct_core.aio.half import CarriedHalf
from aqueduct_core.aio.outcomes import LostInTransit, Misuse, Outcome, ReceiverClosed
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import NAME
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.escape import escaped
from aqueduct_core.transport.awaiting import Signal

Observer = Callable[[bool, int, int, bool], None]
"""Called with (reliable, first, stop, acked) when messages of a sender have an outcome."""


class MessageSink(Protocol):
    """Where the messages of a sender go: a local or a networked channel.

    No call waits. ``offer`` and ``offer_many`` take nothing where there is no room, and fire
    ``SendState.room`` when there may be room again.
    """

    def offer(self, payload: bytes, headers: Headers, carried: Sequence[CarriedHalf]) -> int | None:
        """Take one message; its number, or None where there is no room now."""

    def offer_many(
        self, payloads: Sequence[bytes], start: int, headers: HeaderColumn | None = None
    ) -> tuple[int, int]:
        """Take some of ``payloads[start:]``: the number of the first one and how many. ``headers``
        are those of all ``payloads``."""

    def finish(self) -> None: ...

    def cancel(self) -> None: ...


class SendState:
    """The sending half of a channel.

    Ends when the receiver closed (after ``finish``: in good order), the channel or the connection
    was lost, or the sender cancelled; then ``done`` is set, and ``outcome`` says why unless it
    was a good end. ``changed`` fires whenever something a caller may wait for has changed; ``room``
    only when a message that found no room may find some, or an end: acks wake no such caller.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        headers: Headers = (),
        mode: Mode = Mode.ORDERED,
        *,
        oneshot: bool = False,
        channel: int | None = None,
    ) -> None:
        self.loop = loop
        self.headers = headers
        self.mode = mode
        self.oneshot = oneshot
        self.channel = channel
        self.deliveries = Deliveries()
        self.changed = Signal()
        self.room = Signal()
        self.sink: MessageSink
        self.in_transit = False
        self.finishing = False
        self.cancelled = False
        self.reason = ""
        """Why it was cancelled or finished, in the words of this side."""
        self.done = False
        self.outcome: Outcome | None = None
        self.observer: Observer | None = None
        self.on_end: Callable[[], None] | None = None

    @property
    def label(self) -> str:
        return label(self.channel, self.headers)

    def refuse(self) -> None:
        """Raise unless messages may be sent. Raises: an Outcome, or Misuse."""
        if self.outcome is not None:
            raise again(self.outcome)
        if self.cancelled:
            raise Misuse(f"{self._by_us('cancelled')}: nothing more can be sent")
        if self.oneshot and self.deliveries.total:
            raise Misuse(f"{self.label} is a oneshot: it carries one message, which was sent")
        if self.finishing or self.done:
            raise Misuse(f"{self._by_us('finished')}: nothing more can be sent")

    def refuse_travel(self) -> None:
        """Raise unless this half may be attached. A receiver that closed is no hindrance."""
        if not isinstance(self.outcome, ReceiverClosed):
            self.refuse()

    def finish(self) -> None:
        """No more messages. Does nothing when that is already so. Raises: Misuse after cancel."""
        if self.cancelled:
            raise Misuse(f"{self._by_us('cancelled')}: it cannot be finished")
        if not self.finishing and not self.done:
            self.finishing = True
            self.sink.finish()

    def cancel(self, reason: str) -> None:
        """Give the channel up. Raises: Misuse after finish (the protocol knows no way back)."""
        if self.finishing and not self.done:
            raise Misuse(f"{self._by_us('finished')}: it cannot be cancelled")
        if not self.done:
            self.reason = reason
        self.abandon()

    def abandon(self) -> None:
        """As ``cancel``, and nothing when the sender was finished or has ended."""
        if not self.finishing and not self.done:
            self.cancelled = True
            self.done = True
            self.sink.cancel()
            self._report_end()

    def settled(self, reliable: bool, first: int, stop: int, acked: bool) -> None:
        """Messages ``first`` to ``stop``, as the channel numbers them, have an outcome."""
        first, stop = self.deliveries.settle(reliable, first, stop, acked)
        if self.observer is not None:
            self.observer(reliable, first, stop, acked)
        self.changed.fire()

    def ended(self, outcome: Outcome | None) -> None:
        """The channel is over; None: the receiver closed it, which is good if all was acked."""
        if self.done:
            return
        self.done = True
        if outcome is None or isinstance(outcome, ReceiverClosed):
            self.deliveries.nack_rest()  # the engine has told most of that already
            nacked = self.deliveries.reliable.nacked
            lost = nacked > 0 or not self.finishing
            self.outcome = ReceiverClosed(self.label, nacked) if lost else None
        else:
            if isinstance(outcome, LostInTransit):
                self.deliveries.nack_rest()
            self.outcome = outcome
        self._report_end()

    async def delivery_of_latest(self, number: int) -> DeliveryReport:
        """What becomes of the message that was sent just now, under this number; to be called at
        once. Raises: ConnectionLost, LostInTransit; Misuse where the channel is cancelled."""
        verdict: Verdict = self.loop.create_future()
        self.deliveries.await_latest(verdict)
        try:
            acked = await verdict
        except asyncio.CancelledError as error:
            error.add_note(f"message {number} of {self.label} was sent; its outcome is not known")
            raise
        if acked:
            return DeliveryReport(number, True)
        if acked is None:
            if self.outcome is not None:
                raise again(self.outcome)
            raise Misuse(f"{self._by_us('cancelled')}: what became of message {number} is unknown")
        if isinstance(self.outcome, ReceiverClosed | LostInTransit):
            return DeliveryReport(number, False, self.outcome.what)
        return DeliveryReport(number, False, "it was lost on the way, or did not come in time")

    def _by_us(self, verb: str) -> str:
        why = f" ({escaped(self.reason)})" if self.reason else ""
        return f"{self.label} was {verb} on this side{why}"

    def notify(self) -> None:
        """There may be room, or it is another channel: whoever waits looks again."""
        self.changed.fire()
        self.room.fire()

    def _report_end(self) -> None:
        """Who observed is told for the last time, and let go: it may hold the sender, whose
        finalizer holds this."""
        self.deliveries.leave_unknown()
        self.notify()
        on_end, self.on_end, self.observer = self.on_end, None, None
        if on_end is not None:
            on_end()


def label(channel: int | None, headers: Headers) -> str:
    """What a channel is called in texts: its id and its name, as far as it has them."""
    name = next((value for key, value in headers if key == NAME), b"")
    where = "a local channel" if channel is None else f"channel {channel}"
    return f"{where} '{escaped(name)}'" if name else where


def again(outcome: Outcome) -> Outcome:
    """A fresh copy to raise: a stored one would gather the traces of all who met it."""
    copy: Outcome = type(outcome)(*outcome.args)
    return copy

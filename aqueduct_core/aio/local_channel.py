"""A channel inside one process: both halves are here, and may become networked later.

It behaves as a networked channel whose peer acks on receipt: a message is acked when it is in the
receiver's queue, unread messages survive a finish and not a cancel, and a full queue makes
senders wait. When one half leaves in a message that goes on a connection, the other half is bound
to the new networked channel (``ChannelTable.bind``), and what was not read goes out there as the
first messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from aqueduct_core.aio.half import CarriedHalf
from aqueduct_core.aio.message import batch_of, single_batch
from aqueduct_core.aio.outcomes import Cancelled, Finished, Misuse, OverLimit, ReceiverClosed
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.egress import check_headers
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.aqueduct.faults import LocalError, TooLarge
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers

QUEUE_BYTES = 4 * 1024 * 1024
"""A local queue takes messages up to this many bytes; the same as the transport's stream window."""
FRAME_BYTES = 16
"""What a message costs in the queue apart from its payload: about a frame's head."""
_LIMITS = Config()


class LocalChannel:
    """Both ends of a local channel: the sink of ``sender`` and the source of ``receiver``."""

    def __init__(self, sender: SendState, receiver: ReceiveState) -> None:
        self.sender = sender
        self.receiver = receiver
        sender.sink = self
        receiver.source = self

    # as a sink

    def offer(self, payload: bytes, headers: Headers, carried: Sequence[CarriedHalf]) -> int | None:
        self._check(payload, headers, carried)
        if self._full():
            return None
        reliable = self._reliable(len(payload))
        number = self.sender.deliveries.sent(reliable, None)
        size = FRAME_BYTES + len(payload) + sum(len(k) + len(v) for k, v in headers)
        batch = single_batch(payload, headers, number, reliable, size)
        self._acknowledge(batch.first, 1, reliable)
        for half in carried:
            half.in_transit = True
        self.receiver.put(batch, {0: tuple(carried)} if carried else {})
        if self.sender.oneshot:
            self.sender.finish()
        return number

    def offer_many(
        self, payloads: Sequence[bytes], start: int, headers: HeaderColumn | None = None
    ) -> tuple[int, int]:
        if headers is not None:  # there is no wire to encode them for
            number = self.offer(payloads[start], headers[start], ())
            return (0, 0) if number is None else (number, 1)
        if self._full():
            return 0, 0
        reliable = self._reliable(len(payloads[start]))
        size, stop = 0, start
        while (
            stop < len(payloads)
            and size < QUEUE_BYTES
            and self._reliable(len(payloads[stop])) is reliable
        ):
            self._check(payloads[stop], (), ())
            size += FRAME_BYTES + len(payloads[stop])
            stop += 1
        count = stop - start
        number = self.sender.deliveries.sent(reliable, None, count)
        self._acknowledge(number, count, reliable)
        self.receiver.put(batch_of(payloads[start:stop], number, reliable, size, {}), {})
        return number, count

    def finish(self) -> None:
        sent = self.sender.deliveries.reliable.next
        self.receiver.ended(
            Finished(self.receiver.label), self._counts()._replace(reliable_sent=sent)
        )
        self.sender.ended(None)

    def cancel(self) -> None:
        self.receiver.ended(Cancelled(self.receiver.label), self._counts())

    # as a source

    def taken(self, size: int) -> None:
        if not self._full():
            self.sender.notify()

    def close(self) -> None:
        if self.receiver.outcome is None:
            self.receiver.counted(self._counts())
        if not self.sender.done:
            self.sender.ended(ReceiverClosed(self.sender.label))

    def _counts(self) -> Counts:
        reliable, unreliable = self.sender.deliveries.mark()
        return Counts(0, reliable, unreliable, acked=reliable + unreliable)

    def _full(self) -> bool:
        return self.receiver.queued >= QUEUE_BYTES

    def _reliable(self, size: int) -> bool:
        """A message that fits no datagram goes by stream (AQ-SEND-3); so it counts as one."""
        return self.sender.mode is not Mode.UNRELIABLE or size > _LIMITS.max_datagram_size

    def _acknowledge(self, number: int, count: int, reliable: bool) -> None:
        space = self.sender.deliveries.space(reliable)
        self.sender.settled(reliable, number - space.base, number - space.base + count, True)

    def _check(self, payload: bytes, headers: Headers, carried: Sequence[CarriedHalf]) -> None:
        """The limits of the engine hold for a local channel too: it may become networked."""
        if len(payload) > _LIMITS.max_payload_bytes:
            raise OverLimit(
                f"a payload of {len(payload)} bytes is over the limit of "
                f"{_LIMITS.max_payload_bytes} bytes"
            )
        try:
            check_headers(headers, _LIMITS)
            for half in carried:
                check_headers(half.headers, _LIMITS)
        except TooLarge as error:
            raise OverLimit(f"{error} are over the limits") from None
        except LocalError as error:
            raise Misuse(str(error)) from None
        if len(carried) > _LIMITS.max_attachments:
            raise OverLimit(
                f"{len(carried)} attachments are over the limit of {_LIMITS.max_attachments}"
            )


def attachable(states: Sequence[SendState | ReceiveState], carrier: SendState) -> list[CarriedHalf]:
    """Check that these halves may leave in a message of ``carrier``; nothing changes.

    Raises: Misuse for a half of another event loop, one that is networked, has ended or would
    travel inside itself, and for both halves of one channel.
    """
    channels: set[LocalChannel] = set()
    carried: list[CarriedHalf] = []
    for state in states:
        local = state.sink if isinstance(state, SendState) else state.source
        if state.loop is not carrier.loop:
            raise Misuse(f"{state.label} belongs to another event loop: it cannot be attached here")
        if not isinstance(local, LocalChannel):
            raise Misuse(
                f"{state.label} is networked already: a half travels once; attach a half of a new "
                "channel, and pass on to it what this one receives"
            )
        if local in channels:
            raise Misuse(f"{state.label}: only one half of a channel can be sent away")
        if local is carrier.sink:
            raise Misuse(f"{state.label} cannot travel inside itself")
        other: CarriedHalf = local.receiver if state is local.sender else local.sender
        if other.in_transit:
            raise Misuse(f"{state.label}: its other half is inside a message that was not read yet")
        if isinstance(state, SendState):
            state.refuse_travel()
        elif state.closed:
            raise Misuse(f"{state.label} was closed: it cannot be attached")
        channels.add(local)
        carried.append(state)
    return carried

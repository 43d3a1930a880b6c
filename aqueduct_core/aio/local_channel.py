"""A channel inside one process: both halves are here, and may become networked later.

It behaves as a networked channel whose peer acks on receipt: a message is acked when it is in the
receiver's queue, unread messages survive a finish and not a cancel, and a full queue makes
senders wait. When one half leaves in a message that goes on a connection, the other half is bound
to the new networked channel (``Networked``), and what was not read goes out there as the first
messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from aqueduct_core.aio.message import CarriedHalves, run_of, single_run
from aqueduct_core.aio.outcomes import Cancelled, Finished, Misuse, ReceiverClosed
from aqueduct_core.aio.receive_state import ReceiveState
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.egress import check_headers
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.engine.message_batch import Headers

QUEUE_BYTES = 4 * 1024 * 1024
"""A local queue takes messages up to this many bytes; the same as the transport's stream window."""
FRAME_BYTES = 16
"""What a message costs in the queue apart from its payload: about a frame's head."""
_LIMITS = Config()


class LocalChannel:
    """Both ends of a local channel: the sink of ``outlet`` and the source of ``inlet``."""

    def __init__(self, outlet: SendState, inlet: ReceiveState) -> None:
        self.outlet = outlet
        self.inlet = inlet
        outlet.sink = self
        inlet.source = self

    # as a sink

    def offer(self, payload: bytes, headers: Headers, cargo: Sequence[CarriedHalves]) -> int | None:
        self._check(payload, headers, cargo)
        if self._full():
            return None
        reliable = self._reliable(len(payload))
        number = self.outlet.ledger.sent(reliable, None)
        size = FRAME_BYTES + len(payload) + sum(len(k) + len(v) for k, v in headers)
        run = single_run(payload, headers, number, reliable, size)
        self._deliver_run(run.first, 1, reliable)
        for core in cargo:
            core.aboard = True
        self.inlet.put(run, {0: tuple(cargo)} if cargo else {})
        if self.outlet.oneshot:
            self.outlet.finish()
        return number

    def offer_many(self, payloads: Sequence[bytes], start: int) -> tuple[int, int]:
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
        number = self.outlet.ledger.sent(reliable, None, count)
        self._deliver_run(number, count, reliable)
        self.inlet.put(run_of(payloads[start:stop], number, reliable, size, {}), {})
        return number, count

    def finish(self) -> None:
        sent = self.outlet.ledger.reliable.next
        self.inlet.ended(Finished(self.inlet.label), self._counts()._replace(reliable_sent=sent))
        self.outlet.ended(None)

    def cancel(self) -> None:
        self.inlet.ended(Cancelled(self.inlet.label), self._counts())

    # as a source

    def taken(self, size: int) -> None:
        if not self._full():
            self.outlet.changed.fire()

    def close(self) -> None:
        if self.inlet.outcome is None:
            self.inlet.counted(self._counts())
        if not self.outlet.done:
            self.outlet.ended(ReceiverClosed(self.outlet.label))

    def _counts(self) -> Counts:
        reliable, unreliable = self.outlet.ledger.mark()
        return Counts(0, reliable, unreliable, acked=reliable + unreliable)

    def _full(self) -> bool:
        return self.inlet.queued >= QUEUE_BYTES

    def _reliable(self, size: int) -> bool:
        """A message that fits no datagram goes by stream (AQ-SEND-3); so it counts as one."""
        return self.outlet.mode is not Mode.UNRELIABLE or size > _LIMITS.max_datagram_size

    def _deliver_run(self, number: int, count: int, reliable: bool) -> None:
        space = self.outlet.ledger.space(reliable)
        self.outlet.settled(reliable, number - space.base, number - space.base + count, True)

    def _check(self, payload: bytes, headers: Headers, cargo: Sequence[CarriedHalves]) -> None:
        """The limits of the engine hold for a local channel too: it may become networked."""
        if len(payload) > _LIMITS.max_payload_bytes:
            raise Misuse(
                f"a payload of {len(payload)} bytes is over the limit of "
                f"{_LIMITS.max_payload_bytes} bytes"
            )
        try:
            check_headers(headers, _LIMITS)
            for core in cargo:
                check_headers(core.headers, _LIMITS)
        except LocalError as error:
            raise Misuse(f"{error} are over the limits") from None
        if len(cargo) > _LIMITS.max_attachments:
            raise Misuse(
                f"{len(cargo)} attachments are over the limit of {_LIMITS.max_attachments}"
            )

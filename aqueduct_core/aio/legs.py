"""What a pipe is for a local channel, for a networked one: the sink of an outlet, the source of an
inlet. Both turn calls into commands of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aqueduct_core.aio.inlet import Inlet, Queued
from aqueduct_core.aio.message import Cargo
from aqueduct_core.aio.outcomes import Misuse
from aqueduct_core.aio.outlet import Outlet
from aqueduct_core.aio.pipe import FRAME_BYTES
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.connection import Attach, Sent
from aqueduct_core.aqueduct.faults import ChannelGone, ConnectionOver, LocalError, TooMany
from aqueduct_core.aqueduct.news import Headers

if TYPE_CHECKING:
    from aqueduct_core.aio.wire import Wire

PORTION = 256 * 1024
"""Bytes that one bulk send hands to the engine before it looks at the high-water mark again."""


class WireOut:
    """The sink of a networked outlet."""

    def __init__(self, wire: Wire, outlet: Outlet, channel: int) -> None:
        self._wire = wire
        self._outlet = outlet
        self._channel = channel

    def offer(self, payload: bytes, headers: Headers, cargo: Sequence[Cargo]) -> int | None:
        wire, outlet = self._wire, self._outlet
        if wire.full(outlet):
            return None
        try:
            return self._send(payload, headers, cargo)
        except TooMany:
            wire.block(outlet)
            return None
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            wire.kick()

    def offer_many(self, payloads: Sequence[bytes], start: int) -> tuple[int, int]:
        wire, outlet = self._wire, self._outlet
        if wire.full(outlet):
            return 0, 0
        stop, size = start, 0
        while stop < len(payloads) and size < PORTION:
            size += len(payloads[stop])
            stop += 1
        try:
            return self._send_many(payloads[start:stop])
        except TooMany:
            wire.block(outlet)
            return 0, 0
        except LocalError as error:
            raise self._refused(error) from None
        finally:
            wire.kick()

    def resend(self, queued: Queued) -> None:
        """Send what a local receiver had not read. Raises: LocalError."""
        run, cargo = queued.rest()
        if run.headers or cargo or self._outlet.oneshot:
            for i, single in enumerate(run.messages()):
                self._send(single.payload, single.headers, cargo.get(i, ()))
        else:
            self._send_many([single.payload for single in run.messages()])

    def finish(self) -> None:
        self._command(lambda: self._wire.engine.finish(self._channel, self._wire.now()))

    def cancel(self) -> None:
        self._command(lambda: self._wire.engine.cancel(self._channel, self._wire.now()))

    def _send(self, payload: bytes, headers: Headers, cargo: Sequence[Cargo]) -> int:
        wire, outlet = self._wire, self._outlet
        attach = [
            Attach(sends=isinstance(core, Inlet), oneshot=core.oneshot, headers=core.headers)
            for core in cargo
            if isinstance(core, Outlet | Inlet)
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
        number = outlet.ledger.sent(sent.reliable, sent.number)
        outlet.finishing = outlet.finishing or outlet.oneshot  # the engine does it by itself
        for core, channel in zip(cargo, sent.attached, strict=True):
            wire.bind(core, channel)
        return number

    def _send_many(self, payloads: Sequence[bytes]) -> tuple[int, int]:
        """Bulk for streams; a datagram costs a datagram, so those go one by one."""
        wire, outlet = self._wire, self._outlet
        if outlet.mode is Mode.UNRELIABLE or outlet.oneshot:
            numbers = [self._send(payload, (), ()) for payload in payloads]
            return numbers[0], len(numbers)
        first, stop = wire.engine.send_many(
            self._channel, payloads, now=wire.now(), mode=outlet.mode
        )
        wire.gave(sum(map(len, payloads)) + FRAME_BYTES * len(payloads))
        return outlet.ledger.sent(True, first, stop - first), stop - first

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


class WireIn:
    """The source of a networked inlet."""

    def __init__(self, wire: Wire, inlet: Inlet | None, channel: int) -> None:
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

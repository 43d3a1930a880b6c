"""Read every channel of connections and print it: what ``listen`` and ``subscribe`` share."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any, NamedTuple

from aqueduct_core.aio.connection import Connection
from aqueduct_core.aio.half import Half
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    Finished,
    LostInTransit,
    Misuse,
    Outcome,
    Overflowed,
)
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.output import Origin, Output, Silence, make_output
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.escape import escaped
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.awaiting import Signal

_KINDS: dict[type[Outcome], str] = {
    Finished: "finished",
    Cancelled: "cancelled",
    LostInTransit: "lost",
    Overflowed: "overflow",
    ConnectionLost: "closed",
}
_REASONS: dict[type[Outcome], str] = {
    Cancelled: "its sender gave it up",
    LostInTransit: "the message that carried it was not received",
    Overflowed: "closed on this side: too much of it was not read",
}


def add_output(parser: argparse.ArgumentParser) -> None:
    """The options that say what is printed and how much, the same for all verbs that read."""
    add_printing(parser)
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N messages"
    )


def add_printing(parser: argparse.ArgumentParser) -> None:
    """Those of them that say in which form."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    form.add_argument(
        "-f",
        dest="format",
        metavar="FORMAT",
        help="text with %%s payload, %%S size, %%k headers, %%n number, %%c channel, %%N name, "
        r"%%p producer, %%r reliability, %%i connection, %%T time (default: %%s\n)",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="print payloads, headers and names on a terminal as they came; they are escaped there "
        "otherwise, for a terminal obeys what a peer may write",
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="no events on standard error")


def output_for(options: argparse.Namespace, printer: Printer) -> Output:
    """What `add_output` asks for. Raises: InvalidOption.BAD_VALUE for a wrong format."""
    terminal = sys.stdout.isatty() and not options.raw
    events = Silence() if options.quiet else printer.errors
    return make_output(options.json, options.format, printer.out, events, terminal=terminal)


class Unfinished(NamedTuple):
    """A channel that cannot be complete: its name or number, and the kind of its last event."""

    channel: str
    kind: str


class ChannelPrinter:
    """Prints messages and events of all channels that flow towards us; on senders that come
    ``reply`` is sent, or nothing, and they are finished.

    Ends (``done``) after ``count`` messages, or with an error of the output, which ``check``
    raises. ``idle``: something has come, and every channel has ended. While the printer has no
    room, nothing more is taken out of any channel, and so their senders wait in the end.
    """

    def __init__(
        self, output: Output, printer: Printer, count: int | None, *, reply: bytes | None = None
    ) -> None:
        self.changed = Signal()
        self._output = output
        self._printer = printer
        printer.when_failed(self.changed.fire)
        self._left = count
        self._reply = reply
        self._connections: set[asyncio.Task[None]] = set()
        self._channels: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.unfinished: list[Unfinished] = []
        """Channels that ended otherwise than by finish."""
        self._began = False

    @property
    def done(self) -> bool:
        return self._left == 0 or self._failure is not None or self._printer.failure is not None

    @property
    def idle(self) -> bool:
        return self._began and not self._channels

    def check(self) -> None:
        failure = self._failure or self._printer.failure
        if failure is not None:
            raise failure

    def add(self, connection: Connection, *receivers: Receiver) -> None:
        """Read this connection: these channels of it, and all that hangs on them."""
        self._start(self._connections, self._connection(connection))
        producer = connection.claims.producer
        for receiver in receivers:
            self._start(self._channels, self._channel(receiver, connection.id, producer))

    async def stop(self) -> None:
        tasks = [*self._connections, *self._channels]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, group: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        self._began = True
        task = asyncio.get_running_loop().create_task(work)
        group.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._channels.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            self._failure = task.exception()
        self.changed.fire()

    async def _connection(self, connection: Connection) -> None:
        peer = str(HostPort(*connection.peer))
        await self._event("connected", connection.id, None, peer, None)
        await connection.wait_closed()
        closed = connection.closed
        reason = how_ended(closed) if closed is not None else ""
        await self._event("disconnected", connection.id, None, reason, None)

    async def _event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None:
        await self._printer.room()
        self._output.event(kind, connection, channel, reason, counts)

    async def _channel(self, receiver: Receiver, connection: int, producer: str | None) -> None:
        channel = receiver.channel_id or 0
        origin = Origin(connection, channel, receiver.name, producer)
        if channel:
            await self._event("opened", connection, channel, "", None)
        try:
            async for batch in receiver.batches():
                await self._printer.room()
                if self._left == 0:  # another channel had the last one meanwhile
                    return
                limit = len(batch) if self._left is None else min(self._left, len(batch))
                printed = self._output.messages(batch, limit, origin, time.time())
                for index in list(batch.carried):
                    for half in batch.attachments(index):
                        self._half(half, connection, producer)
                if self._left is not None:
                    self._left -= printed
                    if self.done:
                        return
        except (Cancelled, LostInTransit, Overflowed, ConnectionLost):
            pass
        except Misuse:
            return  # closed on this side: we are stopping
        outcome = receiver.outcome
        if outcome is not None:
            kind, reason = _KINDS[type(outcome)], _REASONS.get(type(outcome), "")
            if isinstance(outcome, ConnectionLost):
                reason = how_ended(outcome)
            await self._event(kind, connection, channel, reason, receiver.counts)
            if not isinstance(outcome, Finished):
                name = escaped(receiver.name or str(channel))
                self.unfinished.append(Unfinished(name, kind))
        if receiver.statistics.nacked:
            count = receiver.statistics.nacked
            await self._event("nacked", connection, channel, f"{count} messages", None)

    def _half(self, half: Half[Any], connection: int, producer: str | None) -> None:
        if isinstance(half, Receiver):
            self._start(self._channels, self._channel(half, connection, producer))
        elif isinstance(half, Sender):
            self._start(self._channels, _answer(half, self._reply))


async def _answer(sender: Sender, reply: bytes | None) -> None:
    """Say what there is to say on this channel; None: nothing."""
    try:
        if reply is not None:
            await sender.send(reply)
        await sender.finish()
    except (Outcome, Misuse):
        pass

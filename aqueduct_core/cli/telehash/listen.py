"""``aqueduct telehash listen telehash://ADDRESS:PORT``: take channels and print their packets."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

from aqueduct_core.aio.telehash.channel import ReceivedPacket, TelehashChannel
from aqueduct_core.aio.telehash.endpoints import LineEndpoint
from aqueduct_core.aio.telehash.listener import TelehashListener, listen
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.certificate import add_certificate, server_tls
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.running import run_interruptible
from aqueduct_core.cli.telehash.options import (
    add_line,
    is_bare_end,
    line_options,
    packet_row,
)
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.escape import escaped
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.awaiting import Signal
from aqueduct_core.transport.plain_udp.endpoints import DEFAULT_LIMITS

EXAMPLES = [
    (
        "what comes on channels of one type, a body a line",
        "aqueduct telehash listen telehash://127.0.0.1:4433 --self-signed --type _log",
    ),
    (
        "everything that comes over plain UDP on this machine, as JSON lines, with an answer",
        "aqueduct telehash listen udp://127.0.0.1:4434 -J --reply welcome",
    ),
]

ENOUGH = "no more is taken"
"""What peers are told whose channels are open at the end."""


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "listen",
        help="take channels and print their packets",
        description="Takes the channels that peers open, and prints their packets. A packet is "
        "acknowledged when it was printed. Everybody who reaches the address may open channels: "
        "the protocol knows no tokens.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "endpoint",
        metavar="telehash://ADDRESS:PORT",
        help="or udp://ADDRESS:PORT, without encryption; port 0 is any free one",
    )
    parser.add_argument(
        "--type",
        dest="types",
        action="append",
        metavar="TYPE",
        help="take channels of this type, may be repeated; others are refused (default: take all)",
    )
    parser.add_argument(
        "--reply",
        metavar="TEXT",
        help="answer the first packet of each channel with this, and end the channel",
    )
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N packets"
    )
    parser.add_argument(
        "-e", dest="until_ended", action="store_true", help="stop when all channels have ended"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "-J", dest="json", action="store_true", help="packets, and ends of channels, as JSON lines"
    )
    form.add_argument(
        "--delimiter",
        type=arguments.delimiter,
        default=b"\n",
        metavar="TEXT",
        help=r"what is printed behind each body (default: \n)",
    )
    parser.add_argument(
        "-q", dest="quiet", action="store_true", help="no comments on standard error"
    )
    parser.add_argument(
        "--memory",
        type=arguments.memory,
        default=DEFAULT_LIMITS.memory,
        metavar="SIZE",
        help="what all lines together may take, such as 64m (default: 512m); who has proven least "
        "and holds most is closed for others",
    )
    add_line(parser)
    add_certificate(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    where = LineEndpoint.parse(options.endpoint, listens=True)
    tls = None if where.carrier == "udp" else server_tls(options, where.where)
    async with Printer() as printer:
        shown = _Shown(options, printer)
        printer.when_failed(shown.stop)
        opening = listen(
            options.endpoint,
            shown.take,
            types=options.types,
            tls=tls,
            limits=replace(DEFAULT_LIMITS, memory=options.memory),
            **line_options(options),
        )
        async with opening as listener:
            _notice(options, listener, printer)
            await shown.done()
            shown.leave()
    return 0


def _notice(options: argparse.Namespace, listener: TelehashListener, printer: Printer) -> None:
    notice = f"listening on {HostPort(*listener.address)}\n"
    if options.self_signed and listener.fingerprint is not None:
        notice += f"fingerprint {listener.fingerprint}\n"
    if listener.warning:
        notice += f"warning: {listener.warning}\n"
    printer.errors.write(notice.encode())


class _Shown:
    """What has come and was printed."""

    def __init__(self, options: argparse.Namespace, printer: Printer) -> None:
        self._reply: str | None = options.reply
        self._count: int | None = options.count
        self._until_ended: bool = options.until_ended
        self._json: bool = options.json
        self._quiet: bool = options.quiet
        self._delimiter: bytes = options.delimiter
        self._printer = printer
        self._packets = 0
        self._open: set[TelehashChannel] = set()
        self._ended = 0
        self._stopped = False
        self._changed = Signal()

    async def take(self, channel: TelehashChannel) -> None:
        """Print the packets of a channel; they are acknowledged by that."""
        self._open.add(channel)
        packets = 0
        began = time.monotonic()
        error: ChannelEnded | None = None
        try:
            async for packet in channel:
                await self._printer.room()
                if self._full():
                    break
                packets += not is_bare_end(packet)
                self._packet(channel, packet)
                if self._full():
                    channel.acknowledge()
                    channel.fail(ENOUGH)
                    break
                if self._reply is not None and not packet.end:
                    channel.acknowledge()
                    await channel.end(self._reply.encode())
        except ChannelEnded as ended:
            error = ended
            raise
        finally:
            self._open.discard(channel)
            self._ended += 1
            if not self._full():
                self._end(channel, packets, time.monotonic() - began, error)
            self._changed.fire()

    async def done(self) -> None:
        """Wait for as much as was asked for."""
        await self._changed.until(
            lambda: (
                self._stopped
                or self._full()
                or (self._until_ended and bool(self._ended) and not self._open)
            )
        )

    def stop(self) -> None:
        """Nobody reads what we print any more."""
        self._stopped = True
        self._changed.fire()

    def leave(self) -> None:
        """Tell peers whose channels are open that no more is taken."""
        for channel in self._open:
            channel.fail(ENOUGH)

    def _full(self) -> bool:
        return self._count is not None and self._packets >= self._count

    def _packet(self, channel: TelehashChannel, packet: ReceivedPacket) -> None:
        self._packets += not is_bare_end(packet)
        if self._json:
            self._line(**packet_row(channel, packet))
        elif not is_bare_end(packet):
            self._printer.out.write(packet.body + self._delimiter)
        self._changed.fire()

    def _end(
        self, channel: TelehashChannel, packets: int, seconds: float, error: ChannelEnded | None
    ) -> None:
        if self._json:
            self._line(
                type="end",
                peer=channel.peer_name,
                channel=channel.number,
                channelType=channel.type,
                packets=packets,
                dropped=channel.dropped,
                seconds=round(seconds, 3),
                error=None if error is None else error.name,
            )
        elif not self._quiet:
            how = "ended" if error is None else f"failed ({error.what})"
            text = f"# channel {channel.number} '{escaped(channel.type)}' of {channel.peer_name} "
            self._printer.errors.write(f"{text}{how}: {packets} packets\n".encode())

    def _line(self, **row: Any) -> None:
        self._printer.out.write(json.dumps(row).encode() + b"\n")

"""``aqueduct request aqueduct://HOST:PORT TEXT``: one message with a channel for the replies."""

from __future__ import annotations

import argparse
import asyncio
import sys

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.reading import ChannelPrinter, add_printing, output_for
from aqueduct_core.cli.running import dialled, run_interruptible
from aqueduct_core.errors import ChannelEnded

EXAMPLES = [
    (
        "one question, one reply",
        "aqueduct request aqueduct://127.0.0.1:4433 'what time is it' --insecure",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "request",
        help="send one message, and print the replies to it",
        description="Sends TEXT as one message with a channel attached, on which the server is to "
        "reply, and prints what comes on it; events (as comments) go to standard error. The "
        "channel is a oneshot, for one reply, unless -c or --all asks for more. Exit code 0 if a "
        "reply came (with -c: as many, or all that there are; with --all: and the channel "
        "has finished), "
        "else 1. An intake stores the message and sends no reply: its ack says that it is stored.",
        epilog="example: aqueduct request aqueduct://127.0.0.1:4433 'how late is it?' --ca ca.pem",
        examples=EXAMPLES,
    )
    parser.add_argument("url", metavar="aqueduct://HOST:PORT")
    parser.add_argument("text", metavar="TEXT", help="the payload; '-' is standard input, whole")
    parser.add_argument(
        "--channel",
        metavar="NAME",
        help="send it on a new channel of this name (default: on the entrypoint)",
    )
    add_printing(parser)
    many = parser.add_mutually_exclusive_group()
    many.add_argument(
        "-c",
        dest="count",
        type=arguments.count,
        metavar="N",
        help="stop after N replies (default: 1)",
    )
    many.add_argument("--all", action="store_true", help="every reply until the server finishes")
    arguments.add_headers(parser, of="request")
    parser.add_argument(
        "--timeout",
        type=arguments.duration,
        default=10.0,
        metavar="10s",
        help="longest wait for the next reply (default: 10s)",
    )
    arguments.add_trust(parser)
    arguments.add_sessions(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return run_interruptible(_request(options))


async def _request(options: argparse.Namespace) -> int:
    count = None if options.all else options.count or 1
    async with Printer() as printer:
        reading = ChannelPrinter(output_for(options, printer), printer, count)
        async with dialled(options) as connection:
            connection.when_closed(reading.changed.fire)
            asked, replies = await _ask(connection, options, oneshot=count == 1)
            await connection.accepted()
            reading.add(connection, replies)
            try:
                await _printed(reading, replies, options.timeout)
                reading.check()
            finally:
                await reading.stop()
            if options.channel is not None and reading.done:
                await asked.finish()
            if not reading.done:
                async with asyncio.timeout(options.timeout):
                    await asked.flush()  # an error gives the connection up
                _judge(reading, replies)
    return 0


async def _ask(
    connection: ClientConnection, options: argparse.Namespace, *, oneshot: bool
) -> tuple[Sender, Receiver]:
    """The channel with the request, and that for the replies."""
    payload = sys.stdin.buffer.read() if options.text == "-" else options.text.encode()
    carrier = connection.entrypoint
    if options.channel is not None:
        carrier, receiver = channel(name=options.channel)
        await connection.entrypoint.send(b"", attach=receiver)
    reply_to, replies = channel(oneshot=oneshot)
    await carrier.send(payload, headers=tuple(options.headers), attach=reply_to)
    return carrier, replies


async def _printed(reading: ChannelPrinter, replies: Receiver, timeout: float) -> None:
    """Return when enough replies were printed, or the channel has ended."""
    while not (reading.done or reading.idle):
        taken = replies.statistics.taken
        try:
            async with asyncio.timeout(timeout):
                await reading.changed.until(lambda: reading.done or reading.idle)
        except TimeoutError:
            if replies.statistics.taken == taken:
                more = f" behind the {taken} that came" if taken else ""
                raise ChannelEnded(
                    "NO_REPLY",
                    f"no reply came in {timeout:g} s{more}",
                    "Ask again, raise --timeout, or look whether the server replies at all",
                ) from None


def _judge(reading: ChannelPrinter, replies: Receiver) -> None:
    """The channel has ended, before enough came. Raises: unless there were replies, and it
    finished."""
    if reading.unfinished:
        end = reading.unfinished[0]
        subclass = {"cancelled": "CANCELLED", "overflow": "OVERFLOW"}.get(end.kind, "LOST")
        raise ChannelEnded(
            subclass,
            f"the channel for the replies was {end.kind} behind {replies.statistics.taken} replies",
            "Ask again, or look into the log of the server",
        )
    if not replies.statistics.taken:
        raise ChannelEnded(
            "NO_REPLY",
            "the server took the request, and ended the channel for replies without one",
            "Ask a server that replies: an intake stores the message, and its ack is the answer",
        )

"""``aqueduct subscribe aqueduct://HOST:PORT NAME…``: ask for channels and print what comes."""

from __future__ import annotations

import argparse

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.reading import ChannelPrinter, Unfinished, add_output, output_for
from aqueduct_core.cli.running import dialled, run_interruptible
from aqueduct_core.errors import AqueductError, ChannelEnded, ConnectFailed

EXAMPLES = [
    (
        "two channels of a server, until they have ended",
        "aqueduct subscribe aqueduct://example.com:4433 orders prices --ca ca.pem -e",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "subscribe",
        help="dial a server, ask for channels and print what comes",
        description="Sends one request for each name, on the entrypoint of the connection: a "
        "message with a channel attached on which the server is to send. Without a name there is "
        "one request for a channel without a name. Prints the messages of these channels and of "
        "all that hang on them; events (as comments) go to standard error. Ends when the "
        "connection does: with exit code 0 if every channel had finished, else 1.",
        examples=EXAMPLES,
    )
    parser.add_argument("url", metavar="aqueduct://HOST:PORT")
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="channels to ask for")
    add_output(parser)
    parser.add_argument(
        "-e", dest="until_finished", action="store_true", help="stop when all channels ended"
    )
    arguments.add_headers(parser, of="request")
    parser.add_argument(
        "--payload",
        default="",
        metavar="TEXT",
        help="payload of each request; {name} in it stands for the name",
    )
    arguments.add_trust(parser)
    arguments.add_sessions(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return run_interruptible(_subscribe(options))


async def _subscribe(options: argparse.Namespace) -> int:
    async with Printer() as printer:
        reading = ChannelPrinter(output_for(options, printer), printer, options.count)
        async with dialled(options) as connection:
            connection.when_closed(reading.changed.fire)
            asked = [await _ask(connection, options, name) for name in _names(options)]
            await connection.accepted()
            reading.add(connection, *asked)
            try:
                await reading.changed.until(lambda: _over(options, reading, connection))
                reading.check()
            finally:
                await reading.stop()
            if not reading.done:
                _judge(reading, connection)
    return 0


def _names(options: argparse.Namespace) -> list[str]:
    return list(dict.fromkeys(options.names)) or [""]


async def _ask(connection: ClientConnection, options: argparse.Namespace, name: str) -> Receiver:
    sender, receiver = channel(name=name or None)
    payload = options.payload.replace("{name}", name).encode()
    await connection.entrypoint.send(payload, headers=tuple(options.headers), attach=sender)
    return receiver


def _over(
    options: argparse.Namespace, reading: ChannelPrinter, connection: ClientConnection
) -> bool:
    """Enough was printed, or nothing will come any more."""
    if reading.done:
        return True
    return reading.idle and (options.until_finished or connection.closed is not None)


def _judge(reading: ChannelPrinter, connection: ClientConnection) -> None:
    """Raise unless every channel has finished."""
    if not reading.unfinished:
        return
    first = reading.unfinished[0]
    closed = connection.closed
    if first.kind == "closed" and closed is not None:
        reason = closed.reason or "no reason given"
        raise ConnectFailed(
            "NO_REPLY",
            f"the connection ended before channel '{first.channel}' had finished "
            f"(code {closed.code}): {reason}",
            "What was printed is not complete; look into the log of the server",
        )
    raise _ended(first, len(reading.unfinished))


def _ended(first: Unfinished, count: int) -> AqueductError:
    subclass = {"cancelled": "CANCELLED", "overflow": "OVERFLOW"}.get(first.kind, "LOST")
    more = f", and {count - 1} more did not" if count > 1 else ""
    return ChannelEnded(
        subclass,
        f"channel '{first.channel}' did not finish, it was {first.kind}{more}",
        "What was printed is not complete; ask again, or look into the log of the server",
    )

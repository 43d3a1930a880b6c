"""``aqueduct listen ADDRESS:PORT``: accept connections and print what comes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from pathlib import Path
from typing import get_args

from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.certificate import add_certificate, server_tls
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.reading import ChannelPrinter, add_output, output_for
from aqueduct_core.cli.running import run_interruptible
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.transport.address_validation import RetryMode
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls

SETTLE = 0.25
"""Seconds that all must be finished before ``-e`` ends: a client may dial again at once."""


EXAMPLES = [
    (
        "what comes, a JSON object a line",
        "aqueduct listen 127.0.0.1:4433 --self-signed -J",
    ),
    (
        "one input into a file, as it was sent",
        "aqueduct listen 127.0.0.1:4433 --self-signed -q -e > copy.log",
    ),
    (
        "channel, number and payload of ten messages",
        "aqueduct listen 127.0.0.1:4433 --self-signed -f '%N %n %s\\n' -c 10",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "listen",
        help="accept connections and print what comes",
        description="Prints the messages of all channels. The address that is bound, events (as "
        "comments) and the fingerprint of --self-signed go to standard error. A message is acked "
        "when it was received.",
        examples=EXAMPLES,
    )
    parser.add_argument("address", metavar="ADDRESS:PORT", help="port 0 is any free one")
    add_output(parser)
    parser.add_argument(
        "-e", dest="until_finished", action="store_true", help="stop when all channels finished"
    )
    parser.add_argument(
        "--reply",
        metavar="TEXT",
        help="send this on each channel on which a peer asks for replies, as `aqueduct request` "
        "does (default: such a channel is finished without a reply)",
    )
    add_certificate(parser)
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="demand this bearer token")
    parser.add_argument(
        "--early-data",
        action="store_true",
        help="give clients sessions, and take what they send before the next handshake is complete",
    )
    parser.add_argument(
        "--retry",
        choices=get_args(RetryMode),
        default="auto",
        help="whether clients have to prove their address first, for a round trip (default: auto, "
        "under pressure)",
    )
    parser.add_argument(
        "--memory",
        type=arguments.memory,
        default=ListenLimits().memory,
        metavar="SIZE",
        help="what all connections together may take, such as 64m (default: 512m); who has proven "
        "least and holds most is closed for others",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    where = arguments.listen_address(options.address)
    tls = server_tls(options, where)
    return run_interruptible(_listen(options, where, tls))


async def _listen(options: argparse.Namespace, where: HostPort, tls: ServerTls) -> int:
    async with Printer() as printer:
        reply = None if options.reply is None else options.reply.encode()
        reading = ChannelPrinter(output_for(options, printer), printer, options.count, reply=reply)
        token = arguments.read_token(options.token_file)
        async with serve(
            where.host,
            where.port,
            tls=tls,
            authorize=bearer(token) if token else None,
            limits=ListenLimits(
                early_data=options.early_data, retry=options.retry, memory=options.memory
            ),
        ) as server:
            notice = f"listening on {HostPort(*server.address)}\n"
            if options.self_signed:
                notice += f"fingerprint {server.fingerprint}\n"
            if token is None and not is_loopback(server.address[0]):
                notice += "warning: everybody who reaches this address may connect: "
                notice += "--token-file demands a token\n"
            printer.errors.write(notice.encode())
            accepting = asyncio.ensure_future(_accept(server, reading, printer))
            try:
                if options.until_finished:
                    await _finished(reading)
                else:
                    await reading.changed.until(lambda: reading.done)
                reading.check()
            finally:
                accepting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await accepting
                await reading.stop()
    return 0


async def _accept(server: Server, reading: ChannelPrinter, printer: Printer) -> None:
    with contextlib.suppress(OSError):  # of the output: `ChannelPrinter.check` raises it
        async for connection in server:
            reading.add(connection, connection.entrypoint)
            await printer.room()


async def _finished(reading: ChannelPrinter) -> None:
    """Wait until something came and everything has ended, for a moment at least."""
    while not reading.done:
        await reading.changed.until(lambda: reading.done or reading.idle)
        idle_since = time.monotonic()
        while reading.idle and not reading.done:
            left = SETTLE - (time.monotonic() - idle_since)
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await reading.changed.wait()

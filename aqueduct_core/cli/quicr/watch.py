"""``aqueduct quicr watch quicr://HOST:PORT [PREFIX]``: print the URLs that there are."""

from __future__ import annotations

import argparse
import json

from aqueduct_core.aio.quicr.client import connect
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.running import run_interruptible, waiting_for_a_reply
from aqueduct_core.quicr.urls import url_text

EXAMPLES = [
    (
        "every media of an origin, and those that come",
        "aqueduct quicr watch quicr://127.0.0.1:4433 --insecure",
    ),
    (
        "the first one below a prefix",
        "aqueduct quicr watch quicr://127.0.0.1:4433 sensors/ --insecure -c 1",
    ),
]


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "watch",
        help="print the URLs of media as they appear",
        description="Prints the URL of each media that begins with PREFIX, byte by byte: those "
        "that are posted, and those that come.",
        examples=EXAMPLES,
    )
    parser.add_argument("endpoint", metavar="quicr://HOST:PORT")
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="")
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N URLs"
    )
    parser.add_argument("-J", dest="json", action="store_true", help="print JSON lines")
    arguments.add_trust(parser, token=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    return run_interruptible(_watch(options))


async def _watch(options: argparse.Namespace) -> int:
    async with Printer() as printer:
        opening = connect(options.endpoint, tls=arguments.client_tls(options))
        with waiting_for_a_reply(options.endpoint):
            client = await opening
        async with client, client.subscribe(options.prefix) as urls:
            seen = 0
            async for url in urls:
                await printer.room()
                if options.json:
                    row = {"type": "media", "url": url_text(url)}
                    printer.out.write(json.dumps(row).encode() + b"\n")
                else:
                    printer.out.write(url_text(url).encode() + b"\n")
                seen += 1
                if seen == options.count:
                    break
    return 0

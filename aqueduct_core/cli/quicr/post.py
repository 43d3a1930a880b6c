"""``aqueduct quicr post quicr://HOST:PORT URL [FILE…]``: publish lines or files as objects."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from aqueduct_core.aio.quicr.client import connect
from aqueduct_core.aio.quicr.publisher import Publisher
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.input import check_files, payloads
from aqueduct_core.cli.running import run_interruptible, waiting_for_a_reply
from aqueduct_core.quicr.config import DropSettings, QuicrConfig

EXAMPLES = [
    (
        "each line of a file as an object, ten objects a group",
        "aqueduct quicr post quicr://127.0.0.1:4433 sensors/1 log.txt --group-size 10 --insecure",
    ),
    (
        "what another program prints, as it comes; what a path has no room for may be dropped",
        "vmstat 1 | aqueduct quicr post quicr://127.0.0.1:4433 vm --insecure --flags 0x81",
    ),
]


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "post",
        help="publish lines or files as the objects of a media",
        description="Publishes each line (of the files, or of standard input) as one object, and "
        "returns when the server has them all. An object is never empty, so empty lines are left "
        "out. An origin forgets a media 10 seconds after its end, when all readers have it.",
        examples=EXAMPLES,
    )
    parser.add_argument("endpoint", metavar="quicr://HOST:PORT")
    parser.add_argument("url", metavar="URL", help="of the media")
    parser.add_argument(
        "files", nargs="*", default=[], type=Path, metavar="FILE", help="'-' is standard input"
    )
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument("--whole-file", action="store_true", help="an object is a whole file")
    cut.add_argument(
        "--delimiter",
        type=arguments.delimiter,
        default=b"\n",
        metavar="TEXT",
        help=r"what ends an object (default: \n)",
    )
    parser.add_argument(
        "--group-size",
        type=arguments.count,
        metavar="N",
        help="begin a group behind N objects (default: one group)",
    )
    parser.add_argument(
        "--flags",
        type=_flags,
        default=0,
        metavar="FLAGS",
        help="of each object: 0 it is never dropped (default); 0x81, 0x83 … 0xfd it may be where "
        "a path has no room, those with higher flags first",
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="do not offer datagrams (default: the server chooses)",
    )
    parser.add_argument("-J", dest="json", action="store_true", help="print the last line as JSON")
    parser.add_argument("-q", dest="quiet", action="store_true", help="print no last line")
    arguments.add_trust(parser, token=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_files(options.files)
    return run_interruptible(_post(options))


async def _post(options: argparse.Namespace) -> int:
    config = QuicrConfig(dropping=DropSettings() if options.flags else None)
    opening = connect(options.endpoint, tls=arguments.client_tls(options), config=config)
    with waiting_for_a_reply(options.endpoint):
        client = await opening
    began = time.monotonic()
    async with client:
        publisher = client.publish(options.url, datagram=not options.stream)
        objects = size = 0
        async with publisher:
            async for payload in _objects(options):
                full = options.group_size is not None and objects % options.group_size == 0
                await publisher.send(payload, flags=options.flags, new_group=full)
                objects += 1
                size += len(payload)
        seconds = time.monotonic() - began  # without what taking leave takes
    if not options.quiet:
        _told(options, publisher, objects, size, seconds)
    return 0


async def _objects(options: argparse.Namespace) -> AsyncIterator[bytes]:
    async for batch in payloads(options.files, options.delimiter, options.whole_file):
        for payload in batch:
            if payload:
                yield payload


def _told(
    options: argparse.Namespace, publisher: Publisher, objects: int, size: int, seconds: float
) -> None:
    if options.json:
        row = {
            "type": "end",
            "objects": objects,
            "dropped": publisher.dropped,
            "bytes": size,
            "seconds": round(seconds, 3),
            "datagrams": publisher.datagram,
        }
        print(json.dumps(row))
    else:
        dropped = f", {publisher.dropped} of them dropped" if publisher.dropped else ""
        print(f"{objects} objects{dropped}, {size} bytes in {seconds:.2f} s", file=sys.stderr)


def _flags(text: str) -> int:
    """Flags of an object, decimal or 0x…"""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 0xFF:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 0xfe")
    return value

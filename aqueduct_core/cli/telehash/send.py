"""``aqueduct telehash send telehash://HOST:PORT TYPE [FILE…]``: lines or files as packets."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.aio.telehash.client import connect
from aqueduct_core.aio.telehash.line import TelehashLine
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.input import check_files, payloads
from aqueduct_core.cli.running import run_interruptible, waiting_for_a_reply
from aqueduct_core.cli.telehash.options import (
    ENDPOINT,
    add_line,
    is_bare_end,
    line_options,
    packet_row,
)
from aqueduct_core.errors import SinkFailed
from aqueduct_core.telehash.faults import PacketTooLarge

EXAMPLES = [
    (
        "each line of a file as a packet; returns when all were processed",
        "aqueduct telehash send telehash://127.0.0.1:4433 _log log.txt --insecure",
    ),
    (
        "a question with JSON beside it, and its answers as JSON lines, on this machine",
        "echo hello | aqueduct telehash send udp://127.0.0.1:4434 _ask --js '{\"id\": 7}' "
        "--answers -J",
    ),
]


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "send",
        help="send lines or files as packets on a channel",
        description="Opens a channel, sends each line (of the files, or of standard input) as one "
        "packet, ends the channel, and returns when the peer has processed them all. There is no "
        "fragmentation: a packet has about 1,100 bytes at most over QUIC, and 1,400 over UDP.",
        examples=EXAMPLES,
    )
    parser.add_argument("endpoint", metavar=ENDPOINT, help="or udp://HOST:PORT, without encryption")
    parser.add_argument(
        "channel_type", metavar="TYPE", help="of the channel; of applications it begins with _"
    )
    parser.add_argument(
        "files", nargs="*", default=[], type=Path, metavar="FILE", help="'-' is standard input"
    )
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument("--whole-file", action="store_true", help="a packet is a whole file")
    cut.add_argument(
        "--delimiter",
        type=arguments.delimiter,
        default=b"\n",
        metavar="TEXT",
        help=r"what ends a packet (default: \n)",
    )
    parser.add_argument(
        "--js", type=_json_object, metavar="JSON", help="an object for each packet, beside its body"
    )
    parser.add_argument(
        "--unreliable",
        action="store_true",
        help="send packets as datagrams, which may be lost or overtake each other",
    )
    parser.add_argument(
        "--answers",
        action="store_true",
        help="print what the peer sends, until it ends the channel (default: end it, and print "
        "nothing)",
    )
    parser.add_argument(
        "--timeout",
        type=arguments.duration,
        metavar="30s",
        help="with --answers, end with exit code 1 when nothing came for so long (default: never)",
    )
    parser.add_argument(
        "-J", dest="json", action="store_true", help="answers and the last line as JSON lines"
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="print no last line")
    add_line(parser)
    arguments.add_trust(parser, token=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    check_files(options.files)
    return run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    opening = connect(options.endpoint, tls=arguments.client_tls(options), **line_options(options))
    async with Printer() as printer:
        with waiting_for_a_reply(options.endpoint):
            line = await opening
        async with line, contextlib.aclosing(_packets(options)) as packets:
            sending = _Sending(options, line, packets)
            channel = await sending.open()
            answers = asyncio.create_task(_answers(options, channel, printer), name="answers")
            try:
                async with channel:
                    await sending.rest(channel)
                    if options.answers:
                        await channel.delivered()
                        await answers
            finally:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
            seconds = time.monotonic() - sending.began  # without what taking leave takes
        if not options.quiet:
            _told(options, sending, seconds)
    return 0


class _Sending:
    """What was sent so far."""

    def __init__(
        self,
        options: argparse.Namespace,
        line: TelehashLine,
        packets: AsyncGenerator[bytes],
    ) -> None:
        self.began = time.monotonic()
        self.packets = 0
        self.bytes = 0
        self._line = line
        self._bodies = packets
        self._js: Mapping[str, Any] | None = options.js
        self._type: str = options.channel_type
        self._reliable = not options.unreliable
        self._timeout: float | None = options.timeout if options.answers else None

    async def open(self) -> TelehashChannel:
        """By the first packet, once it is there; by an end, where there is none."""
        body = await anext(self._bodies, None)
        with self._counted(body):
            return self._line.open(
                self._type,
                body or b"",
                js=None if body is None else self._js,
                end=body is None,
                reliable=self._reliable,
                timeout=self._timeout,
            )

    async def rest(self, channel: TelehashChannel) -> None:
        async for body in self._bodies:
            with self._counted(body):
                await channel.send(body, js=self._js)

    @contextlib.contextmanager
    def _counted(self, body: bytes | None) -> Iterator[None]:
        """``body`` is sent; None: a bare end, which is no packet of the input."""
        try:
            yield
        except PacketTooLarge as error:
            raise SinkFailed(
                "MESSAGE_TOO_LARGE",
                f"packet {self.packets + 1} of the input does not fit: {error}",
                "Cut it, or send it over a protocol that does (aqueduct send)",
            ) from None
        if body is not None:
            self.packets += 1
            self.bytes += len(body)


async def _packets(options: argparse.Namespace) -> AsyncGenerator[bytes]:
    async for batch in payloads(options.files, options.delimiter, options.whole_file):
        for payload in batch:
            yield payload


async def _answers(options: argparse.Namespace, channel: TelehashChannel, printer: Printer) -> None:
    """Take what the peer sends, so that it has its acks, and print it where that is wanted."""
    async for packet in channel:
        if not options.answers:
            continue
        await printer.room()
        if options.json:
            printer.out.write(json.dumps(packet_row(channel, packet)).encode() + b"\n")
        elif not is_bare_end(packet):
            printer.out.write(packet.body + options.delimiter)


def _told(options: argparse.Namespace, sending: _Sending, seconds: float) -> None:
    if options.json:
        row = {
            "type": "end",
            "packets": sending.packets,
            "bytes": sending.bytes,
            "seconds": round(seconds, 3),
        }
        print(json.dumps(row))
    else:
        text = f"{sending.packets} packets, {sending.bytes} bytes in {seconds:.2f} s"
        print(text, file=sys.stderr)


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return found

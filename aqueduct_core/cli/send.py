"""``aqueduct send URL [FILE…]``: a message a line to a server, with its acks counted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.ledger import SenderStatistics
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.producer_channel import ProducerChannel
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.news import Headers
from aqueduct_core.cli import arguments
from aqueduct_core.cli.input import payloads
from aqueduct_core.cli.interrupts import run_interruptible
from aqueduct_core.errors import InvalidOption, SinkFailed

DEFAULT_CHANNEL = "lines"
"""The channel of a producer for which no name is given: what resumes needs a name."""
PROGRESS_INTERVAL = 0.1


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "send",
        help="send lines or files as messages",
        description="Sends each line (of the files, or of standard input) as one message, waits "
        "for the acks and prints a last line with the counts. Without --channel the messages go "
        "on the entrypoint of the connection.",
    )
    parser.add_argument("url", metavar="aqueduct://HOST:PORT")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="'-' is standard input")
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument("--whole-file", action="store_true", help="a message is a whole file")
    cut.add_argument(
        "--delimiter",
        type=arguments.delimiter,
        default=b"\n",
        metavar="TEXT",
        help=r"what ends a message (default: \n)",
    )
    arguments.add_headers(parser, of="message")
    parser.add_argument("--channel", metavar="NAME", help="send on a new channel of this name")
    parser.add_argument(
        "--reliability", choices=[mode.value for mode in Mode], default=Mode.ORDERED.value
    )
    parser.add_argument(
        "--producer",
        metavar="ID",
        help="an identity: reconnect when the connection is lost and send again what has no ack. "
        "An intake stores each message number of ID and channel once, so running the same "
        "command again completes it; other input needs another ID or channel, or "
        "--sequence-start",
    )
    parser.add_argument(
        "--sequence-start",
        type=arguments.number,
        default=0,
        metavar="N",
        help="with --producer: the number of the first message of the input (default: 0). Input "
        "that goes on behind an earlier one begins where that ended",
    )
    parser.add_argument(
        "--resume-from",
        type=arguments.number,
        metavar="N",
        help="with --producer: do not send messages of the input with numbers below N, which are "
        "stored already; a command that failed says from where it can resume",
    )
    parser.add_argument(
        "--wait",
        choices=["stored", "committed"],
        default="stored",
        help="what to wait for at the end: that every message is stored (acked), or committed: "
        "in a finished batch of every query that reads the intake; that needs --producer",
    )
    parser.add_argument(
        "--ack-timeout",
        type=arguments.duration,
        default=60.0,
        metavar="60s",
        help="longest wait for the acks, and for --wait committed, after the last message "
        "(default: 60s)",
    )
    arguments.add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    _check(options)
    return run_interruptible(_send(options))


def _check(options: argparse.Namespace) -> None:
    """Raises: InvalidOption for options that do not go together."""
    if options.producer is None:
        for given, name in (
            (options.sequence_start, "--sequence-start"),
            (options.resume_from is not None, "--resume-from"),
            (options.wait == "committed", "--wait committed"),
        ):
            if given:
                raise InvalidOption(
                    "MISSING", f"{name} is given without --producer", "Give the identity too"
                )
    if options.wait == "committed" and options.reliability == Mode.UNRELIABLE.value:
        raise InvalidOption(
            "CONFLICT",
            "--wait committed is given for unreliable messages, which have no receipts",
            "Wait for stored",
        )
    if options.resume_from is not None and options.resume_from < options.sequence_start:
        raise InvalidOption(
            "BAD_VALUE",
            f"--resume-from is {options.resume_from}, but the input begins with number "
            f"{options.sequence_start}",
            "Give a number of the input",
        )


class _Outlet(Protocol):
    """What the verb needs of a plain sender and of a producer's channel."""

    @property
    def statistics(self) -> SenderStatistics: ...
    async def send(self, payload: bytes, *, headers: Headers = ()) -> int: ...
    async def send_many(self, payloads: list[bytes]) -> int: ...
    async def finish(self) -> None: ...


async def _send(options: argparse.Namespace) -> int:
    started = time.monotonic()
    opening = _produce(options) if options.producer is not None else _connect(options)
    size = 0
    async with opening as sender:
        progress = asyncio.ensure_future(_show_progress(sender))
        resumable = True
        try:
            headers = tuple(options.headers)
            async for portion in _wanted(options):
                size += sum(map(len, portion))
                if headers:
                    for payload in portion:
                        await sender.send(payload, headers=headers)
                else:
                    await sender.send_many(portion)
            await _finish(sender, options.ack_timeout)
            if isinstance(sender, ProducerChannel) and options.wait == "committed":
                await sender.committed(timeout=options.ack_timeout)
        except SinkFailed as error:
            resumable = error.subclass != "NOT_REPEATABLE"
            raise
        finally:
            progress.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await progress
            counts = sender.statistics
            if isinstance(sender, ProducerChannel) and options.wait == "committed":
                print(f"committed={sender.statistics.committed}")
            print(
                f"sent={counts.sent} acked={counts.acked} nacked={counts.nacked} bytes={size} "
                f"seconds={time.monotonic() - started:.3f}",
                flush=True,
            )
            if resumable and counts.reliable_acked < counts.reliable_sent:
                _say_where_to_resume(sender)
    return 0 if counts.reliable_acked == counts.reliable_sent else 1


async def _wanted(options: argparse.Namespace) -> AsyncIterator[list[bytes]]:
    """The payloads of the input without those that are stored already."""
    skip = (options.resume_from or options.sequence_start) - options.sequence_start
    async for portion in payloads(options.files, options.delimiter, options.whole_file):
        wanted, skip = portion[skip:], max(0, skip - len(portion))
        if wanted:
            yield wanted


def _say_where_to_resume(sender: _Outlet) -> None:
    if isinstance(sender, ProducerChannel) and sender.reliable:
        print(
            f"messages up to {sender.stored_below} (exclusive) are stored: run the same command "
            f"again, or with --resume-from {sender.stored_below} to send only the rest",
            file=sys.stderr,
        )


async def _finish(sender: _Outlet, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await sender.finish()
    except TimeoutError:
        counts = sender.statistics
        raise SinkFailed(
            "ACK_TIMEOUT",
            f"{counts.pending} of {counts.sent} messages have no ack after {timeout:g} s",
            "Check that the receiver reads, or raise --ack-timeout",
        ) from None


@contextlib.asynccontextmanager
async def _connect(options: argparse.Namespace) -> AsyncIterator[_Outlet]:
    async with connect(
        options.url,
        tls=arguments.client_tls(options),
        token=arguments.read_token(options.token_file),
    ) as connection:
        yield await _open(connection, options)


async def _open(connection: ClientConnection, options: argparse.Namespace) -> Sender:
    if options.channel is None:
        connection.entrypoint.use(options.reliability)
        return connection.entrypoint
    sender, receiver = channel(options.reliability, name=options.channel)
    await connection.entrypoint.send(b"", attach=receiver)
    return sender


@contextlib.asynccontextmanager
async def _produce(options: argparse.Namespace) -> AsyncIterator[_Outlet]:
    async with Producer(
        options.url,
        producer=options.producer,
        tls=arguments.client_tls(options),
        token=arguments.read_token(options.token_file),
        wait_for_server=False,
        give_up_after=options.ack_timeout,
    ) as producer:
        start = options.resume_from or options.sequence_start
        yield producer.channel(
            options.channel or DEFAULT_CHANNEL,
            options.reliability,
            start=start if options.reliability != Mode.UNRELIABLE.value else 0,
        )


async def _show_progress(sender: _Outlet) -> None:
    """A bar of acked messages, on a terminal only."""
    if not sys.stderr.isatty():
        return
    with tqdm(desc="acked", unit=" messages", file=sys.stderr, leave=False) as bar:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            counts = sender.statistics
            bar.total = counts.sent
            bar.update(counts.acked - bar.n)

"""``aqueduct send URL [FILE…]``: a message a line to a server, with its acks counted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.producer_channel import ProducerChannel
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.cli import arguments
from aqueduct_core.cli.beginning import beginning
from aqueduct_core.cli.dialling import dialled
from aqueduct_core.cli.input import payloads
from aqueduct_core.cli.interrupts import run_interruptible
from aqueduct_core.cli.printing import ProgressFile
from aqueduct_core.engine.message_batch import Headers
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
        "on the entrypoint of the connection, with --producer on a channel named "
        f"{DEFAULT_CHANNEL}.",
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
        "An intake stores each message number of ID and channel once, and says where the channel "
        "stands: the input goes on there when the last run on it came to its end, else the "
        "command asks for --resume or --append",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="with --producer: the input is that of the last run on the channel, whether or not "
        "that came to its end: what is stored of it is compared and counted as repeated, the rest "
        "is stored; other input is an error",
    )
    again.add_argument(
        "--append",
        action="store_true",
        help="with --producer: the input is new, and goes on behind what is stored, although the "
        "last run on the channel did not come to its end; nothing is compared",
    )
    again.add_argument(
        "--resume-from",
        type=arguments.number,
        metavar="N",
        help="as --resume, but do not send the messages of the input with numbers below N, which "
        "are not compared then; a command that failed says which are stored. If more than those "
        "are, all of the input is sent, as by --resume, so that they can be compared",
    )
    parser.add_argument(
        "--sequence-start",
        type=arguments.number,
        metavar="N",
        help="with --producer: the number of the first message of the input, in place of what the "
        "server says; below that only with --resume or --resume-from, at the number with which the "
        "last run or the channel begins",
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
    arguments.add_sessions(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    _check(options)
    return run_interruptible(_send(options))


def _check(options: argparse.Namespace) -> None:
    """Raises: InvalidOption for options that do not go together."""
    if options.producer is None:
        for given, name in (
            *_numbering(options),
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
    for given, name in _numbering(options):
        if given and options.reliability == Mode.UNRELIABLE.value:
            raise InvalidOption(
                "CONFLICT",
                f"{name} is given for unreliable messages, which have no numbers",
                "Leave it out, or send ordered or unordered messages",
            )
    if options.append and options.sequence_start is not None:
        raise InvalidOption(
            "CONFLICT",
            "--append and --sequence-start both say where the input begins",
            "Give one of them",
        )
    if options.sequence_start is not None:
        beginning(None, sequence_start=options.sequence_start, resume_from=options.resume_from)


def _numbering(options: argparse.Namespace) -> list[tuple[bool, str]]:
    """The options about numbers, and whether they are given."""
    return [
        (options.sequence_start is not None, "--sequence-start"),
        (options.resume_from is not None, "--resume-from"),
        (options.resume, "--resume"),
        (options.append, "--append"),
    ]


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
    async with opening as (sender, skip):
        progress = asyncio.ensure_future(_show_progress(sender))
        resumable = True
        try:
            headers = tuple(options.headers)
            async for portion in _wanted(options, skip):
                size += sum(map(len, portion))
                if headers:
                    for payload in portion:
                        await sender.send(payload, headers=headers)
                else:
                    await sender.send_many(portion)
            if isinstance(sender, ProducerChannel) and options.wait == "committed":
                # before the finish: a run that fails here has not come to its end
                await _acked(sender, sender.flush, options.ack_timeout)
                await sender.committed(timeout=options.ack_timeout)
            await _acked(sender, sender.finish, options.ack_timeout)
        except SinkFailed as error:
            # behind another run --resume would mean the input of that one
            resumable = error.subclass not in ("NOT_REPEATABLE", "FENCED")
            raise
        finally:
            progress.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await progress
            counts = sender.statistics
            if isinstance(sender, ProducerChannel) and options.wait == "committed":
                print(f"committed={sender.statistics.committed}")
            repeated = sender.statistics.repeated if isinstance(sender, ProducerChannel) else 0
            print(
                f"sent={counts.sent} acked={counts.acked} nacked={counts.nacked} "
                f"repeated={repeated} bytes={size} seconds={time.monotonic() - started:.3f}",
                flush=True,
            )
            unfinished = (
                sys.exc_info()[0] is not None or counts.reliable_acked < counts.reliable_sent
            )
            if resumable and unfinished:
                _say_where_to_resume(sender)
    return 0 if counts.reliable_acked == counts.reliable_sent else 1


async def _wanted(options: argparse.Namespace, skip: int) -> AsyncIterator[list[bytes]]:
    """The payloads of the input without the first ``skip``."""
    async for portion in payloads(options.files, options.delimiter, options.whole_file):
        wanted, skip = portion[skip:], max(0, skip - len(portion))
        if wanted:
            yield wanted


def _say_where_to_resume(sender: _Outlet) -> None:
    if isinstance(sender, ProducerChannel) and sender.reliable:
        print(
            f"messages up to {sender.stored_below} (exclusive) are stored: run the same command "
            f"again with --resume, or with --resume-from {sender.stored_below} to leave these out "
            "where no more is stored",
            file=sys.stderr,
        )


async def _acked(sender: _Outlet, settle: Callable[[], Awaitable[None]], timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await settle()
    except TimeoutError:
        counts = sender.statistics
        raise SinkFailed(
            "ACK_TIMEOUT",
            f"{counts.pending} of {counts.sent} messages have no ack after {timeout:g} s",
            "Check that the receiver reads, or raise --ack-timeout",
        ) from None


@contextlib.asynccontextmanager
async def _connect(options: argparse.Namespace) -> AsyncIterator[tuple[_Outlet, int]]:
    async with dialled(options) as connection:
        yield await _open(connection, options), 0


async def _open(connection: ClientConnection, options: argparse.Namespace) -> Sender:
    if options.channel is None:
        connection.entrypoint.use(options.reliability)
        return connection.entrypoint
    sender, receiver = channel(options.reliability, name=options.channel)
    await connection.entrypoint.send(b"", attach=receiver)
    return sender


@contextlib.asynccontextmanager
async def _produce(options: argparse.Namespace) -> AsyncIterator[tuple[_Outlet, int]]:
    """The channel, and how many messages of the input are not to be sent on it."""
    name = options.channel or DEFAULT_CHANNEL
    async with Producer(
        options.url,
        producer=options.producer,
        tls=arguments.client_tls(options),
        token=arguments.read_token(options.token_file),
        tickets=arguments.sessions(options),
        early_data=options.early_data,
        wait_for_server=False,
        give_up_after=options.ack_timeout,
    ) as producer:
        if options.reliability == Mode.UNRELIABLE.value:
            yield producer.channel(name, options.reliability), 0
            return
        position = await _position(producer, name, options)
        if position is None:
            print(
                "warning: the server does not tell where channels stand: it may take messages for "
                f"repeats of what was sent under {options.producer!r} before, and drop them",
                file=sys.stderr,
            )
        first, start = beginning(
            position,
            sequence_start=options.sequence_start,
            resume_from=options.resume_from,
            resume=options.resume,
            append=options.append,
        )
        repeats = options.resume or options.resume_from is not None
        sender = producer.channel(
            name, options.reliability, start=start, run_start=first, repeats=repeats
        )
        yield sender, start - first


async def _position(
    producer: Producer, name: str, options: argparse.Namespace
) -> ChannelPosition | None:
    try:
        async with asyncio.timeout(options.ack_timeout):
            return await producer.position(name)
    except TimeoutError:
        raise SinkFailed(
            "ACK_TIMEOUT",
            f"the server does not say in {options.ack_timeout:g} s where channel {name!r} stands",
            "Check the server, or raise --ack-timeout",
        ) from None


async def _show_progress(sender: _Outlet) -> None:
    """A bar of acked messages, on a terminal only."""
    if not sys.stderr.isatty():
        return
    with (
        contextlib.closing(ProgressFile()) as file,
        tqdm(desc="acked", unit=" messages", file=file, leave=False) as bar,
    ):
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL)
            counts = sender.statistics
            bar.total = counts.sent
            bar.update(counts.acked - bar.n)

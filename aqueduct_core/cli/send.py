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

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.producer_channel import ProducerChannel
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.terminal import PROGRESS_SECONDS, ProgressBar
from aqueduct_core.cli.input import SentInput, check_files, input_bytes, payloads
from aqueduct_core.cli.numbering import add_numbering, beginning, given_numbering
from aqueduct_core.cli.running import dialled, run_interruptible, show_waits, waiting_for_a_reply
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption, SinkFailed

DEFAULT_CHANNEL = "lines"
"""The channel of a producer for which no name is given: what resumes needs a name."""


EXAMPLES = [
    (
        "each line of a log, on a channel that outlives lost connections",
        "aqueduct send aqueduct://example.com:4433 access.log --channel logs --producer web1",
    ),
    (
        "what another program prints, as it comes",
        "tail -F app.log | aqueduct send aqueduct://127.0.0.1:4433 --insecure --channel app",
    ),
    (
        "a file as one message, with a header",
        "aqueduct send aqueduct://127.0.0.1:4433 --insecure --whole-file cat.jpg -H type=jpeg",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "send",
        help="send lines or files as messages",
        description="Sends each line (of the files, or of standard input) as one message, waits "
        "for the acks and prints a last line with the counts. Without --channel the messages go "
        "on the entrypoint of the connection, with --producer on a channel named "
        f"{DEFAULT_CHANNEL}.",
        examples=EXAMPLES,
    )
    parser.add_argument("url", metavar="aqueduct://HOST:PORT")
    parser.add_argument(
        "files", nargs="*", default=[], type=Path, metavar="FILE", help="'-' is standard input"
    )
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
    add_numbering(parser)
    parser.add_argument(
        "-q",
        dest="quiet",
        action="store_true",
        help="no bar of progress, and no counts where all was acked",
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
            *given_numbering(options),
            (options.wait == "committed", "--wait committed"),
        ):
            if given:
                raise InvalidOption(
                    "MISSING", f"{name} is given without --producer", "Give --producer ID too"
                )
    if options.wait == "committed" and options.reliability == Mode.UNRELIABLE.value:
        raise InvalidOption(
            "CONFLICT",
            "--wait committed is given for unreliable messages, which have no receipts",
            "Wait for stored",
        )
    for given, name in given_numbering(options):
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
    if options.channel == "":
        raise InvalidOption("BAD_VALUE", "--channel is empty", "Give it a name, or leave it out")
    check_files(options.files)
    if options.sequence_start is not None:
        beginning(None, sequence_start=options.sequence_start, resume_from=options.resume_from)


class _MessageSender(Protocol):
    """What the verb needs of a plain sender and of a producer's channel."""

    @property
    def statistics(self) -> SenderStatistics: ...
    async def send(self, payload: bytes, *, headers: Headers = ()) -> int: ...
    async def send_many(self, payloads: list[bytes]) -> int: ...
    async def finish(self) -> None: ...


async def _send(options: argparse.Namespace) -> int:
    show_waits()
    started = time.monotonic()
    opening = _produce(options) if options.producer is not None else _connect(options)
    sent = SentInput(0 if options.whole_file else len(options.delimiter))
    async with opening as (sender, skip):
        total = input_bytes(options.files)
        progress = asyncio.ensure_future(
            asyncio.sleep(0) if options.quiet else _show_progress(sender, sent, total)
        )
        try:
            await _send_all(sender, _wanted(options, skip, sent), options, sent)
        except SinkFailed as error:
            # behind another run --resume would mean the input of that one
            sent.resumable = error.subclass not in ("NOT_REPEATABLE", "FENCED")
            raise
        finally:
            progress.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await progress
            counts = sender.statistics
            if not options.quiet or counts.acked != counts.sent:
                _print_totals(sender, sent, options.wait, time.monotonic() - started)
            complete = counts.reliable_acked == counts.reliable_sent
            if sent.resumable and (sys.exc_info()[0] is not None or not complete):
                _say_where_to_resume(sender)
    return 0 if complete else 1


async def _send_all(
    sender: _MessageSender,
    input: AsyncIterator[list[bytes]],
    options: argparse.Namespace,
    sent: SentInput,
) -> None:
    """Returns when all that is to be waited for has come."""
    headers = tuple(options.headers)
    async for batch in input:
        sent.send(batch)
        _settle(sender, sent)
        if headers:
            for payload in batch:
                await sender.send(payload, headers=headers)
        else:
            await sender.send_many(batch)
    if isinstance(sender, ProducerChannel) and options.wait == "committed":
        # before the finish: a run that fails here has not come to its end
        await _acked(sender, sender.flush, options.ack_timeout)
        await sender.committed(timeout=options.ack_timeout)
    await _acked(sender, sender.finish, options.ack_timeout)


def _print_totals(sender: _MessageSender, sent: SentInput, wait: str, seconds: float) -> None:
    counts = sender.statistics
    repeated = 0
    if isinstance(sender, ProducerChannel):
        repeated = sender.statistics.repeated
        if wait == "committed":
            print(f"committed={sender.statistics.committed}")
    print(
        f"sent={counts.sent} acked={counts.acked} nacked={counts.nacked} "
        f"repeated={repeated} bytes={sent.payload_bytes} seconds={seconds:.3f}",
        flush=True,
    )


async def _wanted(
    options: argparse.Namespace, skip: int, sent: SentInput
) -> AsyncIterator[list[bytes]]:
    """The payloads of the input without the first ``skip``."""
    async for batch in payloads(options.files, options.delimiter, options.whole_file):
        wanted = batch[skip:]
        if skip:
            sent.leave_out(batch[:skip])
            skip = max(0, skip - len(batch))
        if wanted:
            yield wanted


def _say_where_to_resume(sender: _MessageSender) -> None:
    if isinstance(sender, ProducerChannel) and sender.reliable:
        print(
            f"messages up to {sender.stored_below} (exclusive) are stored: run the same command "
            f"again with --resume, or with --resume-from {sender.stored_below} to leave these out "
            "where no more is stored",
            file=sys.stderr,
        )


async def _acked(
    sender: _MessageSender, settle: Callable[[], Awaitable[None]], timeout: float
) -> None:
    try:
        async with asyncio.timeout(timeout):
            await settle()
    except TimeoutError:
        counts = sender.statistics
        what = f"{counts.pending} of {counts.sent} messages have no ack after {timeout:g} s"
        if not counts.pending:
            what = (
                "the receiver has not confirmed the end of the channel, or the message that "
                f"brought it along, after {timeout:g} s"
            )
        raise SinkFailed(
            "ACK_TIMEOUT",
            what,
            "Check that the receiver reads and has room, or raise --ack-timeout",
        ) from None


@contextlib.asynccontextmanager
async def _connect(options: argparse.Namespace) -> AsyncIterator[tuple[_MessageSender, int]]:
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
async def _produce(options: argparse.Namespace) -> AsyncIterator[tuple[_MessageSender, int]]:
    """The channel, and how many messages of the input are not to be sent on it."""
    name = options.channel or DEFAULT_CHANNEL
    async with contextlib.AsyncExitStack() as stack:
        producing = Producer(
            options.url,
            producer=options.producer,
            tls=arguments.client_tls(options),
            token=arguments.read_token(options.token_file),
            tickets=arguments.sessions(options),
            early_data=options.early_data,
            wait_for_server=False,
            give_up_after=options.ack_timeout,
        )
        with waiting_for_a_reply(options.url):
            producer = await stack.enter_async_context(producing)
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


def _settle(sender: _MessageSender, sent: SentInput) -> None:
    counts = sender.statistics
    sent.settle(counts.sent - counts.pending)


async def _show_progress(sender: _MessageSender, sent: SentInput, total: int | None) -> None:
    """A bar, on a terminal only: by bytes where the size of the input is known, else by messages.

    What has its outcome counts, not what was read.
    """
    with ProgressBar("acked", "messages" if total is None else "bytes", total) as bar:
        while bar.shown:
            await asyncio.sleep(PROGRESS_SECONDS)
            counts = sender.statistics
            if total is None:
                bar.update(counts.acked, counts.sent)
                continue
            _settle(sender, sent)
            # a delimiter is counted behind the last message too, where there may be none
            done = min(sent.settled_bytes, total)
            bar.update(done, description=f"{counts.acked:,} acked")

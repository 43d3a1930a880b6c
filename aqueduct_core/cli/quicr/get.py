"""``aqueduct quicr get quicr://HOST:PORT URL``: print the objects of a media."""

from __future__ import annotations

import argparse
import json
from typing import Any

from aqueduct_core.aio.quicr.client import connect
from aqueduct_core.aio.quicr.reader import MediaReader
from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.output import json_value
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.running import run_interruptible, waiting_for_a_reply
from aqueduct_core.escape import escaped
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.fragment import MAX_OBJECT
from aqueduct_core.quicr.media.reception import Conflict, Gap, GapReason

EXAMPLES = [
    (
        "what a media holds, an object a line, to its end",
        "aqueduct quicr get quicr://127.0.0.1:4433 sensors/1 --insecure",
    ),
    (
        "objects with where they stand, as JSON lines, from datagrams",
        "aqueduct quicr get quicr://127.0.0.1:4433 sensors/1 --insecure --datagrams -J",
    ),
]


MAX_BYTES = 2 * MAX_OBJECT
"""Of memory for objects that are not whole: the largest one that can be posted has room."""


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "get",
        help="print the objects of a media",
        description="Asks for a media and prints its objects, to its end: what the server still "
        "has, and what comes. A media that nobody publishes is waited for. Exit code 0 if every "
        "object came that the server still had, or was dropped on purpose by a hop; 1 if some "
        "are missing.",
        examples=EXAMPLES,
    )
    parser.add_argument("endpoint", metavar="quicr://HOST:PORT")
    parser.add_argument("url", metavar="URL", help="of the media")
    parser.add_argument(
        "--datagrams", action="store_true", help="have it sent in datagrams (default: on a stream)"
    )
    parser.add_argument(
        "--order",
        choices=["media", "arrival"],
        default="media",
        help="of what is printed: as it was published (default), or as it comes",
    )
    parser.add_argument(
        "--hole-timeout",
        type=arguments.duration,
        default=1.0,
        metavar="1s",
        help="longest wait for an object that others wait for (default: 1s)",
    )
    parser.add_argument(
        "--timeout",
        type=arguments.duration,
        metavar="30s",
        help="end, with exit code 1, when nothing came for so long (default: never)",
    )
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N objects"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "-J", dest="json", action="store_true", help="objects, gaps and the end as JSON lines"
    )
    form.add_argument(
        "--delimiter",
        type=_delimiter,
        default=b"\n",
        metavar="TEXT",
        help=r"what is printed behind each object (default: \n); empty for nothing",
    )
    parser.add_argument(
        "-q", dest="quiet", action="store_true", help="no comments on standard error"
    )
    arguments.add_trust(parser, token=False)
    parser.set_defaults(run=run)


def _delimiter(text: str) -> bytes:
    return arguments.delimiter(text) if text else b""


def run(options: argparse.Namespace) -> int:
    return run_interruptible(_get(options))


async def _get(options: argparse.Namespace) -> int:
    async with Printer() as printer:
        opening = connect(options.endpoint, tls=arguments.client_tls(options))
        with waiting_for_a_reply(options.endpoint):
            client = await opening
        async with (
            client,
            client.request(
                options.url,
                datagram=options.datagrams,
                order=options.order,
                hole_timeout=options.hole_timeout,
                timeout=options.timeout,
                max_bytes=MAX_BYTES,
            ) as reader,
        ):
            shown = _Shown(options, printer)
            async for each in reader:
                shown.faults(reader)
                await printer.room()
                shown.object(each)
                if shown.objects == options.count:
                    break
            else:
                shown.faults(reader)
                shown.end(reader)
            return 1 if shown.missing else 0


class _Shown:
    """What was printed: ``objects`` with holes; ``missing``: objects that did not come."""

    def __init__(self, options: argparse.Namespace, printer: Printer) -> None:
        self.objects = 0
        self.missing = False
        self._holes = 0
        self._json: bool = options.json
        self._delimiter: bytes = options.delimiter
        self._quiet: bool = options.quiet
        self._out = printer.out
        self._errors = printer.errors

    def object(self, each: MediaObject) -> None:
        self.objects += 1
        self._holes += each.payload is None
        if self._json:
            value = None if each.payload is None else json_value(each.payload)
            self._line(
                type="object",
                group=each.group,
                object=each.object,
                flags=each.flags,
                hole=each.payload is None,
                queueDelayMs=each.queue_delay,
                value=value,
            )
        elif each.payload is None:
            self._note(f"object {each.position} was dropped on the way")
        else:
            self._out.write(each.payload + self._delimiter)

    def faults(self, reader: MediaReader) -> None:
        """Tell the gaps and conflicts that came before the next object."""
        for gap in reader.gaps:
            self._gap(gap)
        for conflict in reader.conflicts:
            self._conflict(conflict)
        reader.gaps.clear()
        reader.conflicts.clear()

    def end(self, reader: MediaReader) -> None:
        final = reader.final
        if self._json:
            self._line(
                type="end",
                final=final,
                sure=reader.sure,
                objects=self.objects,
                holes=self._holes,
            )
        else:
            where = f"{final}" if reader.sure else f"{final}, of which the server said nothing"
            self._note(f"end at {where}: {self.objects} objects, {self._holes} of them dropped")

    def _gap(self, gap: Gap) -> None:
        self.missing |= gap.reason is not GapReason.START
        start, stop = gap.missing
        if self._json:
            self._line(type="gap", start=start, stop=stop, reason=gap.reason.value)
        else:
            self._note(f"objects from {start} to before {stop} are missing ({gap.reason.value})")

    def _conflict(self, conflict: Conflict) -> None:
        if self._json:
            self._line(type="conflict", position=conflict.position, what=conflict.what)
        else:
            self._note(f"object {conflict.position} came in two forms: {escaped(conflict.what)}")

    def _line(self, **row: Any) -> None:
        self._out.write(json.dumps(row).encode() + b"\n")

    def _note(self, text: str) -> None:
        if not self._quiet:
            self._errors.write(f"# {text}\n".encode())

"""How ``listen``, ``subscribe`` and ``spool cat`` print: JSON lines, or a format in the manner of
kcat.

A format is text with tokens: ``%s`` payload, ``%S`` its size in bytes, ``%k`` headers as k=v,k=v,
``%n`` number, ``%c`` channel id, ``%N`` name of the channel, ``%p`` producer, ``%r`` reliable or
unreliable, ``%i`` connection, ``%T`` receive time in milliseconds since 1970; of what is stored
also ``%P`` partition and ``%o`` offset; ``%%`` a percent sign, and the escapes of C for line break,
tab, return, NUL and backslash. What the peer wrote is written byte for byte, but on a terminal,
which would obey it: there it is escaped.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from aqueduct_core.aio.message import Batch
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption
from aqueduct_core.escape import escaped

TEXT_FORMAT = "%s\\n"
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The channel that messages came on."""

    connection: int
    channel: int
    name: str | None
    producer: str | None


class ByteSink(Protocol):
    """Takes what is to be printed, at once."""

    def write(self, data: bytes, /) -> object: ...


class Silence:
    """Takes what nobody wants to see."""

    def write(self, data: bytes, /) -> None:
        """Leave it out."""


class Output(Protocol):
    """Prints; whoever calls it sees to it that there is room."""

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> int:
        """Print messages of a run that arrived at ``at`` (Unix seconds), ``limit`` at most; how
        many those were."""

    def event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None: ...


class JsonLines:
    """One JSON object a line, messages and events alike."""

    def __init__(self, out: ByteSink) -> None:
        self._out = out

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> int:
        stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
        run = batch.columns
        head = (
            f'{{"type": "message", "connection": {origin.connection}, '
            f'"channel": {origin.channel}, "name": {json.dumps(origin.name)}, '
            f'"producer": {json.dumps(origin.producer)}, "num": '
        )
        reliable = "true" if run.reliable else "false"
        tail = f', "timestamp": "{stamp.replace("+00:00", "Z")}"}}'
        lines = []
        number = batch.first
        for i, single in enumerate(run.messages()):
            if i == limit:
                break
            headers = json.dumps(_pairs(single.headers)) if single.headers else "[]"
            attached = (
                json.dumps([entry.channel for entry in single.attachments])
                if single.attachments
                else "[]"
            )
            value = json.dumps(json_value(single.payload))
            lines.append(
                f'{head}{number + i}, "reliable": {reliable}, "headers": {headers}, '
                f'"attachments": {attached}, "value": {value}{tail}'
            )
        self._out.write(("\n".join(lines) + "\n").encode())
        return len(lines)

    def event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None:
        row: dict[str, Any] = {
            "type": "event",
            "kind": kind,
            "connection": connection,
            "channel": channel,
            "reason": reason,
            "counts": _counts(counts) if counts is not None else {},
        }
        self._out.write(json.dumps(row).encode() + b"\n")


class Template:
    """Messages by a format; events as comment lines on another stream.

    A message without a payload that only brings channels along is no line: what is printed is what
    was sent on them. ``terminal``: ``out`` is one, so what the peer wrote is escaped. In events it
    always is.
    """

    def __init__(
        self, format: str, out: ByteSink, events: ByteSink, *, terminal: bool = False
    ) -> None:
        self._out = out
        self._events = events
        self._format = Format(format, terminal=terminal)

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> int:
        pieces: list[bytes] = []
        shift = batch.first - batch.columns.first
        for single in batch.columns.messages():
            if len(pieces) == limit:
                break
            if single.attachments and not single.payload:
                continue
            message = PrintedMessage(
                single.payload,
                single.headers,
                single.number + shift,
                batch.reliable,
                origin,
                at,
            )
            pieces.append(self._format.line(message))
        self._out.write(b"".join(pieces))
        return len(pieces)

    def event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None:
        where = f" channel {channel}" if channel is not None else ""
        why = f" ({escaped(reason)})" if reason else ""
        self._events.write(f"# {kind} connection {connection}{where}{why}\n".encode())


@dataclass(frozen=True, slots=True)
class PrintedMessage:
    """What a format may show of a message; ``partition`` and ``offset`` where it is stored."""

    payload: bytes
    headers: Headers
    number: int
    reliable: bool
    origin: Origin
    at: float
    partition: int = 0
    offset: int = 0


class Format:
    """A format that is parsed. ``stored``: for what lies in a spool. ``terminal``: what a peer
    wrote is escaped.

    Raises:
        InvalidOption: BAD_VALUE naming the unknown token.
    """

    def __init__(self, format: str, *, stored: bool = False, terminal: bool = False) -> None:
        self._parts = parse_format(format, TOKENS | STORED_TOKENS if stored else TOKENS)
        self._shown = _escaped if terminal else _exact

    def line(self, message: PrintedMessage) -> bytes:
        shown = self._shown
        return b"".join(
            part if isinstance(part, bytes) else part(message, shown) for part in self._parts
        )


Shown: TypeAlias = Callable[[bytes], bytes]
"""How what a peer wrote is shown."""

FormatPart: TypeAlias = Callable[[PrintedMessage, Shown], bytes]


def _exact(data: bytes) -> bytes:
    return data


def _escaped(data: bytes) -> bytes:
    return escaped(data, None).encode()


TOKENS: dict[str, FormatPart] = {
    "s": lambda row, shown: shown(row.payload),
    "S": lambda row, shown: b"%d" % len(row.payload),
    "k": lambda row, shown: b",".join(shown(key + b"=" + value) for key, value in row.headers),
    "n": lambda row, shown: b"%d" % row.number,
    "c": lambda row, shown: b"%d" % row.origin.channel,
    "N": lambda row, shown: shown((row.origin.name or "").encode()),
    "p": lambda row, shown: shown((row.origin.producer or "").encode()),
    "r": lambda row, shown: b"reliable" if row.reliable else b"unreliable",
    "i": lambda row, shown: b"%d" % row.origin.connection,
    "T": lambda row, shown: b"%d" % (row.at * 1000),
}

STORED_TOKENS: dict[str, FormatPart] = {
    "P": lambda row, shown: b"%d" % row.partition,
    "o": lambda row, shown: b"%d" % row.offset,
}
"""Of what lies in a spool."""


def parse_format(format: str, tokens: Mapping[str, FormatPart]) -> list[bytes | FormatPart]:
    """The parts of a format. Raises: InvalidOption.BAD_VALUE naming the unknown token."""
    parts: list[bytes | FormatPart] = []
    for token, escape, text in re.findall(r"%(.?)|\\(.?)|([^%\\]+)", format, re.DOTALL):
        if text:
            parts.append(text.encode())
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        elif token == "%":
            parts.append(b"%")
        elif token in tokens:
            parts.append(tokens[token])
        else:
            wrong = f"%{token}" if not escape else f"\\{escape}"
            raise InvalidOption(
                "BAD_VALUE",
                f"the format {format!r} holds {wrong!r}",
                f"Use %{', %'.join(tokens)}, %% and \\n, \\t, \\r, \\0",
            )
    return parts


def make_output(
    as_json: bool, format: str | None, out: ByteSink, events: ByteSink, *, terminal: bool
) -> Output:
    if as_json:
        return JsonLines(out)
    return Template(TEXT_FORMAT if format is None else format, out, events, terminal=terminal)


def json_value(data: bytes) -> str | dict[str, str]:
    """Bytes in JSON: as text where they are UTF-8, else in base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _pairs(headers: Iterable[tuple[bytes, bytes]]) -> list[list[Any]]:
    return [[json_value(key), json_value(value)] for key, value in headers]


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "reliableSent": counts.reliable_sent,
        "reliableReceived": counts.reliable_received,
        "unreliableSent": counts.unreliable_sent,
        "acked": counts.acked,
        "nacked": counts.nacked,
        "late": counts.late,
    }

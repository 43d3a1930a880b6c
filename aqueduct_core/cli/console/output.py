"""How ``listen`` and ``subscribe`` print: JSON lines, or a format in the manner of kcat.

A format is text with tokens: ``%s`` payload, ``%S`` its size in bytes, ``%k`` headers as k=v,k=v,
``%n`` number, ``%c`` channel id, ``%N`` name of the channel, ``%p`` producer, ``%r`` reliable or
unreliable, ``%i`` connection, ``%T`` receive time in milliseconds since 1970, ``%%`` a percent
sign, and the escapes of C for line break, tab, return, NUL and backslash. What the peer wrote is
written byte for byte, but on a terminal, which would obey it: there it is escaped.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

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


class Output(Protocol):
    """Prints; whoever calls it sees to it that there is room."""

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> None:
        """Print the first ``limit`` messages of a run that arrived at ``at`` (Unix seconds)."""

    def event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None: ...


class JsonLines:
    """One JSON object a line, messages and events alike."""

    def __init__(self, out: ByteSink) -> None:
        self._out = out

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> None:
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

    ``terminal``: ``out`` is one, so what the peer wrote is escaped. In events it always is.
    """

    def __init__(
        self, format: str, out: ByteSink, events: ByteSink, *, terminal: bool = False
    ) -> None:
        self._out = out
        self._events = events
        self._parts = parse_format(format)
        self._shown = _escaped if terminal else _exact

    def messages(self, batch: Batch, limit: int, origin: Origin, at: float) -> None:
        pieces: list[bytes] = []
        shift = batch.first - batch.columns.first
        for i, single in enumerate(batch.columns.messages()):
            if i == limit:
                break
            number = single.number + shift
            row = _Row(
                single.payload, single.headers, number, batch.reliable, origin, at, self._shown
            )
            pieces.extend(part if isinstance(part, bytes) else part(row) for part in self._parts)
        self._out.write(b"".join(pieces))

    def event(
        self, kind: str, connection: int, channel: int | None, reason: str, counts: Counts | None
    ) -> None:
        where = f" channel {channel}" if channel is not None else ""
        why = f" ({escaped(reason)})" if reason else ""
        self._events.write(f"# {kind} connection {connection}{where}{why}\n".encode())


@dataclass(frozen=True, slots=True)
class _Row:
    payload: bytes
    headers: Headers
    number: int
    reliable: bool
    origin: Origin
    at: float
    shown: Callable[[bytes], bytes]


def _exact(data: bytes) -> bytes:
    return data


def _escaped(data: bytes) -> bytes:
    return escaped(data, None).encode()


FormatPart = Callable[[_Row], bytes]

TOKENS: dict[str, FormatPart] = {
    "s": lambda row: row.shown(row.payload),
    "S": lambda row: b"%d" % len(row.payload),
    "k": lambda row: b",".join(row.shown(key + b"=" + value) for key, value in row.headers),
    "n": lambda row: b"%d" % row.number,
    "c": lambda row: b"%d" % row.origin.channel,
    "N": lambda row: row.shown((row.origin.name or "").encode()),
    "p": lambda row: row.shown((row.origin.producer or "").encode()),
    "r": lambda row: b"reliable" if row.reliable else b"unreliable",
    "i": lambda row: b"%d" % row.origin.connection,
    "T": lambda row: b"%d" % (row.at * 1000),
}


def parse_format(format: str) -> list[bytes | FormatPart]:
    """The parts of a format. Raises: InvalidOption.BAD_VALUE naming the unknown token."""
    parts: list[bytes | FormatPart] = []
    for token, escape, text in re.findall(r"%(.?)|\\(.?)|([^%\\]+)", format, re.DOTALL):
        if text:
            parts.append(text.encode())
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        elif token == "%":
            parts.append(b"%")
        elif token in TOKENS:
            parts.append(TOKENS[token])
        else:
            wrong = f"%{token}" if not escape else f"\\{escape}"
            raise InvalidOption(
                "BAD_VALUE",
                f"the format {format!r} holds {wrong!r}",
                f"Use %{', %'.join(TOKENS)}, %% and \\n, \\t, \\r, \\0",
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

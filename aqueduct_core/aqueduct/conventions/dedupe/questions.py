"""What a sink asks at the end of an attempt, and what the receiver answers (pure): JSON.

    question {"v":1,"channels":[["c0",8589934592,10737418240],…]}
    answer   {"v":1,"channels":[{"count":500,"checksum":"00c0ffee00c0ffee","repeated":20},…]}

A question is a message of the entrypoint with the header ``checksums``, and has one attachment: a
oneshot channel for the answer. It names channels of the connection's producer and the logical
numbers ``[first, stop)`` that are asked about; with ``partition`` those of one partition of the
writer, with ``source`` the rows that it sent of one source. The answer has an entry for each in
the same order. ``count`` and ``checksum`` (see
`dedupe.checksum`; 16 hexadecimal digits) are of all that is stored of them, by whomever it was
sent, and left out where that is not known. ``later`` is true where a later batch of the channel is
stored: what comes of this one any more is recognised as repeated, whatever it is, and count and
checksum are of what was stored before.
``repeated`` counts the messages of this connection that were stored before, and ``uncompared``, of
rows of a source, those among them whose content is not known to be what is stored. One that is
known to be another is never acked: it ends the connection.

With ``among`` (a pair of numbers) the answer also has ``channels_among``: of how many channels any
of these numbers is stored. A reader ignores keys that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aqueduct_core.aqueduct.conventions.dedupe.source_rows import MAX_SOURCE_BYTES
from aqueduct_core.aqueduct.conventions.headers import (
    CHECKSUMS,
    CHECKSUMS_VERSION,
    MAX_NAME_BYTES,
    MAX_SEQUENCE,
)
from aqueduct_core.engine.checksum import MASK, Content
from aqueduct_core.engine.message_batch import Headers

VERSION = 1
MAX_CHANNELS = 256
"""Channels in one question."""
MAX_BYTES = 512 * 1024
"""Of a question: names are short, but JSON may write each of their bytes as six."""


class BadQuestion(ValueError):
    """A question, or an answer, that breaks its form."""


class Asked(NamedTuple):
    """The logical numbers ``[first, stop)`` of a channel."""

    channel: str
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Question:
    channels: Sequence[Asked]
    partition: int | None = None
    among: tuple[int, int] | None = None
    source: str | None = None

    def to_payload(self) -> bytes:
        value: dict[str, Any] = {"v": VERSION, "channels": self.channels}
        if self.partition is not None:
            value["partition"] = self.partition
        if self.among is not None:
            value["among"] = self.among
        if self.source is not None:
            value["source"] = self.source
        return _dump(value)

    @classmethod
    def from_payload(cls, payload: bytes) -> Question:
        """Raises: BadQuestion."""
        if len(payload) > MAX_BYTES:
            raise BadQuestion(f"a question of {len(payload)} bytes; {MAX_BYTES} are allowed")
        value = _load(payload)
        channels, partition, among = (value.get(k) for k in ("channels", "partition", "among"))
        if not isinstance(channels, list) or len(channels) > MAX_CHANNELS:
            raise BadQuestion(f"a question has no list of at most {MAX_CHANNELS} channels")
        if partition is not None and not _is_number(partition):
            raise BadQuestion("the partition of a question is no number")
        source = value.get("source")
        if source is not None and not (
            isinstance(source, str) and 0 < len(source) <= MAX_SOURCE_BYTES and partition is None
        ):
            raise BadQuestion("the source of a question is no name, or it has a partition, too")
        return cls(
            [_asked(item) for item in channels],
            partition,
            None if among is None else _numbers(among),
            source,
        )


class KnownNumbers(NamedTuple):
    """What is stored of a channel that was asked about; ``content`` None: it is not known.
    ``later``: these numbers are below a later batch. ``uncompared`` None: it was not asked about
    rows of a source."""

    content: Content | None
    repeated: int
    later: bool = False
    uncompared: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    channels: Sequence[KnownNumbers]
    channels_among: int | None = None

    def to_payload(self) -> bytes:
        value: dict[str, Any] = {"v": VERSION, "channels": list(map(_entry, self.channels))}
        if self.channels_among is not None:
            value["channels_among"] = self.channels_among
        return _dump(value)

    @classmethod
    def from_payload(cls, payload: bytes) -> Answer:
        """Raises: BadQuestion."""
        value = _load(payload)
        channels, among = value.get("channels"), value.get("channels_among")
        if not isinstance(channels, list) or not (among is None or _is_number(among)):
            raise BadQuestion("an answer has no list of channels")
        return cls([_known(item) for item in channels], among)


def question_header() -> tuple[bytes, bytes]:
    """The header of a message that is a question, and of a connection whose server answers."""
    return CHECKSUMS, CHECKSUMS_VERSION


def is_question(headers: Headers) -> bool:
    """Whether a message with these headers is one that we can answer."""
    return question_header() in headers


def _entry(known: KnownNumbers) -> dict[str, Any]:
    entry: dict[str, Any] = {"repeated": known.repeated}
    if known.later:
        entry["later"] = True
    if known.uncompared is not None:
        entry["uncompared"] = known.uncompared
    if known.content is not None:
        entry |= {"count": known.content.messages, "checksum": f"{known.content.total:016x}"}
    return entry


def _known(item: Any) -> KnownNumbers:
    if not isinstance(item, dict) or not _is_number(item.get("repeated")):
        raise BadQuestion("an entry of an answer counts no repeats")
    uncompared = item.get("uncompared")
    if not (uncompared is None or _is_number(uncompared)):
        raise BadQuestion("an entry of an answer has no number of rows that were not compared")
    if item.get("checksum") is None:
        return KnownNumbers(None, item["repeated"], item.get("later") is True, uncompared)
    count, checksum = item.get("count"), item["checksum"]
    try:
        total = int(checksum, 16)
    except (TypeError, ValueError):
        total = -1
    if not isinstance(count, int) or not _is_number(count) or not 0 <= total <= MASK:
        raise BadQuestion("an entry of an answer has no count and checksum")
    return KnownNumbers(
        Content(count, total), item["repeated"], item.get("later") is True, uncompared
    )


def _asked(item: Any) -> Asked:
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
        raise BadQuestion("an entry of a question names no channel")
    if len(item[0]) > MAX_NAME_BYTES:
        raise BadQuestion("an entry of a question has too long a name")
    return Asked(item[0], *_numbers(item[1:]))


def _numbers(pair: Any) -> tuple[int, int]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_number, pair)):
        raise BadQuestion("numbers of a question are no pair")
    first, stop = pair
    if not first < stop <= MAX_SEQUENCE:
        raise BadQuestion("numbers of a question are empty or over 2^62")
    return first, stop


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _load(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise BadQuestion("it is not JSON") from None
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise BadQuestion("it is of another version")
    return value

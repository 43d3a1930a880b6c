"""The messages of a receipts channel: which messages of a producer are committed (pure).

Each is a JSON object ``{"v":1,"committed":[{"channel":…,"reliable":…,"ranges":[[first,stop],…]}]}``
with numbers in decimal digits, ``stop`` exclusive. It adds to what the messages before it said. An
empty list says only that receipts are given here; it is the first message of the channel.
``id`` (the number of the channel on its connection) is there where the channel keeps no logical
numbers: then the ranges are of its wire numbers. A reader ignores keys that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aqueduct_core.aqueduct.conventions.headers import (
    MAX_SEQUENCE,
    RECEIPTS,
    BadHeader,
    parse_decimal,
    single,
)
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.primitives.ranges import Range

VERSION = 1
"""Of the payload; the header ``receipts`` names the newest that its sender understands."""

MAX_RANGES = 1000
"""Ranges in one message, so that it stays far below any limit of a peer."""


class BadReceipt(ValueError):
    """A message of a receipts channel that breaks its form."""


class CommittedMessages(NamedTuple):
    """Messages of one channel that are committed, as ranges ``[first, stop)``."""

    channel: str
    reliable: bool
    ranges: tuple[Range, ...]
    id: int | None = None


def receipts_header() -> tuple[bytes, bytes]:
    """The header of a channel on which its creator wants receipts."""
    return RECEIPTS, b"%d" % VERSION


def wants_receipts(headers: Headers) -> bool:
    """Whether the creator of a channel that flows away from us wants receipts on it; without a
    value: of version 1. Raises: BadHeader."""
    value = single(headers, RECEIPTS)
    if value is None:
        return False
    if value and parse_decimal(RECEIPTS, value) < VERSION:
        raise BadHeader("header receipts names no version")
    return True


def to_payload(entries: Iterable[CommittedMessages]) -> bytes:
    committed: list[dict[str, Any]] = []
    for entry in entries:
        item: dict[str, Any] = {"channel": entry.channel, "reliable": entry.reliable}
        if entry.id is not None:
            item["id"] = entry.id
        committed.append(item | {"ranges": entry.ranges})
    text = json.dumps(
        {"v": VERSION, "committed": committed}, separators=(",", ":"), ensure_ascii=False
    )
    return text.encode()


def from_payload(payload: bytes) -> list[CommittedMessages]:
    """Raises: BadReceipt."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise BadReceipt("a receipt is not JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("committed"), list):
        raise BadReceipt("a receipt has no list 'committed'")
    if value.get("v") != VERSION:
        raise BadReceipt("a receipt is of another version")
    return [_entry(item) for item in value["committed"]]


def _entry(item: Any) -> CommittedMessages:
    if not isinstance(item, dict):
        raise BadReceipt("an entry of a receipt is no object")
    channel, reliable, ranges = item.get("channel"), item.get("reliable"), item.get("ranges")
    number = item.get("id")
    if not isinstance(channel, str) or not isinstance(reliable, bool):
        raise BadReceipt("an entry of a receipt names no channel")
    if number is not None and not _is_number(number):
        raise BadReceipt("an entry of a receipt has an id that is no number")
    if not isinstance(ranges, list):
        raise BadReceipt("an entry of a receipt has no ranges")
    return CommittedMessages(channel, reliable, tuple(_range(pair) for pair in ranges), number)


def _range(pair: Sequence[Any]) -> Range:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_number, pair)):
        raise BadReceipt("a range of a receipt is no pair of numbers")
    first, stop = pair
    if not first < stop <= MAX_SEQUENCE:
        raise BadReceipt("a range of a receipt is empty or over 2^62")
    return first, stop


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

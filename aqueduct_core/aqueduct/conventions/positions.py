"""Where a producer's channel stands at who stores it: the answer to ``position-of`` (pure).

It is a JSON object
``{"v":1,"channel":…,"next":…,"begun":…,"finished":…,"stored":[[first,stop],…]}`` with logical
numbers in decimal digits, ``stop`` exclusive. ``begun`` is left out where it is not known. A reader
ignores keys that it does not know.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE
from aqueduct_core.primitives.ranges import Range

VERSION = 1

MAX_RANGES = 64
"""Ranges in one answer; the lowest are left out."""


class BadPosition(ValueError):
    """An answer that breaks its form."""


class ChannelPosition(NamedTuple):
    """Where a channel stands.

    All numbers that are stored, or of which it was declared that they will never come, are below
    ``next``. ``begun`` is the number at which the last run that has numbers below ``next`` began,
    None where that is not known. ``finished``: the last run finished the channel at ``next``.
    ``stored`` are the stored numbers, the highest `MAX_RANGES` ranges of them.
    """

    channel: str
    next: int
    begun: int | None
    finished: bool
    stored: tuple[Range, ...]

    @property
    def broken_off(self) -> bool:
        """Something is stored, and what sent it last did not come to its end."""
        return self.next > 0 and not self.finished

    def all_from(self, number: int) -> bool:
        """Whether nothing is stored below ``number``, as far as is told."""
        told = len(self.stored) < MAX_RANGES
        return told and (not self.stored or number <= self.stored[0][0])


def to_payload(position: ChannelPosition) -> bytes:
    value: dict[str, Any] = {"v": VERSION, "channel": position.channel, "next": position.next}
    if position.begun is not None:
        value["begun"] = position.begun
    value |= {"finished": position.finished, "stored": position.stored[-MAX_RANGES:]}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def from_payload(payload: bytes) -> ChannelPosition:
    """Raises: BadPosition."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise BadPosition("a position is not JSON") from None
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise BadPosition("a position is of another version")
    channel, begun, finished = value.get("channel"), value.get("begun"), value.get("finished")
    stored = value.get("stored")
    if not isinstance(channel, str) or not isinstance(finished, bool):
        raise BadPosition("a position names no channel, or does not say whether it is finished")
    if begun is not None and not _is_number(begun):
        raise BadPosition("a position has a 'begun' that is no number")
    if not _is_number(value.get("next")) or not isinstance(stored, list):
        raise BadPosition("a position has no number 'next', or no list 'stored'")
    return ChannelPosition(channel, value["next"], begun, finished, tuple(map(_range, stored)))


def _range(pair: Any) -> Range:
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_number, pair)):
        raise BadPosition("a range of a position is no pair of numbers")
    if not pair[0] < pair[1]:
        raise BadPosition("a range of a position is empty")
    return pair[0], pair[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEQUENCE

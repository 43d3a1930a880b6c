"""What the owner of a spool may choose, and the watermarks that become true with a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.errors import InvalidOption

SPARSE = "\0rows"
"""How the name ends under which the sequences of a channel are marked that has holes everywhere:
its marks may be entries of a `NumberSet` too. Names of channels hold no NUL."""


class SequenceMark(NamedTuple):
    """Logical sequences ``first`` to ``stop`` (exclusive) of a channel are stored; where ``stop``
    is negative, those of block ``first`` whose bits are set in ``-stop`` (`NumberSet`)."""

    producer: str
    channel: str
    first: int
    stop: int


class ContentSum(NamedTuple):
    """Of the sequences ``[first, stop)`` of a channel so many ``messages`` are stored, and their
    checksums add up to ``total`` modulo 2^64; None: it is not known any more."""

    producer: str
    channel: str
    first: int
    stop: int
    messages: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """Bounds of a spool, each with its reason.

    segment_bytes: a segment is closed at the first group that starts at or above this size. Space
        comes back in whole segments, so it is also the grain of truncation.
    max_bytes: at this size the spool is ``full``: the owner pushes back. Unread data stays.
    owed_logs: the first so many logs are owed to a reader: their rows stay also while no cursor
        reads these logs. Rows of the others go with what the cursors have passed.
    retention: seconds from when a segment was closed for which it is kept although every cursor
        has passed it; not while the spool is full.
    max_tracks: (producer, channel) pairs whose stored sequences are remembered. Beyond it the one
        not used for longest is forgotten: what its producer sends again is stored again. Twice as
        many as the channels that one connection may have: who stores in one is remembered as well.
    max_ranges: ranges remembered for one pair. Beyond it the lowest are forgotten, likewise.
    max_total_ranges: ranges over all pairs; bounds the snapshot that every segment starts with.
        Sparse pairs share half of it; each has eight times ``max_ranges`` at most, and forgets the
        lowest beyond its share.
    """

    segment_bytes: int = 64 * 1024 * 1024
    max_bytes: int = 10 * 1024 * 1024 * 1024
    owed_logs: int = 0
    retention: float = 0.0
    max_tracks: int = 131_072
    max_ranges: int = 1_024
    max_total_ranges: int = 131_072

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "max_bytes", "max_tracks", "max_ranges", "max_total_ranges"):
            value = getattr(self, name)
            if value < 1:
                raise InvalidOption(
                    "BAD_VALUE", f"spool setting {name} is {value}", "Give it a value of at least 1"
                )
        if self.owed_logs < 0:
            raise InvalidOption(
                "BAD_VALUE", f"spool setting owed_logs is {self.owed_logs}", "Give it 0 or more"
            )
        if self.retention < 0:
            raise InvalidOption(
                "BAD_VALUE",
                f"spool setting retention is {self.retention} s",
                "Give it 0 or more seconds",
            )

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment is closed: small enough that a small spool can be trimmed."""
        return max(1, min(self.segment_bytes, self.max_bytes // 4))

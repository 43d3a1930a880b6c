"""What the owner of a spool may choose, and the watermarks that become true with a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.errors import InvalidOption

SPARSE = "\0rows"
"""How the name of a track ends that has holes everywhere: its marks may be entries of a `NumberSet`
too. No name that a peer gave has a NUL."""


class SequenceMark(NamedTuple):
    """Numbers ``first`` to ``stop`` (exclusive) of a *track* are stored: of any two texts, a source
    and a name under it, which the spool only tells apart. Where ``stop`` is negative, those of
    block ``first`` whose bits are set in ``-stop`` (`NumberSet`)."""

    source: str
    name: str
    first: int
    stop: int


class ContentSum(NamedTuple):
    """Of the numbers ``[first, stop)`` of a track so many ``messages`` are stored, and their
    checksums add up to ``total`` modulo 2^64; None: it is not known any more."""

    source: str
    name: str
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
    owed_partitions: the first so many are owed to a reader: their rows stay also while no cursor
        reads them. Rows of the others go with what the cursors have passed.
    retention: seconds from when a segment was closed for which it is kept although every cursor
        has passed it; not while the spool is full.
    max_tracks: tracks of which it is remembered which numbers are stored. Beyond it the one not
        used for longest is forgotten: what its source sends again is stored again. Twice as many
        as the channels that one connection may have: who stores in one is remembered as well.
    max_ranges: ranges remembered for one track. Beyond it the lowest are forgotten, likewise.
    max_total_ranges: ranges over all tracks; bounds the snapshot that every segment starts with.
        Sparse tracks share half of it; each has eight times ``max_ranges`` at most, and forgets the
        lowest beyond its share.
    """

    segment_bytes: int = 64 * 1024 * 1024
    max_bytes: int = 10 * 1024 * 1024 * 1024
    owed_partitions: int = 0
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
        if self.owed_partitions < 0:
            raise InvalidOption(
                "BAD_VALUE",
                f"spool setting owed_partitions is {self.owed_partitions}",
                "Give it 0 or more",
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

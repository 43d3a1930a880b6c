"""Where a sender takes a media from, one fragment at a time and only when there is room for it: so
media waits where it can still be given up, and a slow reader holds nothing but its place."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position


class NextFragment(NamedTuple):
    """The next fragment of a source. ``since``: when it came to this hop. ``live``: it came behind
    this reader; what was there before it is history, which is late by nature, and no congestion."""

    fragment: Fragment
    since: float
    live: bool = True


class MediaSource(Protocol):
    """One media as one reader gets it.

    A source for streams gives all fragments in media order, without a hole between them; one for
    datagrams may give them in any order.
    """

    @property
    def start(self) -> Position:
        """The first object, as far as is known."""

    def peek(self) -> NextFragment | None:
        """The next fragment; None: there is none now, and `QuicrEngine.wake` is to be called when
        there is one again."""

    def advance(self) -> None:
        """The fragment of `peek` is on its way, or was given up: go on behind it."""

    @property
    def final(self) -> Position | None:
        """Behind the last object, once that is known: its group, and its number plus one; (0, 0) of
        a media without objects. The sender has all when this is known and `peek` gives None."""

"""Readers of a cache: each a `MediaSource` that holds nothing but its place."""

from __future__ import annotations

from abc import ABC, abstractmethod

from aqueduct_core.quicr.media.cache import MediaCache
from aqueduct_core.quicr.media.cached_object import CachedPiece
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position
from aqueduct_core.quicr.media.source import NextFragment


class _Place(ABC):
    """A reader of a cache, until `close`.

    ``missed`` counts objects that went before it had them, and are holes to it. ``cut_off``: it
    cannot go on, and gives nothing any more.
    """

    def __init__(self, cache: MediaCache, now: float) -> None:
        self.cut_off = False
        self.missed = 0
        self._cache = cache
        self._began = now
        self._live_from = cache.next_number
        self._waiting: NextFragment | None = None
        cache.readers.append(self)

    def close(self) -> None:
        """It reads no more."""
        if self in self._cache.readers:
            self._cache.readers.remove(self)

    @property
    def arrival(self) -> int | None:
        return None

    @property
    def final(self) -> Position | None:
        """The final point, once all before it was read."""
        if self.cut_off or self._waiting is not None or not self._at_end():
            return None
        return self._cache.final

    def peek(self) -> NextFragment | None:
        if self._waiting is None and not self.cut_off:
            self._waiting = self._find()
        return self._waiting if not self.cut_off else None

    def advance(self) -> None:
        if self._waiting is not None:
            self._pass(self._waiting.fragment)
            self._waiting = None

    @abstractmethod
    def loses(self, position: Position) -> bool:
        """An object goes, or becomes a hole; whether this reader is in the middle of it."""

    @abstractmethod
    def _find(self) -> NextFragment | None:
        """The next fragment at its place."""

    @abstractmethod
    def _pass(self, fragment: Fragment) -> None:
        """Go on behind a fragment that was found."""

    @abstractmethod
    def _at_end(self) -> bool:
        """All up to the final point was read."""

    def _give(self, piece: CachedPiece) -> NextFragment:
        fragment, received, number = piece
        if not fragment.object and not fragment.offset and fragment.previous is None:
            fragment = fragment._replace(previous=self._previous(fragment.group))
        return NextFragment(fragment, received, number >= self._live_from)

    def _missed(self, position: Position) -> NextFragment:
        self.missed += 1
        previous = None if position.object else self._previous(position.group)
        return NextFragment(hole(position, previous), self._began, False)

    def _previous(self, group: int) -> int | None:
        return self._cache.size_of(group - 1) if group else 0


class MediaOrderReader(_Place):
    """Reads in media order, and waits where something is missing that may still come (Q27)."""

    def __init__(self, cache: MediaCache, now: float) -> None:
        super().__init__(cache, now)
        self._begun = False
        self._start = self._position = BEGIN
        self._offset = 0

    @property
    def start(self) -> Position:
        return self._start if self._begun else self._cache.begin

    def loses(self, position: Position) -> bool:
        if not self._begun or position != self._position:
            return False
        waiting = self._waiting
        return self._offset > 0 or (waiting is not None and not waiting.fragment.last)

    def _find(self) -> NextFragment | None:
        cache = self._cache
        position = self._position if self._begun else cache.begin
        while not (cache.final is not None and position >= cache.final):
            object = cache.object_at(position)
            if object is not None:
                piece = object.piece_at(self._offset)
                return self._found(position, self._give(piece)) if piece is not None else None
            size = cache.size_of(position.group)
            if size is not None and position.object >= size:
                position = Position(position.group + 1, 0)
            elif not cache.was_here(position):
                return None
            elif size is None and position.object and position.group < cache.front.group:
                position = Position(position.group + 1, 0)  # nobody knows how many it had
            else:
                return self._found(position, self._missed(position))
        return None

    def _found(self, position: Position, waiting: NextFragment) -> NextFragment:
        if not self._begun:
            self._begun = True
            self._start = position
        self._position = position
        return waiting

    def _pass(self, fragment: Fragment) -> None:
        if fragment.last:
            self._position, self._offset = self._position.following, 0
        else:
            self._offset = fragment.stop

    def _at_end(self) -> bool:
        final = self._cache.final
        position = self._position if self._begun else self._cache.begin
        return final is not None and position >= final


class PostReader:
    """A `MediaSource` whose receiver has yet to say which order it takes; gives nothing before."""

    def __init__(self, cache: MediaCache) -> None:
        self._cache = cache
        self._chosen: MediaOrderReader | ArrivalOrderReader | None = None

    @property
    def cut_off(self) -> bool:
        return self._chosen is not None and self._chosen.cut_off

    @property
    def missed(self) -> int:
        return self._chosen.missed if self._chosen is not None else 0

    @property
    def start(self) -> Position:
        return self._chosen.start if self._chosen is not None else self._cache.begin

    @property
    def final(self) -> Position | None:
        return self._chosen.final if self._chosen is not None else None

    def choose(self, *, datagram: bool, now: float) -> None:
        """The order of arrival, for datagrams, or that of the media."""
        self._chosen = (ArrivalOrderReader if datagram else MediaOrderReader)(self._cache, now)

    def peek(self) -> NextFragment | None:
        return self._chosen.peek() if self._chosen is not None else None

    def advance(self) -> None:
        if self._chosen is not None:
            self._chosen.advance()

    def close(self) -> None:
        """It reads no more."""
        if self._chosen is not None:
            self._chosen.close()


class ArrivalOrderReader(_Place):
    """Reads in the order of arrival, from all that is there on (Q27)."""

    def __init__(self, cache: MediaCache, now: float) -> None:
        super().__init__(cache, now)
        self._number = cache.oldest_number
        self._start = cache.begin

    @property
    def start(self) -> Position:
        # only what nobody was told can still become known (Q15)
        return self._start if self._start != BEGIN else self._cache.start

    @property
    def arrival(self) -> int | None:
        return self._number

    def loses(self, position: Position) -> bool:
        return False

    def _find(self) -> NextFragment | None:
        cache = self._cache
        while self._number < cache.next_number:
            piece = cache.arrived(self._number)
            if piece is not None and piece.fragment[:2] >= self._start:
                return self._give(piece)
            position = cache.passed(self._number)
            if position is not None and position >= self._start:
                return self._missed(position)
            self._number += 1
        return None

    def _pass(self, fragment: Fragment) -> None:
        self._number += 1

    def _at_end(self) -> bool:
        return self._cache.complete and self._number >= self._cache.next_number

"""One media on its way to one peer: which piece of it is next, and what of it is given up."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, TypeVar

from aqueduct_core.quicr.media.drop_level import DropLevel
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import BEGIN, Position
from aqueduct_core.quicr.media.source import MediaSource

REMEMBERED = 1_024
"""Objects, and groups, of which it is remembered whether they were given up: those of which more
may come. Of older ones a piece may leave that nobody needs."""


class SendRank(NamedTuple):
    """Which of the media of a connection goes first: the one with the least."""

    priority: int
    """0: not to be dropped; else the drop priority, plus one."""
    history: bool
    """It was there before the reader, who waits for what is live."""
    since: float


class MediaSender:
    """Takes pieces out of a source. Ends when `finished` holds, or it is used no more.

    Args:
        stream: the transaction's.
        datagram_id: as the receiver has chosen it; None: it goes on the stream.
        level: None: nothing is given up.
    """

    def __init__(
        self,
        stream: int,
        source: MediaSource,
        datagram_id: int | None,
        level: DropLevel | None,
    ) -> None:
        self.stream = stream
        self.source = source
        self.datagram_id = datagram_id
        self.start_told = BEGIN
        """The start point that the receiver knows; the first object, where it was told none."""
        self.begun = False
        """A piece has been taken."""
        self.unconfirmed = 0
        """Pieces that left as datagrams, or wait to be sent again, and are not acknowledged."""
        self.dropped: list[Position] = []
        """Objects that were given up since this was emptied last."""
        self._level = level
        self._cut = 0  # bytes of the source's next fragment that were taken
        self._given_up: OrderedDict[Position, bool] = OrderedDict()
        self._groups: OrderedDict[int, None] = OrderedDict()

    @property
    def rank(self) -> SendRank | None:
        """Of the next piece; None: there is none."""
        waiting = self.source.peek()
        if waiting is None:
            return None
        priority = None if self._level is None else self._level.priority(waiting.fragment.flags)
        return SendRank(0 if priority is None else priority + 1, not waiting.live, waiting.since)

    @property
    def exhausted(self) -> bool:
        """Every piece was taken, and no more will come."""
        return self.source.final is not None and self.source.peek() is None

    @property
    def finished(self) -> bool:
        """The same, and all of them are where they should be (K2)."""
        return not self.unconfirmed and self.exhausted

    def piece(self, most: int) -> Fragment | None:
        """Take the next piece, of at most ``most`` bytes; None: there is none now. Where an object
        is given up, it is a hole (Q36)."""
        source = self.source
        while (waiting := source.peek()) is not None:
            fragment = waiting.fragment
            self.begun = True
            if not self._cut and self._level is not None:
                given_up = self._decide(fragment, waiting.live, self._level)
                if given_up is not None:
                    source.advance()
                    if not given_up:
                        continue
                    self.dropped.append(fragment.position)
                    return hole(fragment.position, fragment.previous)
            start, data = self._cut, fragment.data
            if len(data) - start <= most:
                self._cut = 0
                source.advance()
                return fragment if not start else _part(fragment, start, len(data))
            self._cut = start + most
            return _part(fragment, start, self._cut)
        return None

    def _decide(self, fragment: Fragment, live: bool, level: DropLevel) -> bool | None:
        """None: it is sent. False: it is of an object for which a hole was sent. True: that is to
        be done now. Decided with the first piece of an object that comes by, for all of them."""
        position = fragment.position
        whole = fragment.last and not fragment.offset
        if not whole and (before := self._given_up.get(position)) is not None:
            return False if before else None
        flags = fragment.flags
        drops = level.drops(flags) if live else False
        if not drops and position.group in self._groups and level.priority(flags) is not None:
            drops = True
        if drops and not position.object:
            _remember(self._groups, position.group, None)
        if not whole:
            _remember(self._given_up, position, drops)
        return True if drops else None


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


def _remember(table: OrderedDict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    table[key] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)


def _part(fragment: Fragment, start: int, stop: int) -> Fragment:
    """Its bytes ``[start, stop)``, as a fragment of their own (Q12, Q32)."""
    group, number, offset, data, last, flags, delay, previous = fragment
    return Fragment(
        group,
        number,
        offset + start,
        data[start:stop],
        last and stop == len(data),
        flags,
        delay,
        None if start else previous,
    )

"""One media as it comes from one peer: is it in order, and where does it end?

Objects are put together elsewhere (`media.reception`, or a relay's cache): this checks what the
peer may send.
"""

from __future__ import annotations

from collections.abc import Sequence

from aqueduct_core.quicr.faults import ProtocolFault
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import BEGIN, Position


class MediaReceiver:
    """Ends when ``final`` is known, of a stream; behind it only datagrams may still come.

    A hop of the prototype whose feed broke off names the final point behind the last object that
    it has whole (Q30), though it has passed on parts of what follows: ``final`` then lies behind
    all that came, so that who puts objects together finds what is missing.

    Args:
        datagram_id: as we have chosen it; None: it comes on the stream.
        max_object: bytes of an object, at most.
    """

    def __init__(self, datagram_id: int | None, max_object: int) -> None:
        self.datagram_id = datagram_id
        self.too_large: Position | None = None
        """An object that has more: nothing that comes with it or behind it is of use."""
        self.start: Position | None = None
        """The start point, where the peer has named one, or began elsewhere."""
        self.final: Position | None = None
        self._max_object = max_object
        self._next: tuple[int, int, int] | None = None  # of a stream: group, object, offset
        self._highest: Position | None = None  # of datagrams
        self._broke_off = False  # datagrams of what lies behind the final point may follow

    @property
    def whole(self) -> bool:
        """Of a stream: something has come, and no object is cut."""
        return self._next is not None and not self._next[2]

    @property
    def stream_final(self) -> Position:
        """Behind the last object of a stream that has just ended (Q30)."""
        if self._next is None:
            return self.start or BEGIN
        group, number, _ = self._next
        return Position(group, number)

    def on_stream(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Fragments of a stream, which come in media order (Q11); the same ones but for those that
        say nothing, the first of each group with the number of objects before. Only those
        before one that is `too_large`.

        Raises:
            ProtocolFault: a gap, or something behind the end.
        """
        if self.final is not None:
            raise ProtocolFault(
                f"object {fragments[0].position} comes behind the final point {self.final}"
            )
        expected = self._next
        out: list[Fragment] = []
        for fragment in fragments:
            group, number, offset, data, last = fragment[:5]
            if expected is None:
                expected = self._begin(fragment)
            if (group, number, offset) != expected:
                next_group, next_object, next_offset = expected
                begun = self._next is not None or out
                if number or offset or next_offset or group != next_group + 1 or not begun:
                    raise ProtocolFault(_gap(fragment, expected))
                fragment = fragment._replace(previous=next_object)
            if offset + len(data) > self._max_object:
                self.too_large = fragment.position
                break
            if fragment.is_void:
                continue
            out.append(fragment)
            expected = (group, number + 1, 0) if last else (group, number, offset + len(data))
        if out:
            self._next = expected
        return out

    def in_datagram(self, fragment: Fragment) -> bool:
        """A fragment of a datagram, in any order; whether it is of the media. A part of an object
        behind the final point is what a hop had passed on of it before its feed broke off.

        Raises:
            ProtocolFault: a whole object lies behind the final point.
        """
        position = fragment.position
        if self.final is not None and position >= self.final:
            if self._broke_off or not fragment.last or fragment.offset:
                return False
            raise ProtocolFault(f"object {position} lies behind the final point {self.final}")
        if fragment.stop > self._max_object:
            self.too_large = position
            return False
        if self._highest is None or position > self._highest:
            self._highest = position
        return True

    def start_point(self, start: Position) -> bool:
        """The peer names its first object (Q15); whether it was not known.

        Raises:
            ProtocolFault: it has named another one, or fragments of a stream came before.
        """
        if self.start is not None and start != self.start:
            raise ProtocolFault(f"START_POINT {start} comes behind the start point {self.start}")
        if self.datagram_id is None and self._next is not None and start != (self.start or BEGIN):
            raise ProtocolFault(f"START_POINT {start} comes behind fragments of the stream")
        known = self.start is not None or start == BEGIN
        self.start = start
        return not known

    def finish(self, final: Position) -> None:
        """The peer names its final point (Q8, Q19).

        Raises:
            ProtocolFault: there is one already, or, on a stream, it is not where that stands.
        """
        if self.final is not None:
            raise ProtocolFault(f"FIN {final} comes behind the final point {self.final}")
        if self.datagram_id is None:
            stands = self.stream_final
            if final not in (stands, stands if self._next else BEGIN):
                raise ProtocolFault(f"FIN {final} comes where the stream stands at {stands}")
            if self._next is not None and self._next[2]:
                final = stands.following
        elif self._highest is not None and self._highest >= final:
            self._broke_off = True
            final = self._highest.following
        self.final = final

    def _begin(self, fragment: Fragment) -> tuple[int, int, int]:
        if self.start is None and fragment.position != BEGIN:
            # a sender whose first objects are gone begins where it can
            self.start = fragment.position
        return *(self.start or BEGIN), 0


def _gap(fragment: Fragment, expected: tuple[int, int, int]) -> str:
    group, number, offset = expected
    wanted = f"byte {offset} of object ({group}, {number})"
    if not offset:
        wanted += f", or object ({group + 1}, 0)"
    came = f"byte {fragment.offset} of object {fragment.position}"
    return f"{came} comes where {wanted} is next on the stream"

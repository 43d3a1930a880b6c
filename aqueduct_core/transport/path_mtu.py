"""How large a datagram the path to a peer carries: packetization layer path MTU discovery
(RFC 8899), as QUIC has it (RFC 9000 §14.3). Pure: times and outcomes in, sizes out.

Sizes are UDP payloads in bytes. A *probe* is a packet of the size in question that holds nothing
anybody waits for. Whoever sends probes says what became of each; that one is lost, he says only
when a later packet was acknowledged and it was not, so that a path which carries nothing at all
proves nothing about sizes.

============  ==========================================================================
State         Means
============  ==========================================================================
``SEARCHING`` sizes above the confirmed one are left to try; the middle one of them is next
``COMPLETE``  none is left, until the raise timer has them all tried again
``CHECKING``  packets got lost, so the confirmed size is probed again
============  ==========================================================================

Nothing that comes from the network but an acknowledgement raises a size: ICMP messages are not
read at all. That a size is above what the network interface takes is told by our own system, and
believed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias

PLATEAUS = (
    1_252,  # 1,300 bytes of IP with IPv6, as tunnels in tunnels leave them
    1_352,  # 1,400: IPsec, mobile networks
    1_392,  # 1,420 with IPv4: WireGuard
    1_412,  # 1,460 with IPv6: networks of clouds
    1_444,  # 1,492 with IPv6: PPPoE
    1_452,  # 1,500 with IPv6: Ethernet
    1_472,  # 1,500 with IPv4
    8_848,  # 8,896 with IPv6: networks of clouds
    8_952,  # 9,000 with IPv6: jumbo frames
    8_972,  # 9,000 with IPv4
)
"""Payloads that usual paths carry whole. Bisecting them takes four probes where all bytes would
take thirteen, each of which may have to be lost three times."""

MAX_PROBES = 3
"""Probes of a size that have to be lost before it counts as too large (RFC 8899 §5.1.2)."""

RAISE_AFTER = 600.0
"""Seconds after which larger sizes are tried once more: paths change (RFC 8899 §5.1.1)."""

CONFIRMED_FOR = 1.0
"""Seconds for which an acknowledged probe outweighs losses, so that a path that loses a packet now
and then is not probed for each."""


class SearchState(Enum):
    SEARCHING = auto()
    COMPLETE = auto()
    CHECKING = auto()


class PathEvent(Enum):
    ACKED = auto()
    """The probe was acknowledged."""
    LOST = auto()
    """The probe was not, but a later packet was."""
    TOO_LARGE = auto()
    """Our own system does not take datagrams of a size."""
    LOSS = auto()
    """Packets of the connection got lost."""
    SILENCE = auto()
    """Nothing is acknowledged any more, although the peer was asked again and again."""
    DUE = auto()
    """The raise timer has come."""


class PathMtuSearch:
    """Finds and keeps the largest size that passes, from ``base`` to ``ceiling``.

    Usage: send a probe of ``wanted`` bytes when it is not None, and say ``sent``; give each
    ``handle`` what came of it, with the number that ``sent`` gave. Send no datagram above ``size``.

    Holds: base ≤ size ≤ confirmed < ruled_out; at most one probe is under way. A path change is a
    new search.
    """

    def __init__(self, base: int, ceiling: int) -> None:
        self.size = base
        self.black_holes = 0
        """How often a size that had been confirmed did not pass any more."""
        self.wake_at: float | None = None
        """When ``DUE`` is to be handled."""
        self._base = base
        self._ceiling = ceiling
        between = [size for size in PLATEAUS if base < size < ceiling]
        self._sizes = [*between, ceiling] if ceiling > base else []
        self._confirmed = base
        self._confirmed_at = 0.0
        self._ruled_out = ceiling + 1
        self._probes_lost = 0
        self._probes = 0
        self._under_way = False
        self.state = SearchState.SEARCHING if self._sizes else SearchState.COMPLETE

    @property
    def wanted(self) -> int | None:
        """The size of the probe to send next; None: none is, or one is under way."""
        return None if self._under_way else self._question

    def sent(self) -> int:
        """A probe of the wanted size has left; its number."""
        self._under_way = True
        self._probes += 1
        return self._probes

    def handle(self, event: PathEvent, now: float, value: int = 0) -> bool:
        """Take in what happened; whether ``size`` is another now.

        ``value`` is the number of the probe for ``ACKED`` and ``LOST``, without effect when that
        is not awaited any more, and the size for ``TOO_LARGE``.
        """
        if event in (PathEvent.ACKED, PathEvent.LOST):
            if value != self._probes or not self._under_way:
                return False
            self._under_way = False
        before = self.size
        act = TABLE.get((self.state, event))
        if act is not None:
            act(self, now, value)
        return self.size != before

    @property
    def _question(self) -> int | None:
        match self.state:
            case SearchState.SEARCHING:
                left = self._left
                return left[len(left) // 2]
            case SearchState.CHECKING:
                return self._confirmed
            case SearchState.COMPLETE:
                return None

    @property
    def _left(self) -> list[int]:
        """Sizes of which nothing is known."""
        return [size for size in self._sizes if self._confirmed < size < self._ruled_out]

    def _confirm(self, now: float, value: int) -> None:
        question = self._question
        assert question is not None
        self.size = self._confirmed = question
        self._confirmed_at = now
        self._go_on(now)

    def _lose(self, now: float, value: int) -> None:
        self._probes_lost += 1
        if self._probes_lost == MAX_PROBES:
            question = self._question
            assert question is not None
            self._rule_out(now, question)

    def _rule_out(self, now: float, size: int) -> None:
        """That size does not pass, nor does any above it."""
        if size <= self._base:
            return  # QUIC cannot do with less
        self._ruled_out = min(self._ruled_out, size)
        if self._confirmed >= size:
            self.black_holes += 1
            self.size = self._confirmed = self._base
        elif self.state is SearchState.CHECKING:
            return  # that is not the size in question
        self._go_on(now)

    def _check(self, now: float, value: int) -> None:
        """Probe the confirmed size, and use it until the answer is there."""
        if self._confirmed > self._base and now >= self._confirmed_at + CONFIRMED_FOR:
            self._ask_again()

    def _retreat(self, now: float, value: int) -> None:
        """Probe the confirmed size, and use what passes on any path until the answer is there."""
        if self._confirmed > self._base:
            self.size = self._base
            if self.state is not SearchState.CHECKING:
                self._ask_again()

    def _ask_again(self) -> None:
        self.state = SearchState.CHECKING
        self._probes_lost = 0
        self._under_way = False
        self.wake_at = None

    def _search_again(self, now: float, value: int) -> None:
        self._ruled_out = self._ceiling + 1
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        self._probes_lost = 0
        self._under_way = False
        if self._left:
            self.state = SearchState.SEARCHING
            self.wake_at = None
        else:
            self.state = SearchState.COMPLETE
            self.wake_at = now + RAISE_AFTER if self._confirmed < self._ceiling else None


_Act: TypeAlias = Callable[[PathMtuSearch, float, int], None]
_S, _E, _P = SearchState, PathEvent, PathMtuSearch

TABLE: dict[tuple[SearchState, PathEvent], _Act] = {
    (_S.SEARCHING, _E.ACKED): _P._confirm,
    (_S.SEARCHING, _E.LOST): _P._lose,
    (_S.SEARCHING, _E.TOO_LARGE): _P._rule_out,
    (_S.SEARCHING, _E.LOSS): _P._check,
    (_S.SEARCHING, _E.SILENCE): _P._retreat,
    (_S.COMPLETE, _E.TOO_LARGE): _P._rule_out,
    (_S.COMPLETE, _E.LOSS): _P._check,
    (_S.COMPLETE, _E.SILENCE): _P._retreat,
    (_S.COMPLETE, _E.DUE): _P._search_again,
    (_S.CHECKING, _E.ACKED): _P._confirm,
    (_S.CHECKING, _E.LOST): _P._lose,
    (_S.CHECKING, _E.TOO_LARGE): _P._rule_out,
    (_S.CHECKING, _E.SILENCE): _P._retreat,
}
"""What an event brings about in a state; nothing where there is no entry."""

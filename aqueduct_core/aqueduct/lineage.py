"""Which channels of ours are accessible, pending or lost (reference §3.6, AQ-LOST-1…7).

A channel hangs on its carrier: the message that it was attached to. Acked carriers on accessible
channels make it accessible, nacked carriers and lost parents make it lost; both are final, and
both cascade. The records live apart from the state machines, until the fate is known, also when
the machine ended before (AQ-LOST-5). Cascades use a work list, never recursion (AQ-LOST-7).

| record of c is …      | dropped when                                   |
|-----------------------|------------------------------------------------|
| a channel we created  | lost; or accessible and its sender is not alive |
| a sender of the peer's | its machine ends (it was accessible all along) |

``RemoteLineage`` is the lineage of the peer's channels as this side can know it. A channel that the
peer attached to a message is lost when we nack that message, or end its channel with the message
not acked (AQ-LOST-3). The creator then owes FORGET_CHANNEL only if it ever routed there, so nothing
more may come (AQ-LOST-4): without this record our half would wait for ever. With acks on receipt
every message that the application was given is acked before its channel ends (AQ-LIFE-12); with
acks on storage it may be read and not stored in time, and then its channels end on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from aqueduct_core.primitives.ranges import Range


class Lost(NamedTuple):
    """A channel that is lost; ``routed``: its machine ended after a ROUTE_TO for it had left."""

    channel: int
    routed: bool


class _Node:
    __slots__ = ("accessible", "acked_children", "carriers", "routed", "sending")

    def __init__(self, *, accessible: bool, sending: bool) -> None:
        self.accessible = accessible
        self.sending = sending  # our sender machine is alive
        self.routed = False  # ROUTE_TO left, and the machine ended since
        self.carriers: dict[tuple[bool, int], tuple[int, ...]] = {}
        self.acked_children: list[int] = []


class Lineage:
    """``links`` counts the channels of ours whose fate is open; ``carriers`` the un-acked
    messages with attachments."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self._opened: list[int] = []
        self.links = 0
        self.carriers = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, channel: int) -> bool:
        return channel in self._nodes

    def sender_made(self, channel: int, *, accessible: bool = True) -> None:
        """A sender that no message of this lineage carried."""
        self._nodes[channel] = _Node(accessible=accessible, sending=True)
        self.links += not accessible

    def attached(
        self, parent: int, reliable: bool, number: int, children: Iterable[tuple[int, bool]]
    ) -> None:
        """A message left with channels of ours; each child as (channel, we send on it)."""
        ids = []
        for channel, sends in children:
            self._nodes[channel] = _Node(accessible=False, sending=sends)
            ids.append(channel)
        self._nodes[parent].carriers[reliable, number] = tuple(ids)
        self.links += len(ids)
        self.carriers += 1

    def renumbered(self, parent: int, old: int, new: int) -> None:
        """Datagram message ``old`` became reliable message ``new`` (AQ-SEND-5)."""
        carriers = self._nodes[parent].carriers
        children = carriers.pop((False, old), None)
        if children is not None:
            carriers[True, new] = children

    def carries(self, parent: int) -> bool:
        """Whether ``parent`` has messages with attachments that are neither acked nor nacked."""
        node = self._nodes.get(parent)
        return node is not None and bool(node.carriers)

    def acked(self, parent: int, reliable: bool, ranges: Iterable[Range]) -> None:
        node = self._nodes.get(parent)
        if node is None or not node.carriers:
            return
        for children in self._taken(node, reliable, ranges):
            if node.accessible:
                self._make_accessible(children)
            else:
                node.acked_children.extend(children)

    def nacked(self, parent: int, reliable: bool, ranges: Iterable[Range]) -> list[Lost]:
        """The channels that are lost by it, parents before children."""
        node = self._nodes.get(parent)
        if node is None or not node.carriers:
            return []
        lost: list[int] = []
        for children in self._taken(node, reliable, ranges):
            lost.extend(children)
        return self._cascade(lost)

    def _taken(
        self, node: _Node, reliable: bool, ranges: Iterable[Range]
    ) -> Iterator[tuple[int, ...]]:
        """Take the carriers with these numbers out of ``node``."""
        carriers = node.carriers
        for first, stop in ranges:
            if not carriers:
                return
            if stop - first <= len(carriers):
                keys = [(reliable, n) for n in range(first, stop) if (reliable, n) in carriers]
            else:
                keys = [key for key in carriers if key[0] is reliable and first <= key[1] < stop]
            for key in keys:
                self.carriers -= 1
                yield carriers.pop(key)

    def take_opened(self) -> list[int]:
        """Channels without a sender of ours that became accessible since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def make_accessible(self, channel: int) -> None:
        """What the channel hangs on is accessible, though no carrier here says so."""
        self._make_accessible([channel])

    def lost(self, channel: int) -> list[Lost]:
        """The channel is lost, though no carrier here says so; all that hangs below it."""
        return self._cascade([channel])[1:]

    def _make_accessible(self, channels: Iterable[int]) -> None:
        work = list(channels)
        while work:
            channel = work.pop()
            node = self._nodes.get(channel)
            if node is None or node.accessible:
                continue
            node.accessible = True
            self.links -= 1
            work.extend(node.acked_children)
            node.acked_children.clear()
            if not node.sending:
                # a receiver has no children; an ended sender's un-acked ones are lost already
                del self._nodes[channel]
                self._opened.append(channel)

    def ended(self, channel: int, *, routed: bool) -> list[Lost]:
        """Our half ended with all un-acked messages nacked; the channels that are lost by it."""
        node = self._nodes.get(channel)
        if node is None:
            return []
        node.sending = False
        node.routed = routed
        lost = [child for children in node.carriers.values() for child in children]
        self.carriers -= len(node.carriers)
        node.carriers.clear()
        if node.accessible:
            del self._nodes[channel]
        return self._cascade(lost)

    def _cascade(self, channels: list[int]) -> list[Lost]:
        """Drop the records of ``channels`` and of all that hangs below."""
        out: list[Lost] = []
        work = list(channels)
        at = 0
        while at < len(work):
            channel = work[at]
            at += 1
            node = self._nodes.pop(channel, None)
            if node is None:
                continue
            if not node.accessible:
                self.links -= 1
            out.append(Lost(channel, node.routed))
            self.carriers -= len(node.carriers)
            for children in node.carriers.values():
                work.extend(children)
            work.extend(node.acked_children)
        return out


class RemoteLineage:
    """Channels of the peer that the application knows, each with the message that carried it.

    A record ends with the fate of its channel. ``take_lost`` gives what was lost since,
    ``take_orphans`` what hung on a channel of ours that was lost: there the creator may have
    seen our acks and keep a channel, or have ended the sender before they came.
    """

    def __init__(self) -> None:
        self._lineage = Lineage()
        self._lost: list[int] = []
        self._orphans: list[int] = []

    def __len__(self) -> int:
        return len(self._lineage)

    def carries(self, parent: int) -> bool:
        """Whether the fate of any channel hangs on messages of ``parent``."""
        return self._lineage.carries(parent)

    def add_root(self, channel: int, *, accessible: bool) -> None:
        """A receiver that no message of the peer carried: the entrypoint's, or one that we
        created, which is pending until ``root_accessible`` or ``root_lost``."""
        self._lineage.sender_made(channel, accessible=accessible)

    def root_accessible(self, root: int) -> None:
        """A channel of ours is accessible."""
        self._lineage.make_accessible(root)
        self._lineage.take_opened()

    def root_lost(self, root: int) -> None:
        """A channel of ours is lost."""
        self._orphans.extend(channel for channel, _ in self._lineage.lost(root))

    def attached(
        self, parent: int, reliable: bool, number: int, children: Iterable[tuple[int, bool]]
    ) -> None:
        """The application was given ``children``: each as (channel, the peer sends on it).

        They are orphans at once when ``parent`` was lost a moment ago, in the same burst.
        """
        if parent in self._lineage:
            self._lineage.attached(parent, reliable, number, children)
        else:
            self._orphans.extend(channel for channel, _ in children)

    def answered(
        self, parent: int, reliable: bool, ranges: Iterable[Range], *, acked: bool
    ) -> None:
        """Acks or nacks of ours left."""
        if acked:
            self._lineage.acked(parent, reliable, ranges)
            self._lineage.take_opened()
        else:
            self._add_lost(self._lineage.nacked(parent, reliable, ranges))

    def ended(self, parent: int) -> None:
        """Our half ended: what was not acked counts as nacked."""
        self._add_lost(self._lineage.ended(parent, routed=False))

    def _add_lost(self, lost: Iterable[Lost]) -> None:
        self._lost.extend(channel for channel, _ in lost)

    def take_orphans(self) -> list[int]:
        orphans, self._orphans = self._orphans, []
        return orphans

    def take_lost(self) -> list[int]:
        lost, self._lost = self._lost, []
        return lost

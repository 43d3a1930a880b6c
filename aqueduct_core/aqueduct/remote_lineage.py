"""The peer's lineage as this side can tell it: which handles that the application got are lost.

A channel that the peer attached to a message is lost when we nack that message, or end its
channel with the message not acked (AQ-LOST-3). The creator then owes FORGET_CHANNEL only if it
ever routed there (AQ-LOST-4), so nothing more may come: without this record our half would wait
for ever. With acks on receipt every message that was told is acked before its channel ends
(AQ-LIFE-12); with acks on storage it may be read and not stored in time, and then its channels
go the same way on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable

from aqueduct_core.aqueduct.lineage import Lineage
from aqueduct_core.primitives.ranges import Range


class RemoteLineage:
    """Channels of the peer that were told of, each with the message that carried it.

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

    def of(self, parent: int) -> bool:
        """Whether the fate of any channel hangs on messages of ``parent``."""
        return self._lineage.carries(parent)

    def root(self, channel: int, *, accessible: bool) -> None:
        """A receiver that no message of the peer carried: the entrypoint's, or one that we
        created, which is pending until ``opened`` or ``orphaned``."""
        self._lineage.sender_made(channel, accessible=accessible)

    def opened(self, root: int) -> None:
        """A channel of ours is accessible."""
        self._lineage.make_accessible(root)
        self._lineage.take_opened()

    def orphaned(self, root: int) -> None:
        """A channel of ours is lost."""
        self._orphans.extend(channel for channel, _ in self._lineage.lost(root))

    def told(
        self, parent: int, reliable: bool, number: int, children: Iterable[tuple[int, bool]]
    ) -> None:
        """The application was told of ``children``: each as (channel, the peer sends on it).

        They are orphans at once when ``parent`` was lost a moment ago, in the same burst.
        """
        if parent in self._lineage:
            self._lineage.attached(parent, reliable, number, children)
        else:
            self._orphans.extend(channel for channel, _ in children)

    def answered(self, parent: int, reliable: bool, ranges: Iterable[Range], acked: bool) -> None:
        """Acks or nacks of ours left."""
        if acked:
            self._lineage.acked(parent, reliable, ranges)
            self._lineage.take_opened()
        else:
            self._note(parent_lost=self._lineage.nacked(parent, reliable, ranges))

    def ended(self, parent: int) -> None:
        """Our half ended: what was not acked counts as nacked."""
        self._note(parent_lost=self._lineage.ended(parent, routed=False))

    def _note(self, parent_lost: Iterable[tuple[int, bool]]) -> None:
        self._lost.extend(channel for channel, _ in parent_lost)

    def take_orphans(self) -> list[int]:
        orphans, self._orphans = self._orphans, []
        return orphans

    def take_lost(self) -> list[int]:
        lost, self._lost = self._lost, []
        return lost

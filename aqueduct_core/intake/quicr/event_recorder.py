"""The events of one connection that brings media, in order and once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.quicr.incoming import Missing
from aqueduct_core.intake.quicr.rows import (
    CANCELLED,
    CONFLICT,
    HOLES,
    LOST,
    UrlSource,
)
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.event_log import (
    CONNECTED,
    DISCONNECTED,
    FINISHED,
    GAP,
    OPENED,
    EventCounts,
    LoggedEvent,
)
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent
from aqueduct_core.primitives.ranges import stretches
from aqueduct_core.quicr.media.fragment import MAX_OBJECT
from aqueduct_core.quicr.media.position import BEGIN, Position, at_number

MAX_MISSING = 64
"""Of what is found missing at once, that are events of their own; the others are one together: who
scatters objects on purpose must not fill the disk."""

MAX_CONFLICTS = 16
"""Of one media, that are events of their own; of more their number, with its end."""


def too_large(position: Position, most: int) -> str:
    """Why nothing is taken of a media from an object on, and what to do."""
    remedy = "Raise maxMessageBytes" if most < MAX_OBJECT else "Send smaller objects: none is taken"
    return f"object {position} has more than {most} bytes (maxMessageBytes). {remedy}"


class MediaEvents:
    """Records ``connected``, for each media ``opened`` and its end, and between them what of it
    will be no rows; then ``disconnected``. The first and last number of an event are positions in
    one number, which its reason writes out."""

    def __init__(
        self,
        listener: GroupListener,
        connection: str,
        groups: GroupCommit,
        clock: Callable[[], int],
    ) -> None:
        self._listener = listener
        self._connection = connection
        self._groups = groups
        self._clock = clock
        self._conflicts: dict[int, int] = {}

    def connected(self) -> None:
        self._record(CONNECTED)

    def disconnected(self, lost: LinkLost) -> None:
        self._record(DISCONNECTED, reason=how_ended(lost, "intake"))

    def opened(self, source: UrlSource) -> None:
        self._record(OPENED, source)

    def missing(self, source: UrlSource, found: Sequence[Missing], start: Position | None) -> None:
        """Durable before any row that comes behind: who sees that a row is there, sees in the log
        of events what is missing before it."""
        for first, stop, lost in found[:MAX_MISSING]:
            what = f"objects {at_number(first)} to {at_number(stop - 1)}"
            if lost:
                reason = f"{what} are stored nowhere: the sender begins at {start}"
            else:
                reason = f"{what} did not come, and are waited for no more"
            self._record(LOST if lost else GAP, source, reason=reason, first=first, last=stop - 1)
        rest = found[MAX_MISSING:]
        if rest:
            first, last = rest[0].first, rest[-1].stop - 1
            what = f"{len(rest)} more stretches of objects"
            reason = f"{what} from {at_number(first)} to {at_number(last)} did not come"
            self._record(GAP, source, reason=reason, first=first, last=last)
        if found:
            self._groups.flush()

    def conflicts(self, source: ChannelSource, positions: Sequence[int]) -> None:
        """Other content came under these numbers, in order, than what is stored."""
        told = self._conflicts.get(source.channel_id, 0)
        self._conflicts[source.channel_id] = told + len(positions)
        room = max(0, MAX_CONFLICTS - told)
        numbers = np.array(positions[:room], np.int64)
        for low, high in stretches(numbers) if len(numbers) else ():
            first, last = int(numbers[low]), int(numbers[high - 1])
            what = f"objects {at_number(first)} to {at_number(last)}"
            reason = f"{what} came with other content than what is stored, which stays"
            self._record(CONFLICT, source, reason=reason, first=first, last=last)

    def finished(
        self, source: UrlSource, tally: ChannelTally, holes: int, final: Position, sure: bool
    ) -> None:
        """Everything up to the final point is stored, or was told of; confirms it. Where its sender
        has named that point, what it posts later under the same URL may begin anywhere behind."""
        reason = None if sure else "its stream ended without a final point, behind a whole object"
        last = final.number - 1 if final > BEGIN else None
        event = self._event(FINISHED, source, reason=reason, counts={HOLES: holes}, last=last)
        boundary = final.number if sure else 0
        self._groups.record(
            PendingEvent(self._listener, event, tally, True, source=source, boundary=boundary)
        )

    def cancelled(self, source: UrlSource, tally: ChannelTally, holes: int, reason: str) -> None:
        """The transaction ended before its final point."""
        self.settled(source)
        event = self._event(CANCELLED, source, reason=reason, counts={HOLES: holes})
        self._groups.record(PendingEvent(self._listener, event, tally))

    def settled(self, source: ChannelSource) -> None:
        """Nothing of the transaction is to be compared any more with what is stored."""
        more = self._conflicts.pop(source.channel_id, 0) - MAX_CONFLICTS
        if more > 0:
            reason = f"{more} more objects came with other content than what is stored"
            self._record(CONFLICT, source, reason=reason)

    def _record(
        self,
        kind: str,
        source: ChannelSource | None = None,
        *,
        reason: str | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> None:
        event = self._event(kind, source, reason=reason, first=first, last=last)
        self._groups.record(PendingEvent(self._listener, event))

    def _event(
        self,
        kind: str,
        source: ChannelSource | None,
        *,
        reason: str | None = None,
        counts: EventCounts | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> LoggedEvent:
        return LoggedEvent(
            kind,
            self._clock(),
            self._connection,
            channel=None if source is None else source.channel,
            channel_id=None if source is None else source.channel_id,
            reason=reason,
            counts=counts,
            first=first,
            last=last,
        )

"""The events of one line, in order and once."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.storage.batches import ChannelTally
from aqueduct_core.intake.storage.event_log import (
    CONNECTED,
    DEDUPED,
    DISCONNECTED,
    FINISHED,
    OPENED,
    REJECTED,
    REPEATED,
    STORED,
    EventCounts,
    LoggedEvent,
)
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent
from aqueduct_core.intake.telehash.rows import UNACKED, TelehashSource

BURST = 4_096
"""Channels whose events are written at once, of all lines of an intake: 1,000 that open together
are no flood."""
EACH_SECOND = 100
"""The same of those that keep coming: who opens channels in a loop must not fill the disk with
events. Its packets are rows all the same."""


class EventBudget:
    """How many channels may have events of their own, over all lines of an intake (pure)."""

    def __init__(self, burst: float = BURST, each_second: float = EACH_SECOND) -> None:
        self._burst = self._left = burst
        self._each_second = each_second
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Whether one more may have them."""
        self._left = min(self._burst, self._left + (now - self._at) * self._each_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class LineEvents:
    """Records ``connected``, for each channel ``opened`` and its end, then ``disconnected``.

    A channel that finds no room in the budget has neither; how many there were, the next one says
    that has events again, or the end of the line. A line may have none either.
    """

    def __init__(
        self,
        listener: GroupListener,
        connection: str,
        groups: GroupCommit,
        clock: Callable[[], int],
        budget: EventBudget,
    ) -> None:
        self.peer = ""
        """Who it is, once that is known."""
        self._told = False
        self._listener = listener
        self._connection = connection
        self._groups = groups
        self._clock = clock
        self._budget = budget
        self._untold: set[int] = set()
        self._more = 0

    def connected(self, peer: str, now: float, *, shown: bool) -> bool:
        """Whether it has events of its own. ``shown``: the peer has shown that it receives at its
        address, so nobody floods us with such lines."""
        self.peer = peer
        self._told = shown or self._budget.take(now)
        if self._told:
            self._record(CONNECTED)
        return self._told

    def disconnected(self, lost: LinkLost, unacked: int, channels: int) -> None:
        """``unacked``: packets that came, of so many ``channels``, and were not acked."""
        if not self._told:
            return
        reason = how_ended(lost, "intake")
        if unacked:
            reason += f"; {unacked} packets of {channels} channels were not acked"
        if self._more:
            reason += f"; {self._told_more()}"
        self._record(DISCONNECTED, reason=reason, counts={UNACKED: unacked})

    def opened(self, source: TelehashSource, now: float, *, ours: bool = False) -> None:
        """``ours``: we have opened it, so nobody floods us with it."""
        if not (ours or self._budget.take(now)):
            self._untold.add(source.channel_id)
            self._more += 1
            return
        self._record(OPENED, source, reason=self._told_more() if self._more else None)

    def refused(self, kind: str, channel: int, reason: str) -> None:
        """The peer has opened a channel that is not taken."""
        source = TelehashSource(kind, self.peer, self._connection, channel)
        self._record(REJECTED, source, reason=reason)

    def dropped(self, source: TelehashSource, first: int, stop: int) -> None:
        """There was no room for these packets of an unreliable channel."""
        self._groups.nacked(self._listener, source, first, stop, self._clock())

    def finished(self, source: TelehashSource, tally: ChannelTally) -> None:
        """The end of the channel is in the group, behind all its packets; confirms it."""
        self._end(FINISHED, source, tally, confirms=True)

    def ended(
        self, kind: str, source: TelehashSource, tally: ChannelTally, reason: str, unacked: int
    ) -> None:
        """The channel is over before its end; ``unacked`` packets of it are not acked."""
        self._end(kind, source, tally, reason=reason, unacked=unacked)

    def closed(self, source: TelehashSource, tally: ChannelTally) -> None:
        """The channel is over with its line, or behind its end."""
        self._untold.discard(source.channel_id)
        if tally.deduped and not tally.recorded:
            event = self._event(REPEATED, source)
            self._groups.record(PendingEvent(self._listener, event, tally))

    def unrepeatable(self, source: TelehashSource, tally: ChannelTally, reason: str) -> None:
        """The channel is refused for what came under marks that are stored."""
        self._untold.discard(source.channel_id)
        counts: EventCounts = {STORED: tally.stored, DEDUPED: tally.deduped}
        event = self._event(
            REJECTED, source, reason=reason, counts=counts, first=tally.first, last=tally.last
        )
        self._groups.record(PendingEvent(self._listener, event))

    def _told_more(self) -> str:
        more, self._more = self._more, 0
        return f"{more} more channels were opened, without events of their own"

    def _end(
        self,
        kind: str,
        source: TelehashSource,
        tally: ChannelTally,
        *,
        reason: str | None = None,
        unacked: int = 0,
        confirms: bool = False,
    ) -> None:
        if source.channel_id in self._untold:
            self._untold.discard(source.channel_id)
            return
        event = self._event(kind, source, reason=reason, counts={UNACKED: unacked})
        self._groups.record(PendingEvent(self._listener, event, tally, confirms, source=source))

    def _record(
        self,
        kind: str,
        source: TelehashSource | None = None,
        *,
        reason: str | None = None,
        counts: EventCounts | None = None,
    ) -> None:
        event = self._event(kind, source, reason=reason, counts=counts)
        self._groups.record(PendingEvent(self._listener, event))

    def _event(
        self,
        kind: str,
        source: TelehashSource | None,
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
            self.peer,
            None if source is None else source.channel,
            None if source is None else source.channel_id,
            reason=reason,
            counts=counts,
            first=first,
            last=last,
        )

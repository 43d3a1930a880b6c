"""The events of one connection: what is told of it, in order and once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aqueduct_core.aqueduct.events import Closed, Counts, End
from aqueduct_core.aqueduct.wire.chanid import ENTRYPOINT
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.storage.arrow import RowSource
from aqueduct_core.intake.storage.event_log import EventCounts, EventKind, LoggedEvent
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent

_KINDS: dict[End, EventKind] = {
    End.FINISHED: "finished",
    End.CANCELLED: "cancelled",
    End.CLOSED: "closed",
    End.OVERFLOW: "closed",
    End.LOST: "lost",
}
_REASONS = {
    End.OVERFLOW: "more waited than a limit allows",
    End.LOST: "lost in transit: a message that carried it, or its parent, never came",
}


class EventRecorder:
    """Records ``connected``, then for each channel that flows to us ``opened`` and one event of its
    end, then ``disconnected`` with the counts of all of them; or ``rejected`` alone.

    Channels that are open when the connection ends get no event of their own end: ``disconnected``
    says it of all. One that brought messages which were stored before gets ``repeated`` before its
    end. A finish is recorded as soon as nothing is missing, so that it is durable before
    the peer learns it; once it is accepted the channel has finished, whatever becomes of it.
    """

    def __init__(
        self, party: GroupListener, connection: str, groups: GroupCommit, clock: Callable[[], int]
    ) -> None:
        self._party = party
        self._connection = connection
        self._groups = groups
        self._clock = clock
        self._producer: str | None = None
        self._admitted = False
        self._over = False
        self._finished: set[int] = set()
        self._total = EventCounts()

    def connected(self, producer: str | None) -> None:
        self._admitted = True
        self._producer = producer or self._connection
        self._record(self._event("connected"))

    def rejected(self, reason: str) -> None:
        """The connection is refused; nothing else is told of one that was not admitted."""
        if not self._over:
            self._over = not self._admitted
            self._record(self._event("rejected", reason=reason))

    def unrepeatable(self, source: RowSource, tally: Tally, reason: str) -> None:
        """The connection is refused for what came on a channel under numbers that are stored."""
        self._finished.discard(source.channel_id)
        event = self._of("rejected", source, reason=reason)
        counts = EventCounts(reliable_stored=tally.stored, deduped=tally.deduped)
        self._record(replace(event, counts=counts, first=tally.first, last=tally.last))

    def disconnected(self, closed: Closed) -> None:
        if not self._admitted:
            if not closed.by_peer and closed.origin is CloseOrigin.APPLICATION and closed.code:
                self.rejected(closed.reason)
            return
        if not self._over:
            self._over = True
            reason = how_ended(closed, "intake")
            self._record(self._event("disconnected", reason=reason, counts=self._total))

    def opened(self, source: RowSource, resumes: bool, run_start: int | None = None) -> None:
        """``run_start``: the number at which the producer's run begins, where it says so."""
        numbered = _numbered(source, resumes)
        self._groups.record(
            PendingEvent(
                self._party,
                self._of("opened", source),
                start=source.start if numbered else 0,
                boundary=min(run_start or 0, source.start) if numbered else 0,
            )
        )

    def unread(self, channel: int, path: str, parent: RowSource, reason: str) -> None:
        """A channel that we closed at once, for its headers."""
        self._record(
            LoggedEvent(
                "closed",
                self._clock(),
                self._connection,
                self._producer,
                path,
                channel,
                parent.channel_id,
                reason=reason,
            )
        )

    def complete(self, source: RowSource, resumes: bool, tally: Tally, counts: Counts) -> None:
        """All messages of the channel are offered: it has finished, once they are stored."""
        self._finished.add(source.channel_id)
        end = source.start + counts.reliable_sent if _is_run(source, resumes) else 0
        self._end("finished", source, tally, counts, confirms=True, boundary=end)

    def unfinished(self, source: RowSource) -> None:
        """The channel was given up before its finish was accepted: it will have another end."""
        self._finished.discard(source.channel_id)

    def ended(self, source: RowSource, tally: Tally, end: End, counts: Counts) -> None:
        """A half has ended."""
        self._add(tally, counts)
        if source.channel_id in self._finished:
            self._finished.discard(source.channel_id)
        elif end is not End.CONNECTION_LOST:
            self._end(_KINDS[end], source, tally, counts, reason=_REASONS.get(end))
        elif tally.deduped:
            self._groups.record(PendingEvent(self._party, self._of("repeated", source), tally))

    def nacked(self, source: RowSource, first: int, stop: int) -> None:
        """Datagram messages ``[first, stop)`` were nacked."""
        self._groups.nacked(self._party, source, first, stop, self._clock())

    def _end(
        self,
        kind: EventKind,
        source: RowSource,
        tally: Tally,
        counts: Counts,
        *,
        reason: str | None = None,
        confirms: bool = False,
        boundary: int = 0,
    ) -> None:
        finished = kind == "finished"
        told = EventCounts(
            reliable_sent=counts.reliable_sent if finished or counts.reliable_sent else None,
            unreliable_sent=counts.unreliable_sent,
            acked=counts.unreliable_acked,
            nacked=counts.nacked,
            late=counts.late,
        )
        event = self._of(kind, source, reason=reason, counts=told)
        self._groups.record(
            PendingEvent(self._party, event, tally, confirms, source=source, boundary=boundary)
        )

    def _add(self, tally: Tally, counts: Counts) -> None:
        total = self._total
        self._total = EventCounts(
            (total.reliable_sent or 0) + counts.reliable_sent,
            total.reliable_stored + tally.stored,
            total.unreliable_sent + counts.unreliable_sent,
            total.acked + counts.unreliable_acked,
            total.nacked + counts.nacked,
            total.late + counts.late,
            total.deduped + tally.deduped,
        )

    def _event(
        self, kind: EventKind, *, reason: str | None = None, counts: EventCounts | None = None
    ) -> LoggedEvent:
        return LoggedEvent(
            kind, self._clock(), self._connection, self._producer, reason=reason, counts=counts
        )

    def _of(
        self,
        kind: EventKind,
        source: RowSource,
        *,
        reason: str | None = None,
        counts: EventCounts | None = None,
    ) -> LoggedEvent:
        return LoggedEvent(
            kind,
            self._clock(),
            source.connection,
            source.producer,
            source.channel,
            source.channel_id,
            source.parent_channel_id,
            source.parent_message,
            reason,
            counts,
        )

    def _record(self, event: LoggedEvent) -> None:
        self._groups.record(PendingEvent(self._party, event))


def how_ended(closed: Closed, this_side: str) -> str:
    """The end of a connection for an event or a log: whose close it was, or why it was lost."""
    if closed.origin is not CloseOrigin.APPLICATION:
        return f"lost: {how_lost(closed)}"
    by = "peer" if closed.by_peer else this_side
    return f"closed by {by}, code {closed.code}" + (f": {closed.reason}" if closed.reason else "")


def _numbered(source: RowSource, resumes: bool) -> bool:
    """Whether numbers go on from one channel of this name to the next; a sink's jump."""
    return resumes and source.floor is None and not source.by_source


def _is_run(source: RowSource, resumes: bool) -> bool:
    """Whether the finish of a channel says that what its producer has to send ends there: not of
    a sink, whose numbers jump and which may go on with a batch on another channel; nor of the
    entrypoint, on which each process attaches as many channels as it has."""
    return _numbered(source, resumes) and source.channel_id != ENTRYPOINT

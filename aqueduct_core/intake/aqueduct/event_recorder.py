"""The events of one connection, in order and once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aqueduct_core.aqueduct.events import Closed, Counts, End
from aqueduct_core.aqueduct.wire.chanid import ENTRYPOINT
from aqueduct_core.engine.close_codes import CloseOrigin, how_ended
from aqueduct_core.intake.aqueduct.rows import (
    ACKED,
    CANCELLED,
    CLOSED,
    LATE,
    LOST,
    RELIABLE_SENT,
    UNACKED,
    UNRELIABLE_SENT,
)
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
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

_KINDS = {
    End.FINISHED: FINISHED,
    End.CANCELLED: CANCELLED,
    End.CLOSED: CLOSED,
    End.OVERFLOW: CLOSED,
    End.LOST: LOST,
}
_REASONS = {
    End.CANCELLED: "the sender gave it up",
    End.CLOSED: "the intake wanted no more of it",
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
        self._producer: str | None = None
        self._admitted = False
        self._over = False
        self._finished: set[int] = set()
        self._total: EventCounts = {}

    def connected(self, producer: str | None) -> None:
        self._admitted = True
        self._producer = producer or self._connection
        self._record(self._event(CONNECTED))

    def rejected(self, reason: str) -> None:
        """The connection is refused; nothing else is recorded of one that was not admitted."""
        if not self._over:
            self._over = not self._admitted
            self._record(self._event(REJECTED, reason=reason))

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        """The connection is refused for what came on a channel under numbers that are stored."""
        self._finished.discard(source.channel_id)
        event = self._of(REJECTED, source, reason=reason)
        counts: EventCounts = {STORED: tally.stored, DEDUPED: tally.deduped}
        self._record(replace(event, counts=counts, first=tally.first, last=tally.last))

    def disconnected(self, closed: Closed) -> None:
        if not self._admitted:
            if not closed.by_peer and closed.origin is CloseOrigin.APPLICATION and closed.code:
                self.rejected(closed.reason)
            return
        if not self._over:
            self._over = True
            reason = how_ended(closed, "intake")
            self._record(self._event(DISCONNECTED, reason=reason, counts=self._total))

    def opened(self, source: ChannelSource, resumes: bool, run_start: int | None = None) -> None:
        """``run_start``: the number at which the producer's run begins, where it says so."""
        numbered = _numbered(source, resumes)
        self._groups.record(
            PendingEvent(
                self._listener,
                self._of(OPENED, source),
                start=source.start if numbered else 0,
                boundary=min(run_start or 0, source.start) if numbered else 0,
            )
        )

    def unread(self, channel: int, path: str, parent: ChannelSource, reason: str) -> None:
        """A channel that we closed at once, for its headers."""
        self._record(
            LoggedEvent(
                CLOSED,
                self._clock(),
                self._connection,
                self._producer,
                path,
                channel,
                parent.channel_id,
                reason=reason,
            )
        )

    def complete(
        self, source: ChannelSource, resumes: bool, tally: ChannelTally, counts: Counts
    ) -> None:
        """All messages of the channel have come: it has finished, once they are stored."""
        self._finished.add(source.channel_id)
        end = source.start + counts.reliable_sent if _is_run(source, resumes) else 0
        self._end(FINISHED, source, tally, counts, confirms=True, boundary=end)

    def unfinished(self, source: ChannelSource) -> None:
        """The channel was given up before its finish was accepted: it will have another end."""
        self._finished.discard(source.channel_id)

    def ended(
        self,
        source: ChannelSource,
        tally: ChannelTally,
        end: End,
        counts: Counts,
        reason: str | None = None,
    ) -> None:
        """A half has ended; ``reason`` for what we closed."""
        self._add(tally, counts)
        if source.channel_id in self._finished:
            self._finished.discard(source.channel_id)
        elif end is not End.CONNECTION_LOST:
            self._end(_KINDS[end], source, tally, counts, reason=reason or _REASONS.get(end))
        elif tally.deduped:
            self._groups.record(PendingEvent(self._listener, self._of(REPEATED, source), tally))

    def nacked(self, source: ChannelSource, first: int, stop: int) -> None:
        """Datagram messages ``[first, stop)`` were nacked."""
        self._groups.nacked(self._listener, source, first, stop, self._clock())

    def _end(
        self,
        kind: str,
        source: ChannelSource,
        tally: ChannelTally,
        counts: Counts,
        *,
        reason: str | None = None,
        confirms: bool = False,
        boundary: int = 0,
    ) -> None:
        finished = kind == FINISHED
        known: EventCounts = {
            RELIABLE_SENT: counts.reliable_sent if finished or counts.reliable_sent else None,
            UNRELIABLE_SENT: counts.unreliable_sent,
            ACKED: counts.unreliable_acked,
            UNACKED: counts.nacked,
            LATE: counts.late,
        }
        event = self._of(kind, source, reason=reason, counts=known)
        self._groups.record(
            PendingEvent(self._listener, event, tally, confirms, source=source, boundary=boundary)
        )

    def _add(self, tally: ChannelTally, counts: Counts) -> None:
        more = {
            RELIABLE_SENT: counts.reliable_sent,
            STORED: tally.stored,
            UNRELIABLE_SENT: counts.unreliable_sent,
            ACKED: counts.unreliable_acked,
            UNACKED: counts.nacked,
            LATE: counts.late,
            DEDUPED: tally.deduped,
        }
        self._total = {name: (self._total.get(name) or 0) + n for name, n in more.items()}

    def _event(
        self, kind: str, *, reason: str | None = None, counts: EventCounts | None = None
    ) -> LoggedEvent:
        return LoggedEvent(
            kind, self._clock(), self._connection, self._producer, reason=reason, counts=counts
        )

    def _of(
        self,
        kind: str,
        source: ChannelSource,
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
            *source.parent,
            reason,
            counts,
        )

    def _record(self, event: LoggedEvent) -> None:
        self._groups.record(PendingEvent(self._listener, event))


def _numbered(source: ChannelSource, resumes: bool) -> bool:
    """Whether numbers go on from one channel of this name to the next; a sink's jump."""
    return resumes and source.floor is None and not source.by_source


def _is_run(source: ChannelSource, resumes: bool) -> bool:
    """Whether the finish of a channel says that what its producer has to send ends there: not of
    a sink, whose numbers jump and which may go on with a batch on another channel; nor of the
    entrypoint, on which each process attaches as many channels as it has."""
    return _numbered(source, resumes) and source.channel_id != ENTRYPOINT

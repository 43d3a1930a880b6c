"""What a session is given: what all sessions share, and the role that it plays."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aqueduct_core.aqueduct.conventions.dedupe.source_rows import RowNumbers
from aqueduct_core.aqueduct.events import Closed, Ended, Event
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.escape import escaped
from aqueduct_core.intake.sessions.channel_owners import ChannelOwners
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.storage.arrow import RowSource
from aqueduct_core.intake.storage.commit_tracker import CommitTrackers
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.logs.refusals import RefusalLog

if TYPE_CHECKING:
    from aqueduct_core.intake.sessions.session import Session

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionChannel:
    """A channel that flows to us. ``path`` is its place in the tree: ``0``, ``0/8``, …; ``tally``
    counts what is stored of it; ``rows`` numbers its messages where they say which row of a source
    they are."""

    source: RowSource
    resumes: bool
    path: str
    tally: Tally = field(default_factory=Tally)
    rows: RowNumbers | None = None


@dataclass(slots=True)
class SessionCounters:
    """Over all sessions of the process. Connections that we closed: ``fenced``, because another run
    of their producer had taken one of their channels; ``over_limits``, because the peer went over a
    limit; ``violations``, because it broke another rule of the protocol; ``not_repeatable``,
    because it sent other content under numbers that are stored."""

    accepted: int = 0
    rejected: int = 0
    finished: int = 0
    cancelled: int = 0
    lost: int = 0
    nacked: int = 0
    fenced: int = 0
    over_limits: int = 0
    violations: int = 0
    not_repeatable: int = 0

    def note_close(self, closed: Closed) -> bool:
        """Count why we closed a connection; whether it was for what the peer did."""
        if closed.by_peer or closed.origin is not CloseOrigin.APPLICATION:
            return False
        over_limits = closed.code == Code.RESOURCE_LIMIT
        violation = not over_limits and Code.NO_ERROR < closed.code < Code.INTERNAL
        self.over_limits += over_limits
        self.violations += violation
        return over_limits or violation


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What all sessions of an intake share."""

    groups: GroupCommit
    clock: Callable[[], float]
    wall_microseconds: Callable[[], int]
    ended: Callable[[Session], None]
    owners: ChannelOwners
    refusals: RefusalLog
    counters: SessionCounters = field(default_factory=SessionCounters)
    commits: CommitTrackers = field(default_factory=lambda: CommitTrackers(0, {}))
    new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    """Names a connection; no two of a spool may have one name."""
    spool_id: str = ""

    def note_close(self, session: Session, closed: Closed, how: str, *, admitted: bool) -> None:
        """Count and log the end of a connection. Strangers may bring about as many as they like,
        so only ends of what was ``admitted`` have a line each."""
        violated = self.counters.note_close(closed)
        told = ("%s %s", session, escaped(how))
        if violated:
            self.refusals.add("violations of the protocol", *told)
        elif admitted:
            log.info(*told)
        else:
            self.refusals.add("connections that never opened", *told, level=logging.INFO)


class Role(Protocol):
    """What differs between a connection that was accepted and one that was dialled."""

    def opened(self, session: Session, headers: Headers) -> None:
        """The peer's connection headers are here: `Session.admit` it or `Session.refuse` it."""

    def received(self, channel: SessionChannel) -> None:
        """Messages of a channel came, and are offered for storage."""

    def told(self, event: Event) -> None:
        """What the engine says of channels on which we send; and ``Complete``."""

    def recorded(self, channels: list[int]) -> None:
        """The finishes of these channels are durable, with all their messages. It may come after
        `closed`."""

    def attached(self, channel: SessionChannel) -> None:
        """One more channel flows to us, in a message of another one that does."""

    def unread(self, parent: SessionChannel, path: str, reason: str) -> None:
        """A channel in a message of ``parent`` flows to us and cannot be read: it is closed."""

    def ended(self, ended: Ended, channel: SessionChannel | None) -> None:
        """A half has ended; ``channel`` None: not one that flowed to us."""

    def closed(self, session: Session, closed: Closed) -> None:
        """The connection is over, and so is everything on it."""

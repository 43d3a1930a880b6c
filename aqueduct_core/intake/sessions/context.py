"""What all sessions of an intake share."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from aqueduct_core.escape import escaped
from aqueduct_core.intake.sessions.channel_owners import ChannelOwners
from aqueduct_core.intake.storage.commit_tracker import CommitTrackers
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.logs.json_lines import named
from aqueduct_core.logs.refusals import RefusalLog

log = logging.getLogger(__name__)

MODERATION = 0.004
"""Seconds that messages which come by themselves wait to be read together (`Moderation`). Nobody
waits for more than an ack, which comes when their group is durable; and of a machine that runs
Spark beside the intake, a message that is read by itself takes time from the row it becomes."""


REFUSED, UNOPENED = "connections refused", "connections that never opened"
"""Kinds of refusals (`RefusalLog`): what was said to a peer; and all that ended before they were
admitted, these among them."""


class Fault(Enum):
    """What a peer did for which we closed its connection."""

    OVER_LIMITS = auto()
    VIOLATION = auto()
    """It broke another rule of the protocol."""


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


@dataclass(slots=True)
class LateCommits:
    """Channels that peers gave up because queries kept their packets waiting, of a protocol whose
    acks wait for commits: how many, and when it was the last one (monotonic seconds)."""

    channels: int = 0
    last_at: float = 0.0

    def note(self, now: float) -> None:
        self.channels += 1
        self.last_at = now


@dataclass(frozen=True, slots=True)
class SessionContext:
    """``ended`` is called with each session that is over."""

    groups: GroupCommit
    clock: Callable[[], float]
    wall_microseconds: Callable[[], int]
    ended: Callable[[Any], None]
    owners: ChannelOwners
    refusals: RefusalLog
    counters: SessionCounters = field(default_factory=SessionCounters)
    commits: CommitTrackers = field(default_factory=lambda: CommitTrackers(0, {}))
    late_commits: LateCommits = field(default_factory=LateCommits)
    new_id: Callable[[], str] = lambda: secrets.token_hex(8)
    """Names a connection; no two of a spool may have one name."""
    spool_id: str = ""

    def note_end(
        self,
        session: object,
        how: str,
        *,
        admitted: bool,
        fault: Fault | None = None,
    ) -> None:
        """Count and log the end of a connection. Strangers may bring about as many as they like,
        so only ends of what was ``admitted`` have a line each.

        Args:
            fault: we closed it for what the peer did.
        """
        self.counters.over_limits += fault is Fault.OVER_LIMITS
        self.counters.violations += fault is Fault.VIOLATION
        line = ("%s %s", session, escaped(how))
        if fault is not None:
            self.refusals.add("violations of the protocol", *line)
        elif admitted:
            log.info(*line, extra=named("connection-ended", session=session, how=how))
        else:
            self.refusals.add(UNOPENED, *line, level=logging.INFO)

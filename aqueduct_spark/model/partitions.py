"""What the planner hands to tasks: picklable values that say all a task needs to know.

They hold the credentials of the spool, so ``repr`` shows none of it, and they never become part
of a plan or a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from aqueduct_core.primitives.host_port import HostPort

if TYPE_CHECKING:
    from aqueduct_core.flight.credentials import Credentials
    from aqueduct_core.intake.settings.dial import ConnectSettings
    from aqueduct_core.intake.settings.intake import IntakeSettings
    from aqueduct_spark.model.offsets import DataRange


@dataclass(frozen=True)
class LaunchOrder:
    """How to have the intake with the number ``intake`` running; used by launch and data tasks.

    Args:
        settings: of the intake process, with its secrets.
        rendezvous: ``host:port`` where intakes are registered and looked up.
        outside: where the query listens, or whom it dials: how far its intakes can be reached.
        spool_id: identity of the spool that must be found there; None: it may be a new one.
        launch_timeout: longest wait in seconds for the process to be ready.
        lock_timeout: longest wait in seconds for another process to let go of the spool; an
            intake that lost its query does so after its lease.
    """

    intake: int
    settings: IntakeSettings = field(repr=False)
    rendezvous: str
    outside: HostPort
    spool_id: str | None
    launch_timeout: float
    lock_timeout: float


@dataclass(frozen=True)
class LaunchPartition(InputPartition):
    """A task that yields no rows and returns when the intake runs and is registered.

    Args:
        order: how to have it running; None: nothing is left to launch, and the task keeps the place
            that it had when the batch was planned first.
    """

    order: LaunchOrder | None


@dataclass(frozen=True)
class DataPartition(InputPartition):
    """A task that yields the rows of one range.

    Args:
        rows: the range.
        order: how to have the intake back when it does not answer; None: it runs on its own, and
            is waited for.
        fetch_timeout: longest wait in seconds for that.
        lenient: rows that are gone are left out, they do not fail the task.
        access: the credentials of a spool whose intake runs on its own.
    """

    rows: DataRange
    order: LaunchOrder | None
    fetch_timeout: float
    lenient: bool
    access: Credentials | None = field(default=None, repr=False)

    @property
    def credentials(self) -> Credentials:
        """What the intake of the range is asked with; enough to call it, not to be one."""
        if self.access is not None:
            return self.access.for_clients()
        if self.order is None:
            raise ValueError("a range without an order to launch and without access")
        return self.order.settings.credentials.for_clients()


@dataclass(frozen=True)
class StoredPartition(InputPartition):
    """A task that yields one range of a spool directory (``rows.at``)."""

    rows: DataRange


@dataclass(frozen=True)
class StatusPartition(InputPartition):
    """A task that yields the status of one intake.

    ``at`` is the address of its Flight service where there is ``access``, else its directory.
    """

    intake: int
    at: str
    access: Credentials | None = field(default=None, repr=False)


@dataclass(frozen=True)
class FollowPartition(InputPartition):
    """A task that yields what an intake brings until the end of the read has come.

    ``starts`` has the first offset to read of each log of the view.
    """

    intake: int
    at: str
    starts: tuple[int, ...]
    access: Credentials = field(repr=False)


@dataclass(frozen=True)
class DialPartition(InputPartition):
    """A task that launches an intake which dials, and yields what it brings.

    The task makes the spool directory in ``parent`` (None: where temporary files go) and removes
    it again. ``names`` are the channels that it asks for, for errors.
    """

    intake: int
    connect: ConnectSettings = field(repr=False)
    names: tuple[str, ...]
    parent: str | None

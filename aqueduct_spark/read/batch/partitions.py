"""What the planner of a bounded read hands to its tasks; `DataPartition` is shared with streams.

Values with credentials show none of it in ``repr``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from aqueduct_core.flight.credentials import Credentials
    from aqueduct_core.intake.settings.dial import AqueductConnect
    from aqueduct_spark.planning.ranges import DataRange


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
    it again.
    """

    intake: int
    connect: AqueductConnect = field(repr=False)
    parent: str | None

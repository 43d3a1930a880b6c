"""The space that a spool takes, and giving back what every cursor has passed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.cursors import CursorStore
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.segment import Segment
from aqueduct_core.spool.format.settings import SpoolSettings
from aqueduct_core.spool.health import Health
from aqueduct_core.spool.retention import passed, removable
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.writer import Writer


class Quota:
    """Counts bytes, and unlinks whole segments from the oldest on; used by the owner's thread.

    Holds: only what all cursors have passed goes; ``retention`` keeps it while there is room.
    """

    def __init__(
        self,
        directory: Path,
        settings: SpoolSettings,
        disk: Disk,
        health: Health,
        segments: Segments,
        cursors: CursorStore,
        writer: Writer,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._disk = disk
        self._health = health
        self._segments = segments
        self._cursors = cursors
        self._writer = writer
        self._used = sum(segment.size for segment in segments.segments)

    @property
    def bytes(self) -> int:
        """In segments, and in the open group."""
        return self._used + self._writer.open_bytes

    @property
    def full(self) -> bool:
        return self._writer.no_space or self.bytes >= self._settings.max_bytes

    def add(self, size: int) -> None:
        """So many bytes were written."""
        self._used += size

    def trim(self, now: float) -> bool:
        """Unlink the oldest segment if it may go; true when another may follow.

        Raises:
            SpoolFailed: IO.
        """
        self._cursors.save_segments(self._writer.durable, self._cursors.newest)
        if self.full:
            self._roll_if_passed()
        oldest = self._removable(now)
        if oldest is None:
            return False
        with self._health.guard():
            self._disk.unlink(oldest.path)
            self._disk.sync_directory(self._directory)
        self._segments.remove(oldest)
        self._used -= oldest.size
        self._cursors.remove(oldest.number)
        return self._removable(now) is not None

    def _removable(self, now: float) -> Segment | None:
        # what is only kept for its age goes first when there is no room
        retention = 0.0 if self.full else self._settings.retention
        owed = self._settings.owed_partitions
        return removable(self._segments.segments, self._cursors.positions, now, retention, owed)

    def _roll_if_passed(self) -> None:
        """The segment in use may be what takes the space: close it, so that it can go."""
        active = self._writer.active
        owed = self._settings.owed_partitions
        if active is not None and passed(active, self._cursors.positions, owed):
            self._roll()

    def continue_from(self, ends: Sequence[int]) -> None:
        """Rows are numbered from these ends on, in a segment of their own. Durable when this
        returns; nothing may be open or unsettled.

        Raises:
            SpoolFailed: FULL, IO.
        """
        if not self._roll(ends):
            raise SpoolFailed(
                "FULL", f"{self._directory} has no space", "Free some space on that disk"
            )
        self._cursors.note(self._writer.durable)

    def _roll(self, ends: Sequence[int] | None = None) -> bool:
        """As of `Writer.roll`; whether a segment was begun."""
        with self._health.guard():
            old, new = self._writer.roll(ends)
        if new is None:
            return False
        self._segments.add(new.segment)
        self._segments.publish(self._writer.ends)
        self._used += new.segment.size
        self._cursors.close_segments([old] if old else [], new.state)
        self._cursors.save_segments(self._writer.durable, new.segment.number)
        return True

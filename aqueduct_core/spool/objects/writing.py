"""Groups on their way to the store: several at once, reported in order. Pure; time is an argument.

    waiting ──operations──▶ creating ──stored──────────────────────────▶ stored
       ▲                     │    │
       └── no answer, refused┘    └─exists──▶ reading ──ours───────────▶ stored
       ▲                                        │  │
       └────── no answer, or it is gone ────────┘  └─another's─────────▶ fenced

A group is reported when it and all below it are stored. The window slides with what is reported,
not with what is stored: so nothing is ever in flight at or behind the first missing number plus the
window, which is where a successor resumes (`takeover`). What is gone may be created anew: under a
number of ours there is nothing but our own group, which somebody found who deletes it, or a fence,
which stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.spool.format.record import Damaged
from aqueduct_core.spool.objects.group import read_log_object
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.store import (
    CreateObject,
    GetObject,
    ObjectExists,
    ObjectFound,
    ObjectMissing,
    ObjectStored,
    Operation,
    StoreDenied,
    StoreOutcome,
    StoreUnavailable,
)


class UploadState(Enum):
    """Where a group stands; see above."""

    WAITING = auto()
    CREATING = auto()
    READING = auto()
    STORED = auto()


@dataclass(slots=True)
class GroupUpload:
    """A group that is not reported yet. ``due``: when it may be tried, ``begun``: when it first
    was; ``exists``: its name was found taken."""

    data: bytes = field(repr=False)
    begun: float
    due: float
    backoff: Backoff
    state: UploadState = UploadState.WAITING
    exists: bool = False


class LogWriter:
    """The groups in flight of one owner, who has the numbers from ``sequence`` on.

    Holds: at most ``window`` groups are in flight; ``reported`` never passes one that is not
    stored; once ``fenced``, nothing is reported or begun any more.
    """

    def __init__(
        self,
        names: ObjectNames,
        life: str,
        sequence: int,
        window: int,
        backoff: Callable[[], Backoff],
    ) -> None:
        self._names = names
        self._life = life
        self._window = window
        self._backoff = backoff
        self._uploads: dict[int, GroupUpload] = {}
        self.sequence = sequence
        """Of the next group."""
        self.reported = sequence - 1
        """All groups of ours up to this number are stored."""
        self.fenced = False
        self.retries = 0
        self.silence = ""
        """Why the last attempt that failed did; empty once one was good."""

    @property
    def room(self) -> bool:
        """Whether another group may begin."""
        return not self.fenced and self.sequence <= self.reported + self._window

    @property
    def in_flight(self) -> int:
        return len(self._uploads)

    @property
    def buffered(self) -> int:
        """Bytes in memory, of groups in flight."""
        return sum(len(each.data) for each in self._uploads.values())

    def begin(self, data: bytes, now: float) -> int:
        """Send a group on its way; its number."""
        if not self.room:
            raise ValueError("no room in the window")
        number = self.sequence
        self._uploads[number] = GroupUpload(data, now, now, self._backoff())
        self.sequence += 1
        return number

    def operations(self, now: float) -> list[tuple[int, Operation]]:
        """What is to be carried out now, by group; each is given out once, until `handle`."""
        found: list[tuple[int, Operation]] = []
        for number, upload in self._uploads.items():
            if self.fenced or upload.state is not UploadState.WAITING or upload.due > now:
                continue
            key = self._names.group(number)
            if upload.exists:
                upload.state = UploadState.READING
                found.append((number, GetObject(key)))
            else:
                upload.state = UploadState.CREATING
                found.append((number, CreateObject(key, upload.data)))
        return found

    def handle(self, number: int, outcome: StoreOutcome, now: float) -> None:
        """An operation of a group has ended so."""
        upload = self._uploads.get(number)
        if upload is None or self.fenced:
            return
        if isinstance(outcome, StoreUnavailable | StoreDenied | ObjectMissing):
            self.retries += 1
            if isinstance(outcome, ObjectMissing):
                upload.exists = False
            else:
                self.silence = outcome.reason
            upload.state = UploadState.WAITING
            upload.due = now + upload.backoff.next()
            return
        self.silence = ""
        if isinstance(outcome, ObjectExists):
            upload.state, upload.exists, upload.due = UploadState.WAITING, True, now
        elif isinstance(outcome, ObjectStored) or self._is_ours(number, outcome):
            upload.state = UploadState.STORED
            upload.data = b""
            self._report()
        else:
            self.fenced = True

    def wake_at(self) -> float | None:
        """When something may be tried again; None: when something is handled, or begun."""
        waiting = [each.due for each in self._uploads.values() if each.state is UploadState.WAITING]
        return min(waiting, default=None) if not self.fenced else None

    def waited(self, now: float) -> float:
        """Seconds since the oldest group in flight was begun."""
        return max((now - each.begun for each in self._uploads.values()), default=0.0)

    def _report(self) -> None:
        while (next_up := self._uploads.get(self.reported + 1)) is not None:
            if next_up.state is not UploadState.STORED:
                return
            self.reported += 1
            del self._uploads[self.reported]

    def _is_ours(self, number: int, outcome: StoreOutcome) -> bool:
        """Each number is given out once in a life: an object of ours is the one that was sent."""
        if not isinstance(outcome, ObjectFound):
            return False
        try:
            return read_log_object(outcome.data, number).life == self._life
        except Damaged:
            return False

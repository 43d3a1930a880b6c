"""What keeps rows from coming, in words: the states in which an intake or a query waits.

A stall is a value: an intake tells its own in its status, a query adds what it sees of its intakes.
Whoever has a log tells each of them there once when it has lasted for a moment, and once when it is
over (`StallLog`). Pure: times are monotonic seconds of the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.primitives.json_file import JsonForm
from aqueduct_core.primitives.units import written_duration

RESTLESS = 60.0
"""Seconds within which a stall that comes again is the same trouble."""

STEADY = 30.0
"""Seconds that such a one has to last before it is told again: what comes and goes every few
seconds has a line a minute at most, and not two a few seconds."""


class StallKind(NamedTuple):
    """One row of the table: a state, and what people are told of it.

    Args:
        what, remedy: templates; ``{subject}`` is whom it is about, the other fields are those of
            `Stall.of`.
        meanwhile: what goes on by itself; said behind the remedy while that is so, and not by the
            error that ends a query.
        over: what is said of the subject when it is over.
        after: seconds that it lasts before it is told.
        error: class and subclass of the error that ends a query for it; None: that of its cause.
        lasting: it does not go away by itself.
        normal: nothing is wrong; told as information, and ends no query.
        ends: it ends a query after a limit; False where something else does, or strangers could.
    """

    what: str
    remedy: str
    over: str
    after: float
    meanwhile: str = ""
    error: tuple[str, str] | None = None
    lasting: bool = False
    normal: bool = False
    ends: bool = True


KINDS: Mapping[str, StallKind] = {
    # told by an intake
    "endpoint-down": StallKind(
        "{subject} is not connected: {cause}",
        "See that it runs, and that host and port are right",
        "is connected again",
        1.5,
        "it is dialled again until it answers",
    ),
    "endpoint-refuses": StallKind(
        "{subject} is not usable as it is: {cause}",
        "{cause_remedy}",
        "is connected again",
        0.0,
        "it is dialled again meanwhile",
        lasting=True,
    ),
    "spool-full": StallKind(
        "{subject} is full ({size} of spoolMaxBytes={limit}) and takes nothing more: {cause}",
        "{cause_remedy}",
        "has room again",
        2.0,
        error=("SpoolFailed", "FULL"),
    ),
    "disk-full": StallKind(
        "the disk of {subject} is full, and nothing more is stored or acked",
        "Free some space there",
        "has room again",
        1.5,
        "it goes on by itself then, and nothing that was acked is lost",
        ("SpoolFailed", "FULL"),
    ),
    "no-producer": StallKind(
        "no producer has connected yet to {subject} at {address}",
        "Producers reach it by UDP, as QUIC does; rows come when the first of them sends",
        "has its first producer",
        1.5,
        normal=True,
    ),
    "producers-refused": StallKind(
        "{subject} at {address} has let no producer in, and has refused {count}, the last time so: "
        "{cause}",
        "Give them the token, and an authority that they verify the listener with; its log has "
        "each of them",
        "has its first producer",
        1.5,
        error=("AuthFailed", "REJECTED"),
        ends=False,
    ),
    "commits-late": StallKind(
        "{subject} come too late: peers have given up {count} channels so far whose packets waited "
        "for them",
        "Make triggers and batches much shorter than the 10 seconds that a peer waits for an ack, "
        "or set ackLevel=stored",
        "have come in time for a while",
        0.0,
        "these packets are stored, and may come once more",
        ends=False,
    ),
    # told by a query
    "intake-down": StallKind(
        "{subject} does not answer: {cause}",
        "{cause_remedy}",
        "answers again",
        2.0,
        "{meanwhile}",
        ("IntakeFailed", "UNREACHABLE"),
    ),
    "launch-waits": StallKind(
        "the launch of {subject} waits: no executor has begun with it",
        "Spark may be about to start one; else give this application a free task slot: other "
        "queries and jobs have all of its cores, or the cluster gives it no executor",
        "runs",
        4.0,
        error=("IntakeFailed", "LAUNCH_TIMEOUT"),
        ends=False,
    ),
    "launch-slow": StallKind(
        "{subject} is not ready on {place}: {cause}",
        "Read intake.log in {directory} on that host",
        "runs",
        3.0,
        "it is waited for, up to launchTimeout",
        ("IntakeFailed", "LAUNCH_TIMEOUT"),
        ends=False,
    ),
    "launch-fails": StallKind(
        "{subject} could not be started on {place}: {cause}",
        "{cause_remedy}",
        "runs",
        0.0,
        "Spark tries again as often as spark.task.maxFailures says",
        ends=False,
    ),
    "spool-away": StallKind(
        "the spool of {subject} is on none of the executors that were asked ({place})",
        "Mount its volume there, or share it between executors",
        "runs",
        2.0,
        "more of them are asked, until launchTimeout",
        ("IntakeFailed", "UNREACHABLE"),
    ),
    "few-rows": StallKind(
        "{count} rows wait for more, as minOffsetsPerTrigger={limit} asks",
        "They are read after maxTriggerDelay={seconds} at the latest",
        "has a batch",
        3.0,
        normal=True,
    ),
}
"""By the name of the state."""


class Stall(JsonForm, frozen=True):
    """Something that keeps rows from coming.

    Args:
        kind: a row of `KINDS`; one of a newer release is unknown here.
        subject: whom it is about. There is one stall of a subject at a time.
        what, remedy, meanwhile: as those of its kind, filled in; sentences without full stop.
        error_class, error_subclass: of the error that ends a query for it; "" where none does.
        seconds: for how long it has been so, as far as whoever tells it knows.
    """

    kind: str
    subject: str
    what: str
    remedy: str
    error_class: str = ""
    error_subclass: str = ""
    seconds: float = 0.0
    meanwhile: str = ""

    @classmethod
    def of(
        cls, kind: str, subject: str, cause: AqueductError | str | None = None, **fields: Any
    ) -> Stall:
        """Of the table. ``cause`` is {cause}; an error is {cause_remedy} and the class as well,
        where the table names none."""
        row = KINDS[kind]
        found = row.error
        if isinstance(cause, AqueductError):
            fields = {"cause": cause.what, "cause_remedy": cause.remedy} | fields
            found = found or (type(cause).__name__, cause.subclass)
        elif cause is not None:
            fields = {"cause": cause} | fields
        what = row.what.format(subject=subject, **fields)
        remedy = row.remedy.format(subject=subject, **fields)
        meanwhile = row.meanwhile.format(subject=subject, **fields)
        error = found or ("IntakeFailed", "UNREACHABLE")
        return cls(kind, subject, what, remedy, *error, meanwhile=meanwhile)

    @property
    def row(self) -> StallKind:
        """Its row of the table; that of a newer release says what every stall has in common."""
        return KINDS.get(self.kind, _UNKNOWN)

    @property
    def error(self) -> AqueductError | None:
        """The error that it is to a query that it ends."""
        form = ErrorForm(self.error_class, self.error_subclass, self.what, self.remedy)
        return None if self.row.normal else form.error

    def __str__(self) -> str:
        """One line: name of the error, what, what to do."""
        advice = f"{self.remedy}; {self.meanwhile}" if self.meanwhile else self.remedy
        error = self.error
        if error is None:
            return f"{self.what}. {advice}"
        return str(type(error)(error.subclass, error.what, advice))


_UNKNOWN = StallKind("", "", "goes on again", 2.0)


class StallLine(NamedTuple):
    """What is to be logged, with a level of `logging`."""

    level: int
    text: str


@dataclass(slots=True)
class _Trouble:
    """One kind of trouble of a subject: since when it is so, and whether it was told."""

    began: float
    told: bool = False


@dataclass(slots=True)
class _Standing:
    stall: Stall
    began: float
    patient: bool
    """It was there a moment ago, and has to last longer before it is told."""
    met: float
    """When we met the first trouble that is bounded as the present one, without another between."""
    troubles: dict[tuple[str, str], _Trouble] = field(default_factory=dict)

    @property
    def trouble(self) -> _Trouble:
        """The present one."""
        return self.troubles[_name(self.stall)]

    @property
    def known(self) -> bool:
        """A line has told of it."""
        return any(trouble.told for trouble in self.troubles.values())

    def becomes(self, stall: Stall, now: float) -> _Trouble:
        if stall.row.lasting is not self.stall.row.lasting:
            self.met = now
        self.stall = stall
        return self.troubles.setdefault(_name(stall), _Trouble(now - stall.seconds))

    def due(self, now: float) -> bool:
        least = max(self.stall.row.after, STEADY if self.patient else 0.0)
        return now - self.trouble.began >= least


def _name(stall: Stall) -> tuple[str, str]:
    return stall.kind, f"{stall.error_class}.{stall.error_subclass}"


class StallLog:
    """What stands still, from look to look; which lines tell of it, each once.

    A subject whose trouble changes (down, then refusing) has a line for each kind of it, and one
    when all is over. Holds no more than the subjects of the last minute.
    """

    def __init__(self) -> None:
        self._standing: dict[str, _Standing] = {}
        self._ended: dict[str, float] = {}
        self._said: set[tuple[str, str]] = set()

    def observe(self, stalls: Iterable[Stall], now: float) -> list[StallLine]:
        """These are all that there are at ``now``, of one subject the last of them; what is to be
        logged of that."""
        lines: list[StallLine] = []
        self._ended = {s: at for s, at in self._ended.items() if now - at < RESTLESS}
        present = {stall.subject: stall for stall in stalls}
        for subject, stall in present.items():
            standing = self._standing.get(subject)
            if standing is None:
                standing = _Standing(stall, now - stall.seconds, subject in self._ended, now)
                self._standing[subject] = standing
            trouble = standing.becomes(stall, now)
            if standing.due(now) and not trouble.told:
                trouble.told = True
                lines += self._told(stall, now - standing.began)
        for subject in [s for s in self._standing if s not in present]:
            standing = self._standing.pop(subject)
            if standing.known:
                self._ended[subject] = now
                lines += self._over(standing.stall, now - standing.began)
        return lines

    def current(self, now: float) -> tuple[Stall, ...]:
        """What stands still, with how long it does, also what is not told yet."""
        return tuple(_with_time(each, now) for each in self._standing.values())

    def reported(self, now: float) -> tuple[Stall, ...]:
        """Of these, what has lasted long enough to be told."""
        return tuple(_with_time(each, now) for each in self._standing.values() if each.known)

    def overdue(
        self, now: float, waits: tuple[str, float | None], refusals: tuple[str, float | None]
    ) -> AqueductError | None:
        """The error of the stall that is known here for longer than a query is to bear it, of what
        may go away by itself and of what does not; each limit with the name of its option, None:
        none.
        """
        for standing in self._standing.values():
            stall, known = standing.stall, now - standing.met
            option, limit = refusals if stall.row.lasting else waits
            error = stall.error
            if error is not None and stall.row.ends and limit is not None and known >= limit:
                what = f"{error.what} (for {lasted(now - standing.began)}, and '{option}' is "
                what += f"{written_duration(limit)})"
                return type(error)(error.subclass, what, error.remedy)
        return None

    def _told(self, stall: Stall, seconds: float) -> list[StallLine]:
        if stall.row.normal:
            if (stall.kind, stall.subject) in self._said:
                return []
            self._said.add((stall.kind, stall.subject))
            return [StallLine(logging.INFO, str(stall))]
        since = f" for {lasted(seconds)}" if seconds >= 1.0 else ""
        return [StallLine(logging.WARNING, f"waiting{since}: {stall}")]

    def _over(self, stall: Stall, seconds: float) -> list[StallLine]:
        if stall.kind == "few-rows":
            return []  # with each batch
        text = f"{stall.subject} {stall.row.over}, after {lasted(seconds)}"
        return [StallLine(logging.INFO, text)]


def _with_time(standing: _Standing, now: float) -> Stall:
    return msgspec.structs.replace(standing.stall, seconds=now - standing.began)


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def lasted(seconds: float) -> str:
    """A time as people say it, with two units at most: ``4 s``, ``3 min 20 s``, ``2 h``."""
    rest, words = max(0, round(seconds)), list[str]()
    for size, name in _UNITS:
        if rest >= size and len(words) < 2:
            words.append(f"{rest // size} {name}")
            rest %= size
        elif words:
            break
    return " ".join(words) or "0 s"

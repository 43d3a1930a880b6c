"""The offset of a stream: how far each partition of each spool is read.

    {"v":2,"spool":{"0":{"id":"<uuid>","at":"<address>","epoch":3,"to":[120,98],
     "cut":{"1":[40,29]}}},"launch":1,"tick":4,"query":"<uuid>"}

``to`` is exclusive: with ``"to":[120,98]`` the messages 0 to 119 of partition 0 were read and 120
is the next one. ``id`` is the identity of the spool, so that another spool in the same directory
is not mistaken for it; ``at`` and ``epoch`` name the intake that served it, so that a restarted
query finds an intake that outlived its driver. ``launch`` and ``tick`` only grow: a change makes
Spark run a batch, which starts intakes, or brings the commit of the batch before. ``query`` is who
reads: the cursors in the spools belong to it. It is made with the first end of a batch, and is true
once Spark has written that down; version 1 had none.

``cut`` is left out where it is empty. It says how the batch that ends here is split into tasks, so
that it has the same ones whenever it is planned, whatever the options and sizes are by then: for
each log that is cut, where its pieces but the first begin; the first number is an offset, each
other one counts from the one before it. In the example the last batch has three tasks for log 1,
up to 40, up to 69 and up to 98. Version 1 has no ``cut``: its batches are split as the options say.

``places`` is left out where it is 0: how many launch tasks the batch that ends here has behind its
data tasks, whoever is there when it is planned again. So it has as many tasks each time, and those
of another stream behind them, as in a union, keep their places too. What was written before there
was ``places`` has none either where it raises ``launch``.

``reset`` of a spool is left out where an operator never had the query go on elsewhere in it: else
the id of the last time. Between two offsets with other ones there are no rows of that spool. An
offset that has any is of version 3.

``dials`` is left out where it is empty, as for intakes that listen: the endpoints that stay with an
intake, so that none on another host takes them while it is away.

Spark compares offsets as JSON text, so the order of the keys never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from aqueduct_core.errors import CheckpointVersion

FORMAT_VERSION = 3
"""Raised when an older version of this package could misread what we write."""

WITHOUT_RESETS = 2
"""The version of offsets in which no query was ever reset: what older packages read."""

Cuts = Mapping[tuple[int, int], Sequence[int]]
"""Where the pieces of a batch begin, but for the first of each log, ascending; by the number of the
intake and of its log."""


@dataclass(frozen=True, slots=True)
class SpoolPosition:
    """How far one spool is read. ``to`` has one exclusive end for each partition. ``dials`` are the
    endpoints that stay with its intake, ``reset`` is the last `CursorReset` that was obeyed."""

    id: str
    at: str
    epoch: int
    to: tuple[int, ...]
    dials: tuple[str, ...] = ()
    reset: str = ""

    def to_json(self) -> dict[str, Any]:
        dials = {"dials": list(self.dials)} if self.dials else {}
        reset = {"reset": self.reset} if self.reset else {}
        where = {"id": self.id, "at": self.at, "epoch": self.epoch}
        return {**where, **reset, "to": list(self.to), **dials}

    def follows(self, before: SpoolPosition) -> bool:
        """Whether rows lie between the two: in one spool, without a reset between them."""
        return self.id == before.id and self.reset == before.reset


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A position in the whole stream; ``spool`` is keyed by the number of the intake.

    ``cuts`` and ``places`` are no part of the position: they say which tasks the batch that ends
    there has. ``cuts`` None: version 1 does not say. ``query`` is "" before the first batch, and in
    what version 1 wrote.
    """

    spool: Mapping[int, SpoolPosition] = field(default_factory=dict)
    launch: int = 0
    tick: int = 0
    cuts: Cuts | None = field(default_factory=dict, compare=False)
    query: str = ""
    places: int = field(default=0, compare=False)

    def to_json(self) -> dict[str, Any]:
        spool = {str(i): self.spool[i].to_json() for i in sorted(self.spool)}
        for (intake, log), cuts in sorted((self.cuts or {}).items()):
            spool[str(intake)].setdefault("cut", {})[str(log)] = _steps(cuts)
        named = {"query": self.query} if self.query else {}
        places = {"places": self.places} if self.places else {}
        return {
            "v": self._version(),
            "spool": spool,
            "launch": self.launch,
            **places,
            "tick": self.tick,
            **named,
        }

    def _version(self) -> int:
        if any(position.reset for position in self.spool.values()):
            return FORMAT_VERSION
        return 1 if self.cuts is None and not self.query else WITHOUT_RESETS

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], name: str) -> StreamOffset:
        """Read what ``to_json`` wrote; ``name`` is that of the format.

        Raises:
            CheckpointVersion: a newer version wrote it, or it is no offset of ours.
        """
        version = raw.get("v") if isinstance(raw, Mapping) else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise CheckpointVersion(
                "",
                f"The checkpoint holds an offset of version {version}; this package reads "
                f"versions up to {FORMAT_VERSION}",
                "Continue with the version of aqueduct-spark that wrote it, or a newer one",
            )
        try:
            if version not in (1, WITHOUT_RESETS, FORMAT_VERSION):
                raise ValueError(version)
            entries = {int(i): entry for i, entry in raw["spool"].items()}
            return cls(
                spool={i: _position(entry) for i, entry in entries.items()},
                launch=int(raw["launch"]),
                tick=int(raw["tick"]),
                cuts=None if version == 1 else dict(_cuts(entries)),
                query=str(raw.get("query", "")),
                places=_places(raw.get("places", 0)),
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise CheckpointVersion(
                "",
                f"The checkpoint holds an offset that format {name} did not write",
                "Use the checkpoint of this query, or a new checkpointLocation to start afresh",
            ) from error

    def with_position(self, intake: int, position: SpoolPosition) -> StreamOffset:
        return replace(self, spool={**self.spool, intake: position})

    def launched(self) -> StreamOffset:
        return replace(self, launch=self.launch + 1)

    def named(self, query: str) -> StreamOffset:
        return replace(self, query=query)

    def ticked(self) -> StreamOffset:
        return replace(self, tick=self.tick + 1)

    def with_cuts(self, cuts: Cuts, places: int = 0) -> StreamOffset:
        return replace(self, cuts=cuts, places=places)


@dataclass(frozen=True, slots=True)
class DataRange:
    """The rows ``[first, stop)`` of one partition of a spool. ``at`` is where its intake was."""

    intake: int
    spool: str
    at: str
    partition: int
    first: int
    stop: int


def _position(entry: Mapping[str, Any]) -> SpoolPosition:
    to = tuple(int(end) for end in entry["to"])
    if not to or any(end < 0 for end in to):
        raise ValueError("ends are whole numbers, one for each partition")
    dials = tuple(map(str, entry.get("dials", ())))
    reset = str(entry.get("reset", ""))
    return SpoolPosition(str(entry["id"]), str(entry["at"]), int(entry["epoch"]), to, dials, reset)


def _places(raw: Any) -> int:
    if int(raw) < 0:
        raise ValueError("places are a number of tasks")
    return int(raw)


def _steps(cuts: Sequence[int]) -> list[int]:
    return [*cuts[:1], *(b - a for a, b in pairwise(cuts))]


def _cuts(
    entries: Mapping[int, Mapping[str, Any]],
) -> Iterable[tuple[tuple[int, int], tuple[int, ...]]]:
    for intake, entry in entries.items():
        for log, steps in entry.get("cut", {}).items():
            if not steps or any(int(step) <= 0 for step in steps):
                raise ValueError("cuts ascend, and none is at offset 0")
            yield (intake, int(log)), tuple(accumulate(map(int, steps)))

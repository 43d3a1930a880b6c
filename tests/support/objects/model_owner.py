"""An owner as the model checker and the simulation have it: operations out, outcomes in; it takes
a spool over, stores some groups of a row each, and seals what it stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import SequenceMark, SpoolSettings
from aqueduct_core.spool.objects.compaction import SealedRange
from aqueduct_core.spool.objects.group import GroupDraft, LogObject
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.owner import ManifestOwner
from aqueduct_core.spool.objects.store import Operation, Steps, StoreOutcome, StoreUnavailable
from aqueduct_core.spool.objects.takeover import TakenOver, TakeoverRequest, take_over
from aqueduct_core.spool.objects.writing import LogWriter

SCHEMA = pa.schema([("number", pa.int64())])
CODEC = Codec(SCHEMA)
NAMES = ObjectNames("s/")


def group_row(life: str, sequence: int) -> pa.RecordBatch:
    """The one row of a group: another one in each group of each life."""
    return pa.record_batch([pa.array([sequence << 8 | ord(life[0])], pa.int64())], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """``groups`` are stored, up to ``window`` at once; what was reported is sealed when there are
    ``seal`` of them, 0: never. ``trims``: then a cursor passes all that was reported, and segments
    go."""

    life: str
    groups: int
    window: int = 2
    seal: int = 0
    trims: bool = False
    read_ahead: int = 1


@dataclass(slots=True)
class _Running:
    steps: Steps[Any]
    waiting: dict[int, int]
    outcomes: list[StoreOutcome | None]


@dataclass(slots=True)
class ModelOwner:
    """``issued`` are its operations, numbered; ``handle`` takes the outcome of one."""

    plan: OwnerPlan
    now: float = 0.0
    delay: float = 0.0
    issued: list[Operation] = field(default_factory=list)
    taken: TakenOver | None = None
    found: frozenset[tuple[str, int]] = frozenset()
    acked: list[int] = field(default_factory=list)
    error: AqueductError | None = None
    writer: LogWriter | None = None
    manifest: ManifestOwner | None = None
    sealed: int = 0
    _running: list[_Running] = field(default_factory=list)
    _creating: dict[int, int] = field(default_factory=dict)
    _begun: int = 0
    _log: list[LogObject] = field(default_factory=list)
    _offset: int = 0
    _nonces: Any = field(default_factory=count)
    _sequences: Sequences = field(default_factory=lambda: Sequences(SpoolSettings()))

    def __post_init__(self) -> None:
        plan = self.plan
        self._start(
            take_over(
                TakeoverRequest(
                    *(NAMES, CODEC, 1, plan.life, plan.window, "id"),
                    nonce=lambda: f"{plan.life}{next(self._nonces)}",
                    read_ahead=plan.read_ahead,
                )
            )
        )

    @property
    def epoch(self) -> int:
        return self.taken.manifest.epoch if self.taken else 0

    @property
    def done(self) -> bool:
        """Nothing is left to do."""
        if self.error is not None or (self.writer is not None and self.writer.fenced):
            return True
        return len(self.acked) == self.plan.groups and not self._running and self.taken is not None

    def handle(self, number: int, outcome: StoreOutcome) -> None:
        if self.error is not None:
            return
        if number in self._creating:
            assert self.writer is not None
            sequence = self._creating.pop(number)
            self.writer.handle(sequence, outcome, self.now)
            self.acked += range(len(self.acked) + self._first, self.writer.reported + 1)
        else:
            self._step(number, outcome)
        if self.error is None:
            self._go_on()

    def wake(self, now: float) -> None:
        """Time has passed."""
        self.now = now
        if self.error is None:
            self._go_on()

    @property
    def _first(self) -> int:
        assert self.taken is not None
        return self.taken.sequence

    def _go_on(self) -> None:
        writer = self.writer
        if writer is None:
            return
        while self._begun < self.plan.groups and writer.room:
            self._begin(writer)
        for sequence, operation in writer.operations(self.now):
            self._creating[len(self.issued)] = sequence
            self.issued.append(operation)
        if self.plan.seal and not self._running and not writer.fenced:
            self._seal(writer)

    def _begin(self, writer: LogWriter) -> None:
        draft = GroupDraft(CODEC, writer.sequence, self.plan.life, writer.reported)
        mark = SequenceMark(self.plan.life, "", writer.sequence, writer.sequence + 1)
        draft.add(0, group_row(self.plan.life, writer.sequence), self._offset, [mark])
        self._offset += 1
        self._begun += 1
        self._log.append(draft.finished())
        writer.begin(draft.data(), self.now)

    def _seal(self, writer: LogWriter) -> None:
        reported = [each for each in self._log if each.sequence <= writer.reported]
        if len(reported) < self.plan.seal:
            return
        assert self.manifest is not None
        self._log = self._log[len(reported) :]
        for each in reported:
            if each.fence is None and each.life == self.plan.life:
                mark = SequenceMark(each.life, "", each.sequence, each.sequence + 1)
                self._sequences.add([mark])
        ends = (self._offset - (self._begun - len(self.acked)),)
        floor = max(writer.reported + 1, self._first)
        state = {"marks": self._sequences.snapshot(), "sums": []}
        starts = tuple(self.manifest.manifest.ends)
        each_range = SealedRange(tuple(reported), floor, self.plan.window, starts, ends, state)
        self._start(self._sealing(self.manifest, each_range))

    def _sealing(self, manifest: ManifestOwner, each: SealedRange) -> Steps[None]:
        yield from manifest.seal(each, 0.0)
        self.sealed += 1
        if self.plan.trims:
            yield from manifest.change(lambda known: replace(known, cursors={"c": each.ends}))
            yield from manifest.trim({"c": each.ends}, 1, 1.0)

    def _start(self, steps: Steps[Any]) -> None:
        running = _Running(steps, {}, [])
        self._running.append(running)
        self._advance(running, None)

    def _step(self, number: int, outcome: StoreOutcome) -> None:
        for running in self._running:
            if number in running.waiting:
                running.outcomes[running.waiting.pop(number)] = outcome
                if not running.waiting:
                    self._advance(running, tuple(each for each in running.outcomes if each))
                return

    def _advance(self, running: _Running, outcomes: tuple[StoreOutcome, ...] | None) -> None:
        try:
            operations = next(running.steps) if outcomes is None else running.steps.send(outcomes)
        except StopIteration as end:
            self._running.remove(running)
            if isinstance(end.value, TakenOver):
                self._own(end.value)
            return
        except SpoolFailed as error:
            self.error = error
            return
        running.outcomes = [None] * len(operations)
        running.waiting = {}
        for i, operation in enumerate(operations):
            running.waiting[len(self.issued)] = i
            self.issued.append(operation)

    def _own(self, taken: TakenOver) -> None:
        plan = self.plan
        self.taken = taken
        if taken.state is not None:
            self._sequences.load(taken.state["marks"], taken.state["sums"])
        for each in taken.objects:
            for record in each.records:
                self._sequences.add(record.marks)
        self.found = stored_in(self._sequences)
        assert taken.ends[0] == len(self.found), "each is stored once"
        self._offset = taken.ends[0]
        self._log = list(taken.objects)
        self.acked = []
        self.writer = LogWriter(
            *(NAMES, plan.life, taken.sequence, plan.window),
            lambda: Backoff(self.delay, self.delay * 8, lambda: 1.0),
        )
        self.manifest = ManifestOwner(
            NAMES, CODEC, taken.manifest, taken.tag, lambda: f"{plan.life}{next(self._nonces)}"
        )


def stored_in(sequences: Sequences) -> frozenset[tuple[str, int]]:
    """The groups whose marks are there, by life and number."""
    lives = {source for source, *_ in sequences.snapshot()}
    return frozenset(
        (life, number)
        for life in lives
        for low, high in sequences.seen(life, "")
        for number in range(low, high)
    )


LOST = StoreUnavailable("no answer")

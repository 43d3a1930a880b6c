"""How far the next batch may go: pure functions from what is seen to the next offset.

Nothing here asks, waits or logs; every rule can be shown by a table of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_core.flight.status import CursorReset
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.options.starting import Specific, Starting, starting_positions
from aqueduct_spark.planning.views import Seen

LogEnds = tuple[int, ...]
"""An exclusive end for each log of the view, of one spool."""


@dataclass(frozen=True, slots=True)
class ProgressTerms:
    """What a query asks for, as far as planning is concerned.

    ``logs`` of each spool belong to the view; None: as many as it has. ``lost_spools`` are given up
    by name: another one may take their place.
    """

    intakes: int
    logs: int | None
    view: str
    starting: Starting
    fail_on_data_loss: bool
    lost_spools: frozenset[str] = frozenset()

    def passes(self, loss: DataLoss, spool: str) -> bool:
        """Whether the query goes on behind this loss. Another spool in its place is no proof that
        one is lost: only who says so by its name lets it go."""
        replaced = loss.subclass == "SPOOL_REPLACED"
        return spool in self.lost_spools if replaced else not self.fail_on_data_loss


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows ``[first, stop)`` that a batch could read. ``index`` is the place in ``to``."""

    intake: int
    index: int
    first: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Survey:
    """What the next batch may be made of.

    Args:
        entered: the start, with entries for intakes that are new, moved or lost something; it
            adds no rows to the batch.
        waiting: what may be read on top of it, each with at least one row.
        missing: the numbers of the intakes that do not answer.
        losses: what was passed over.
    """

    entered: StreamOffset
    waiting: tuple[Waiting, ...]
    missing: tuple[int, ...]
    losses: tuple[DataLoss, ...] = ()


def survey(
    start: StreamOffset,
    seen: Mapping[int, Seen],
    terms: ProgressTerms,
    *,
    ceiling: Mapping[int, LogEnds] | None = None,
    located: Mapping[int, LogEnds] | None = None,
) -> Survey:
    """What a batch from ``start`` may go to.

    ``seen`` holds the intakes that answer. One that the offset does not know yet is entered with
    its starting position, one in which the query was reset with where it is to go on, and one that
    moved with its new address; the first two give an empty batch, which makes the entry durable
    before anything builds on it. The others go up to their durable
    end, within ``ceiling``. ``located`` is needed for intakes that are new where the query starts
    at a time.

    Raises:
        InvalidOption: the checkpoint was made with other numbers of intakes or partitions.
        DataLoss: messages between ``start`` and what is stored are gone, and the terms do not let
            them go.
    """
    check_terms(start, seen, terms)
    entered = start
    losses: list[DataLoss] = []
    waiting: list[Waiting] = []
    for intake in range(terms.intakes):
        status = seen.get(intake)
        if status is None:
            continue
        known = start.spool.get(intake)
        if status.reset is not None and _is_due(status.reset, known, status):
            reset = replace(_position(status, status.reset.to), reset=status.reset.id)
            position, found = _within_stored(intake, reset, status)
        elif known is None:
            position, found = _first_position(intake, status, terms, located)
        else:
            position, found = _reconcile(intake, known, status)
            if position.follows(known):
                durable = clip(status.ends, None if ceiling is None else ceiling.get(intake))
                waiting += [
                    Waiting(intake, index, to, stop)
                    for index, (to, stop) in enumerate(zip(position.to, durable, strict=True))
                    if to < stop
                ]
        for loss in found:
            if not terms.passes(loss, position.id if known is None else known.id):
                raise loss
            losses.append(loss)
        entered = entered.with_position(intake, position)
    missing = tuple(intake for intake in range(terms.intakes) if intake not in seen)
    return Survey(entered, tuple(waiting), missing, tuple(losses))


def granted(
    entered: StreamOffset, waiting: Sequence[Waiting], shares: Sequence[int]
) -> StreamOffset:
    """``entered``, moved on by a share of what waits."""
    for one, share in zip(waiting, shares, strict=True):
        if share:
            position = entered.spool[one.intake]
            to = list(position.to)
            to[one.index] += share
            entered = entered.with_position(one.intake, replace(position, to=tuple(to)))
    return entered


def passed_over(
    start: StreamOffset, entered: StreamOffset, seen: Mapping[int, Seen]
) -> tuple[int, ...]:
    """The intakes that are new to the query and in which its cursor is ahead of where it starts.

    The cursor is that of an earlier query of that name. It would not keep the rows between.
    """
    return tuple(
        intake
        for intake, position in entered.spool.items()
        if intake not in start.spool
        and any(done > to for done, to in zip(seen[intake].committed, position.to, strict=True))
    )


def clip(ends: Sequence[int], ceiling: Sequence[int] | None) -> LogEnds:
    """``ends``, but not beyond ``ceiling``."""
    if ceiling is None:
        return tuple(ends)
    return tuple(min(end, most) for end, most in zip(ends, ceiling, strict=True))


def reaches(offset: StreamOffset, seen: Mapping[int, Seen]) -> StreamOffset:
    """``offset`` moved to the durable end of each intake in ``seen``: what could be read now."""
    for intake, status in seen.items():
        known = offset.spool.get(intake)
        reset = known.reset if known is not None and known.id == status.id else ""
        position = replace(_position(status, status.ends), reset=reset)
        offset = offset.with_position(intake, position)
    return offset


def commit_is_due(
    start: StreamOffset, seen: Mapping[int, Seen], ticked: StreamOffset | None
) -> bool:
    """Whether a commit of ``start`` is outstanding and a tick would bring it.

    Spark calls ``commit`` for batch N only when it builds batch N+1. On a quiet stream that would
    be with the next message, so the planner raises ``tick`` once after a batch with data.

    ``ticked`` is the offset of the last tick of this process: one tick for each position, so that
    an intake that cannot take commits does not make the query spin.
    """
    if ticked is not None and ticked.spool == start.spool:
        return False
    for intake, position in start.spool.items():
        status = seen.get(intake)
        if status is None or status.id != position.id:
            continue
        if any(to > done for to, done in zip(position.to, status.committed, strict=True)):
            return True
    return False


def check_terms(start: StreamOffset, seen: Mapping[int, Seen], terms: ProgressTerms) -> None:
    """Refuse options that do not fit the checkpoint or the spools. Raises InvalidOption."""
    if start.spool and max(start.spool) >= terms.intakes:
        needed = max(start.spool) + 1
        option = "intakes" if terms.logs is None else "numIntakes"
        raise InvalidOption(
            "BAD_VALUE",
            f"Option '{option}' gives {terms.intakes}, but the checkpoint was made with {needed}",
            f"Set '{option}' to {needed} or more, or start with a new checkpoint",
        )
    for intake in range(terms.intakes):
        known, status = start.spool.get(intake), seen.get(intake)
        wanted = terms.logs if status is None or terms.logs is not None else len(status.ends)
        if wanted is None:
            continue
        if known is not None and len(known.to) != wanted:
            raise _other_logs(terms, wanted, "the checkpoint was made with", len(known.to))
        if status is not None and len(status.ends) != wanted:
            raise _other_logs(terms, wanted, f"spool {status.id} has", len(status.ends))


def _other_logs(terms: ProgressTerms, wanted: int, other: str, count: int) -> InvalidOption:
    if terms.view == "events" or terms.logs is None:
        return InvalidOption(
            "BAD_VALUE",
            f"Option 'view' is '{terms.view}', which has {wanted} partition(s) for each intake, "
            f"but {other} {count}",
            "Set 'view' as it was, or start with a new checkpoint",
        )
    return InvalidOption(
        "BAD_VALUE",
        f"Option 'partitionsPerIntake' is '{wanted}', but {other} {count}",
        f"Set 'partitionsPerIntake' to {count}, or start with a new checkpoint and a new spool",
    )


def _is_due(reset: CursorReset, known: SpoolPosition | None, status: Seen) -> bool:
    """Whether the query has not obeyed it yet. It counts also for one that does not know the spool,
    in place of where its options have it start."""
    return known is None or (known.id == status.id and known.reset != reset.id)


def _first_position(
    intake: int, status: Seen, terms: ProgressTerms, located: Mapping[int, LogEnds] | None
) -> tuple[SpoolPosition, Sequence[DataLoss]]:
    latest = status.opened or status.ends  # what was brought since it began for the query is new
    try:
        asked = starting_positions(
            terms.starting,
            intake,
            status.starts,
            [max(pair) for pair in zip(latest, status.starts, strict=True)],
            None if located is None else located.get(intake),
        )
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"Option 'startingOffsets': {error}", "Correct 'startingOffsets'"
        ) from None
    position = _position(status, asked)
    # What a time is located at may be behind the end that was seen before: nothing is lost by that.
    if isinstance(terms.starting, Specific):
        return _within_stored(intake, position, status)
    return position, ()


def _position(status: Seen, to: LogEnds) -> SpoolPosition:
    return SpoolPosition(status.id, status.at, status.epoch, to, status.dials)


def _reconcile(
    intake: int, known: SpoolPosition, status: Seen
) -> tuple[SpoolPosition, Sequence[DataLoss]]:
    """The position to go on from, and what was lost on the way to it."""
    if status.id != known.id:
        before = f"the query has read spool {known.id} up to {list(known.to)}"
        loss = replaced(intake, status.id, known.id, before)
        return _position(status, status.starts), [loss]
    here = replace(_position(status, known.to), reset=known.reset)
    return _within_stored(intake, here, status)


def replaced(intake: int, spool: str, known: str, before: str) -> DataLoss:
    return DataLoss(
        "SPOOL_REPLACED",
        f"Intake {intake} serves spool {spool}, and {before}",
        "Bring the old spool directory back, or start with a new checkpoint; " + give_up(known),
    )


def give_up(spool: str) -> str:
    """What a person does who knows that the spool will not come back."""
    return f"where it is gone for good, set lostSpools={spool} to go on without it"


def _within_stored(
    intake: int, position: SpoolPosition, status: Seen
) -> tuple[SpoolPosition, Sequence[DataLoss]]:
    losses: list[DataLoss] = []
    for index, to in enumerate(position.to):
        first, stop = status.starts[index], status.ends[index]
        if first <= to <= stop:
            continue
        log = status.first_log + index
        where = f"offset {to} of partition {log} of intake {intake} (spool {status.id})"
        low, high, ahead = (to, first, "") if to < first else (stop, to, " --ahead")
        remedy = (
            "Bring the spool back as it was, start with a new checkpoint, set failOnDataLoss=false"
            " to go on behind the hole, or give the rows up with: aqueduct spool skip DIR"
            f" --partition {log} --from {low} --to {high}{ahead} (DIR: that of the intake)"
        )
        if to < first:
            what = f"{where} is gone, the first stored is {first}"
            losses.append(DataLoss("RANGE_GONE", what, remedy))
        else:
            what = f"{where} is not stored, the end is {stop}"
            losses.append(DataLoss("OFFSET_AHEAD", what, remedy))
    inside = tuple(
        min(max(end, low), high)
        for end, low, high in zip(position.to, status.starts, status.ends, strict=True)
    )
    return replace(position, to=inside), losses

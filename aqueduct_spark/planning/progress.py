"""How far the next batch may go: pure functions from what is seen to the next offset.

Nothing here asks, waits or logs; every rule can be shown by a table of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_core.flight.tickets import IntakeStatus
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.model.starting import Starting, starting_positions
from aqueduct_spark.planning.limits import apportion

Ends = tuple[int, ...]
"""An exclusive end for each partition of one spool."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a query asks for, as far as planning is concerned."""

    intakes: int
    partitions: int
    starting: Starting
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class Step:
    """The end of the next batch, and the losses that were passed over on the way."""

    end: StreamOffset
    losses: tuple[DataLoss, ...] = ()


def advance(
    start: StreamOffset,
    seen: Mapping[int, IntakeStatus],
    terms: Terms,
    *,
    limit: int | None = None,
    ceiling: Mapping[int, Ends] | None = None,
) -> Step:
    """The offset that a batch from ``start`` may go to; equal to ``start`` when nothing is new.

    ``seen`` holds the intakes that answer. One that does not makes ``launch`` grow. One that the
    offset does not know yet is entered with its starting position, and one that moved with its
    new address; both give an empty batch, which makes the entry durable before anything builds
    on it. The others go up to their durable end, within ``limit`` messages and ``ceiling``.

    Raises:
        InvalidOption: the checkpoint was made with other numbers of intakes or partitions.
        DataLoss: ``fail_on_data_loss`` is set and messages between ``start`` and what is stored
            are gone.
    """
    check_terms(start, terms)
    end = start
    losses: list[DataLoss] = []
    available: list[tuple[int, int, int]] = []
    for intake in range(terms.intakes):
        status = seen.get(intake)
        if status is None:
            continue
        known = start.spool.get(intake)
        if known is None:
            position, loss = _first_position(intake, status, terms)
        else:
            position, loss = _reconcile(intake, known, status)
            durable = clip(status.ends, None if ceiling is None else ceiling.get(intake))
            if position.id == known.id:
                available += [
                    (intake, p, max(0, durable[p] - position.to[p])) for p in range(len(durable))
                ]
        if loss is not None:
            if terms.fail_on_data_loss:
                raise loss
            losses.append(loss)
        end = end.with_position(intake, position)
    end = _grant(end, available, limit)
    if any(intake not in seen for intake in range(terms.intakes)):
        end = end.launched()
    return Step(end, tuple(losses))


def clip(ends: Sequence[int], ceiling: Sequence[int] | None) -> Ends:
    """``ends``, but not beyond ``ceiling``."""
    if ceiling is None:
        return tuple(ends)
    return tuple(min(end, most) for end, most in zip(ends, ceiling, strict=True))


def reaches(offset: StreamOffset, seen: Mapping[int, IntakeStatus]) -> StreamOffset:
    """``offset`` moved to the durable end of each intake in ``seen``: what could be read now."""
    for intake, status in seen.items():
        position = SpoolPosition(status.id, status.flight, status.epoch, tuple(status.ends))
        offset = offset.with_position(intake, position)
    return offset


def check_terms(start: StreamOffset, terms: Terms) -> None:
    """Refuse options that do not fit the checkpoint. Raises InvalidOption.BAD_VALUE."""
    for intake, position in start.spool.items():
        if intake >= terms.intakes:
            needed = max(start.spool) + 1
            raise InvalidOption(
                "BAD_VALUE",
                f"Option 'numIntakes' is '{terms.intakes}', but the checkpoint was made with "
                f"{needed}",
                f"Set 'numIntakes' to {needed} or more, or start with a new checkpoint",
            )
        if len(position.to) != terms.partitions:
            raise InvalidOption(
                "BAD_VALUE",
                f"Option 'partitionsPerIntake' is '{terms.partitions}', but the checkpoint was "
                f"made with {len(position.to)}",
                f"Set 'partitionsPerIntake' to {len(position.to)}, or start with a new "
                "checkpoint and a new spool",
            )


def _first_position(
    intake: int, status: IntakeStatus, terms: Terms
) -> tuple[SpoolPosition, DataLoss | None]:
    asked = starting_positions(terms.starting, intake, status.starts, status.ends)
    position = SpoolPosition(status.id, status.flight, status.epoch, asked)
    return _within_stored(intake, position, status)


def _reconcile(
    intake: int, known: SpoolPosition, status: IntakeStatus
) -> tuple[SpoolPosition, DataLoss | None]:
    """The position to go on from, and what was lost on the way to it."""
    if status.id != known.id:
        loss = DataLoss(
            "SPOOL_REPLACED",
            f"Intake {intake} serves spool {status.id}, and the query has read spool {known.id} "
            f"up to {list(known.to)}",
            "Bring the old spool directory back, or start with a new checkpoint, or set "
            "failOnDataLoss=false to read the new spool from its start",
        )
        fresh = SpoolPosition(status.id, status.flight, status.epoch, tuple(status.starts))
        return fresh, loss
    here = SpoolPosition(known.id, status.flight, status.epoch, known.to)
    return _within_stored(intake, here, status)


def _within_stored(
    intake: int, position: SpoolPosition, status: IntakeStatus
) -> tuple[SpoolPosition, DataLoss | None]:
    for partition, to in enumerate(position.to):
        first, stop = status.starts[partition], status.ends[partition]
        if first <= to <= stop:
            continue
        where = f"offset {to} of partition {partition} of intake {intake} (spool {status.id})"
        remedy = "Start with a new checkpoint, or set failOnDataLoss=false to go on behind the hole"
        if to < first:
            loss = DataLoss("RANGE_GONE", f"{where} is gone, the first stored is {first}", remedy)
        else:
            loss = DataLoss("OFFSET_AHEAD", f"{where} is not stored, the end is {stop}", remedy)
        inside = tuple(
            min(max(end, low), high)
            for end, low, high in zip(position.to, status.starts, status.ends, strict=True)
        )
        return SpoolPosition(position.id, position.at, position.epoch, inside), loss
    return position, None


def _grant(
    end: StreamOffset, available: Sequence[tuple[int, int, int]], limit: int | None
) -> StreamOffset:
    shares = apportion([count for _, _, count in available], limit)
    for (intake, partition, _), share in zip(available, shares, strict=True):
        if share:
            position = end.spool[intake]
            to = list(position.to)
            to[partition] += share
            end = end.with_position(
                intake, SpoolPosition(position.id, position.at, position.epoch, tuple(to))
            )
    return end

"""Rows that were given up by hand, as an event; and giving them up where no intake runs yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.event_log import SKIPPED, LoggedEvent
from aqueduct_core.intake.storage.pending import PendingEvent, Receipt
from aqueduct_core.intake.storage.rows import RowFormat, newest_stored
from aqueduct_core.spool import Spool
from aqueduct_core.spool.losses import offset_ahead

log = logging.getLogger(__name__)


def skipped_event(
    partition: int, start: int, end: int, reason: str, microseconds: int
) -> LoggedEvent:
    """Offsets ``[start, end)`` of a partition are passed over from now on."""
    text = f"partition {partition}: {reason}"
    return LoggedEvent(SKIPPED, microseconds, "", reason=text, first=start, last=end - 1)


def give_up(
    spool: Spool,
    rows: RowFormat,
    events: int | None,
    partition: int,
    start: int,
    end: int,
    reason: str,
) -> None:
    """Give the rows up, as the owner of the spool: recorded before it is done, for what is passed
    over without an event would be passed over in silence; and not before it is clear that it can be
    done.

    Args:
        rows: how events lie in this spool.
        events: the log of events; None where there is none, as in old spools.

    Raises:
        DataLoss, InvalidOption, SpoolFailed: as `Spool.skip`.
    """
    if not spool.prepare_skip(partition, start, end):
        return
    if events is not None:
        now = max(time.time_ns() // 1000, newest_stored(spool, rows, events))
        event = skipped_event(partition, start, end, reason, now)
        spool.append(events, rows.to_events([event], events))
        if not spool.settle():
            raise SpoolFailed(
                "FULL",
                f"{spool.directory} has no space to tell of it: nothing is skipped",
                "Free some space on that disk, then try again",
            )
    spool.skip(partition, start, end, reason)


def settle_given_out(
    spool: Spool, rows: RowFormat, events: int, given_out: Sequence[int], skip: bool
) -> None:
    """No row that comes gets an offset below those of ``given_out``, by log, which a reader knows.

    Raises:
        DataLoss: OFFSET_AHEAD where a log ends before them, unless ``skip``: then it goes on behind
            them. And as `give_up`.
    """
    for number, (known, end) in enumerate(zip(given_out, spool.ends(), strict=False)):
        if known <= end:
            continue
        if not skip:
            raise offset_ahead(spool.directory, number, known, end)
        reason = "failOnDataLoss=false, and a query has read what this copy of the spool lacks"
        give_up(spool, rows, events, number, end, known, reason)


class SkipListener:
    """Brings one event and is called when it is on the disk."""

    def __init__(self, recorded: Callable[[], None]) -> None:
        self._recorded = recorded

    def pending(self, event: LoggedEvent) -> PendingEvent:
        return PendingEvent(self, event, confirms=True)

    def recorded(self, channels: Sequence[int]) -> None:
        self._recorded()

    def durable(self, receipts: list[Receipt]) -> None:
        pass

    def dropped(self, receipt: Receipt) -> None:
        pass

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        pass

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def failed(self) -> None:
        log.exception("the caller could not take that its event is recorded")

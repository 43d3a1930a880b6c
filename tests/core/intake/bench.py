"""A group commit over a real spool, whose timers fire when the test says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.sessions.channel_owners import ChannelOwners
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.intake.storage.pending import Receipt
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings
from tests.core.logs.periods import Periods


class Peer:
    """A connection: what became durable of it, what was dropped, and whether it rests."""

    def __init__(self) -> None:
        self.acked: list[Receipt] = []
        self.lost: list[Receipt] = []
        self.finished: list[int] = []
        self.resting = 0
        self.failures = 0

    def durable(self, receipts: list[Receipt]) -> None:
        self.acked += receipts

    def dropped(self, receipt: Receipt) -> None:
        self.lost.append(receipt)

    def recorded(self, channels: list[int]) -> None:
        self.finished += channels

    def pause(self) -> None:
        self.resting += 1

    def resume(self) -> None:
        self.resting -= 1

    def failed(self) -> None:
        self.failures += 1


class Bench:
    """A group commit over a real spool, with timers that fire when the test says so."""

    def __init__(self, spool: Spool, group_bytes: int = 1 << 20, rows: RowFormat = ROWS) -> None:
        self.spool = spool
        self._format = rows
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.failures: list[AqueductError] = []
        self._events: list[dict[str, Any]] = []
        self.groups = GroupCommit(
            spool,
            rows,
            [0] * spool.partitions,
            group_bytes=group_bytes,
            group_seconds=0.02,
            later=lambda seconds, call: self.timers.append((seconds, call)),
            failed=self.failures.append,
        )
        self.owners = ChannelOwners(
            self.groups.numbers.owner, lambda *key: self.groups.numbers.position(*key).next
        )
        self.refusals = RefusalLog(logging.getLogger(__name__), Periods())
        spool.on_durable = self.groups.made_durable

    def fire(self) -> None:
        due, self.timers = self.timers, []
        for _, call in due:
            call()

    def pump(self) -> None:
        try:
            self.spool.pump()
        except AqueductError as error:
            self.groups.fail(error)

    def settle(self) -> None:
        self.fire()
        self.pump()

    def rows(self) -> list[dict[str, Any]]:
        """Of messages that are durable and still stored."""
        starts = self.spool.starts()
        return [
            row
            for partition, end in enumerate(self.spool.ends()[:-1])
            for batch in self.spool.read(partition, starts[partition], end)
            for row in self._format.expand(batch, partition, 0, True, True).to_pylist()
        ]

    def pass_all(self) -> None:
        """A query is done with all messages; events that go with them stay known here."""
        self.events()
        self.spool.commit("query", [*self.spool.ends()[:-1], None])

    def events(self) -> list[dict[str, Any]]:
        """All events that became durable so far."""
        log = self.spool.partitions - 1
        for batch in self.spool.read(log, len(self._events), self.spool.ends()[log]):
            self._events += self._format.expand_events(batch, log, len(self._events)).to_pylist()
        return list(self._events)

    def values(self) -> list[Any]:
        return [row["value"] for row in self.rows()]


@contextmanager
def bench(
    directory: Path,
    *,
    partitions: int = 1,
    max_bytes: int = 1 << 30,
    group_bytes: int = 1 << 20,
    rows: RowFormat = ROWS,
    **more: int,
) -> Iterator[Bench]:
    """``more``: settings of the spool."""
    spool = Spool.open(
        directory,
        schema=rows.schema,
        partitions=partitions + 1,
        settings=SpoolSettings(max_bytes=max_bytes, owed_partitions=partitions, **more),
        sync=InlineSync,
    )
    with spool:
        yield Bench(spool, group_bytes, rows)

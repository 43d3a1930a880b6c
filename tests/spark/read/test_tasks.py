"""What tasks read, from whatever intake serves the rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from msgspec import structs

from aqueduct_core.errors import AqueductError, DataLoss, IntakeFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS, row_schema
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_spark.formats.aqueduct.options import AqueductRead
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.intakes.rendezvous import Registration
from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.model.partitions import DataPartition
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.read import gaps, tasks
from tests.spark.ground import Ground
from tests.spark.producing import numbered, produce
from tests.support.waiting import LONG


class TestRows:
    """Reading a range: exactly its rows, from whatever intake serves them."""

    @pytest.fixture
    def held(self, ground: Ground) -> Registration:
        held = ground.ensure()
        produce(f"aqueduct://{held.listen}", numbered(1_000), name="x")
        return held

    def partition(self, ground: Ground, held: Registration, **changes: object) -> DataPartition:
        with IntakeClient(held.at, ground.credentials) as client:
            ends = client.status().ends
        fullest = max(range(len(ends)), key=lambda p: ends[p])
        rows = DataRange(0, held.id, held.at, fullest, 0, ends[fullest])
        partition = DataPartition(rows, ground.order(), fetch_timeout=LONG, lenient=False)
        return replace(partition, **changes)  # type: ignore[arg-type]

    def read(self, partition: DataPartition) -> pa.Table:
        rows = tasks.rows(partition, RowOptions(own=AqueductRead()), AqueductRows())
        return pa.Table.from_batches(list(rows), schema=row_schema(False, False))

    def test_a_range_is_its_rows_each_time(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        assert table["offset"].to_pylist() == list(range(partition.rows.stop))
        assert self.read(partition).equals(table)
        part = replace(partition, rows=replace(partition.rows, first=17, stop=423))
        assert self.read(part).equals(table.slice(17, 406))

    def test_a_lost_intake_is_started_by_the_task(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        ground.kill(held.pid)
        with ThreadPoolExecutor(2) as pool:
            again = list(pool.map(self.read, [partition, partition]))
        assert all(one.equals(table) for one in again)
        assert ground.rendezvous.registered()[0].epoch > held.epoch

    def test_reading_goes_on_behind_the_last_row(
        self, ground: Ground, held: Registration, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        real = gaps.rows_of
        broken: list[int] = []

        def breaks_once(
            client: IntakeClient, ticket: Ticket, schema: pa.Schema, leave_out: Collection[str]
        ) -> Iterator[pa.RecordBatch]:
            for batch in real(client, ticket, schema, leave_out):
                if broken:
                    yield batch
                    continue
                broken.append(batch.num_rows // 2)
                yield batch.slice(0, batch.num_rows // 2)
                raise IntakeFailed("UNREACHABLE", "the connection broke", "Try again")

        monkeypatch.setattr(gaps, "rows_of", breaks_once)
        assert self.read(partition).equals(table)
        assert broken

    def test_rows_that_are_gone_fail_the_task_or_are_left_out(
        self, ground: Ground, held: Registration
    ) -> None:
        partition = self.partition(ground, held)
        beyond = replace(partition.rows, stop=partition.rows.stop + 5)
        with pytest.raises(DataLoss):
            self.read(replace(partition, rows=beyond))
        ahead = replace(partition, rows=replace(beyond, first=beyond.stop - 2), lenient=True)
        assert self.read(ahead).num_rows == 0

    def test_an_address_that_another_intake_has_now_is_no_loss(
        self, ground: Ground, held: Registration
    ) -> None:
        partition = self.partition(ground, held)
        table = self.read(partition)
        other = ground.ensure(ground.other_order(1))
        moved = replace(partition, rows=replace(partition.rows, at=other.at))
        assert self.read(moved).equals(table)
        foreign = replace(moved, rows=replace(moved.rows, spool="gone"))
        with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
            self.read(foreign)
        with pytest.raises(DataLoss, match="lostSpools=gone"):
            self.read(replace(foreign, lenient=True))

    def test_fault_42_another_spool_on_this_host_says_nothing_of_others(
        self, ground: Ground, held: Registration
    ) -> None:
        """It may be the one of an earlier query, and ours on the disk of a host that restarts."""
        partition = self.partition(ground, held, fetch_timeout=1.0)
        table = self.read(partition)
        ground.kill(held.pid)
        home = ground.home / "intake-0"
        home.rename(ground.home / "elsewhere")
        settle_layout(home, 2)
        Spool.open(home, schema=ROWS.schema, partitions=3, sync=InlineSync).close()
        order = ground.order(lock_timeout=0.1)
        with pytest.raises(DataLoss, match=f"SPOOL_REPLACED.*lostSpools={held.id}"):
            self.read(replace(partition, order=order, lenient=True))
        home.rename(ground.home / "of another query")
        (ground.home / "elsewhere").rename(home)
        assert self.read(replace(partition, lenient=True, fetch_timeout=LONG)).equals(table)

    def test_a_task_does_not_wait_for_ever(self, ground: Ground, held: Registration) -> None:
        partition = self.partition(ground, held, fetch_timeout=0.1)
        ground.kill(held.pid)
        settings = ground.order().settings
        unusable = structs.replace(settings, listen="192.0.2.1:1", flight="192.0.2.1:1")
        with pytest.raises(AqueductError):
            self.read(replace(partition, order=ground.order(settings=unusable)))

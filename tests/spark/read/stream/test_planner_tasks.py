"""The tasks of a batch: the same ones whenever it is planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aqueduct_spark.model.partitions import DataPartition
from aqueduct_spark.read.stream import measuring
from tests.spark.producing import produce
from tests.spark.read.stream.loop import Loop, Yard, begun, data_places, read, stored, values
from tests.support.waiting import wait_until


class TestPlans:
    """A batch has the same data tasks at the same places whenever it is planned."""

    def written(self, yard: Yard, **options: str) -> tuple[Loop, list[bytes]]:
        """A query that has read 6 MB in one batch, the last of its ``batches``."""
        loop = begun(yard, groupCommit="1ms", **options)
        payloads = [b"%06d" % n * 2000 for n in range(500)]
        produce(yard.url(), payloads)
        wait_until(lambda: stored(yard) >= 500, 30, "6 MB in the spool")
        assert values(loop.until(500)) == payloads
        return loop, payloads

    def test_in_every_life_of_the_driver(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        """The intake is gone, so launches are due; sizes are not known, options are others."""
        loop, payloads = self.written(yard, maxBytesPerPartition="1m", minPartitions="3")
        batch = loop.batches[-1]
        places = data_places(loop, batch)
        assert [place for place, _ in places] == list(range(len(places)))
        assert 6 <= len(places) <= 10
        loop.close()
        yard.kill()
        monkeypatch.setattr(measuring, "stored_sizes", lambda *_: None)
        for options in (
            {"maxBytesPerPartition": "1m", "minPartitions": "3"},
            {"minPartitions": "40"},
            {"maxRecordsPerPartition": "7", "numIntakes": "3"},
            {"maxBytesPerPartition": "100k"},
            {},
        ):
            again = yard.loop(loop.at, **options)
            assert data_places(again, batch) == places
            again.close()
        last = yard.loop(loop.at)
        assert len(last.planner.partitions(*batch)) == len(places)
        assert values(last.run(*batch)) == payloads

    def test_a_batch_of_an_older_checkpoint_is_split_as_the_options_say(self, yard: Yard) -> None:
        loop, payloads = self.written(yard)
        start, end = loop.batches[-1]
        assert len(data_places(loop, (start, end))) == 1
        loop.close()
        again = yard.loop(loop.at, maxRecordsPerPartition="100")
        old = replace(end, cuts=None)
        assert len(data_places(again, (start, old))) == 6
        assert values(again.run(start, old)) == payloads

    def test_a_data_task_needs_no_launch_task(self, yard: Yard) -> None:
        """A batch that is repeated has none, and the first of its tasks has the intake back."""
        loop, payloads = self.written(yard, maxRecordsPerPartition="100")
        batch = loop.batches[-1]
        loop.close()
        yard.kill()
        again = yard.loop(loop.at)
        planned = again.planner.partitions(*batch)
        parts = [part for part in planned if isinstance(part, DataPartition)]
        assert parts == planned
        rows = [row for part in parts for row in read(part, again.options)]
        assert values(rows) == payloads

"""What a streaming query reads, whatever happens to its intakes: real intakes, no Spark."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.errors import ChannelEnded, DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.storage.event_rows import expand_events
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.intake.storage.schema import SPOOL_SCHEMA
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from aqueduct_spark.intakes import cursor_leases, launch
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder
from aqueduct_spark.planning.ranges import DataRange
from aqueduct_spark.read.stream import sizes
from tests.spark.producing import Flow, numbered, produce
from tests.spark.read.batch.test_bounds import read as batch_read
from tests.spark.read.stream.loop import Loop, Yard, read, values
from tests.support.remote import RemoteThread, Script
from tests.support.waiting import LONG, SOON, wait_until


def begun(yard: Yard, **options: str) -> Loop:
    """A query whose intake runs."""
    loop = yard.loop(**options)
    while not loop.at.spool:
        loop.batch()
    return loop


def test_rows_come_once_and_in_order(yard: Yard) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(500))
    assert values(loop.until(500)) == numbered(500)
    assert loop.batch() == []  # the tick that brings the commit
    assert loop.batch() is None
    reach = loop.planner.reach()
    assert reach is not None
    assert reach.spool == loop.at.spool
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        assert client.status().committed == {"query": loop.at.spool[0].to}


def test_fault_36_queries_of_different_cursors_share_an_intake(yard: Yard) -> None:
    first = begun(yard, retention="0s")
    slow = begun(yard, cursor="slow")
    pid = yard.intake()["pid"]
    produce(yard.url(), numbered(300))
    assert values(first.until(300)) == numbered(300)
    while first.batch() is not None:
        pass
    assert values(slow.until(300)) == numbered(300)
    assert yard.intake()["pid"] == pid


def test_fault_32_one_cursor_has_one_query(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_leases, "TAKE_OVER", 0.5)
    first = begun(yard)
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        begun(yard)
    first.close()
    again = yard.loop(first.at)
    produce(yard.url(), numbered(10))
    assert values(again.until(10)) == numbered(10)


def test_events_are_rows_with_offsets_of_their_own(yard: Yard) -> None:
    loop = begun(yard, view="events")
    produce(yard.url(), numbered(20), producer="p")
    seen: list[str] = []
    while "disconnected" not in seen:
        loop.batch()
        seen = [row["kind"] for row in loop.rows]
    [finished] = [
        row for row in loop.rows if row["kind"] == "finished" and row["channel"] == "readings"
    ]
    assert finished["counts"]["reliableStored"] == 20
    assert finished["producer"] == "p"
    assert [row["offset"] for row in loop.rows] == list(range(len(loop.rows)))
    assert {row["partition"] for row in loop.rows} == {2}
    assert len(loop.at.spool[0].to) == 1
    # The same rows again, also when the intake has to be started for them.
    yard.kill()
    start, end = loop.batches[0][0], loop.at
    start = next(s for s, _ in loop.batches if s.spool)
    assert loop.run(start, end) == loop.rows


def test_a_batch_is_within_its_limits(yard: Yard) -> None:
    loop = begun(yard, maxOffsetsPerTrigger="100")
    produce(yard.url(), numbered(450))
    loop.until(450)
    assert max(sum(e.spool[0].to) - sum(s.spool[0].to) for s, e in loop.batches if s.spool) == 100


def test_a_batch_is_within_its_bytes(yard: Yard) -> None:
    loop = begun(yard, maxBytesPerTrigger="2m", groupCommit="1ms")
    payloads = [b"%06d" % n * 2000 for n in range(1000)]  # 12 MB
    produce(yard.url(), payloads)
    assert values(loop.until(1000)) == payloads
    counts = [sum(e.spool[0].to) - sum(s.spool[0].to) for s, e in loop.batches if s.spool]
    assert 100 <= max(counts) <= 250
    assert len([count for count in counts if count]) >= 5


def test_one_message_goes_through_whatever_the_limit(yard: Yard) -> None:
    loop = begun(yard, maxBytesPerTrigger="1k")
    payloads = [bytes([n]) * 50_000 for n in range(5)]
    produce(yard.url(), payloads)
    assert values(loop.until(5)) == payloads


def test_few_messages_wait_for_more(yard: Yard) -> None:
    loop = begun(yard, minOffsetsPerTrigger="50", maxTriggerDelay="1h")
    produce(yard.url(), numbered(10))
    began = time.monotonic()
    assert loop.batch() is None
    assert time.monotonic() - began < SOON
    produce(yard.url(), numbered(60), name="more")
    loop.until(70)


def test_few_messages_do_not_wait_for_ever(yard: Yard) -> None:
    loop = begun(yard, minOffsetsPerTrigger="50", maxTriggerDelay="1500ms")
    produce(yard.url(), numbered(10))
    began = time.monotonic()
    loop.until(10)
    assert time.monotonic() - began >= 1.4


def test_a_query_that_starts_at_a_time(yard: Yard) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(100), name="old")
    first.until(100)
    moment = datetime.now(UTC)
    produce(yard.url(), numbered(50), name="new")
    first.until(150)
    late = begun(yard, cursor="late", startingTimestamp=moment.isoformat())
    assert {row["channel"] for row in late.until(50)} == {"new"}


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
        monkeypatch.setattr(sizes, "stored_sizes", lambda *_: None)
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


def data_places(
    loop: Loop, batch: tuple[StreamOffset, StreamOffset]
) -> list[tuple[int, DataRange]]:
    """The ranges of the data tasks of a batch, each with its place among all tasks."""
    planned = loop.planner.partitions(*batch)
    return [(n, part.rows) for n, part in enumerate(planned) if isinstance(part, DataPartition)]


def stored(yard: Yard) -> int:
    """Messages of the intake that runs."""
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        return sum(client.status().ends)


def restored(yard: Yard) -> StreamOffset:
    """What a query of one partition has read, of whose spool an old copy was put back since."""
    loop = begun(yard, partitionsPerIntake="1")
    produce(yard.url(), numbered(20))
    loop.until(20)
    loop.close()
    yard.kill()
    shutil.copytree(yard.spool, yard.home / "copy")
    loop = yard.loop(loop.at, partitionsPerIntake="1")
    while not loop.planner._fleet.statuses():
        loop.batch()
    produce(yard.url(), numbered(30), name="second")
    loop.until(30)
    loop.close()
    yard.kill()
    shutil.rmtree(yard.spool)
    shutil.copytree(yard.home / "copy", yard.spool)
    return loop.at


def test_an_intake_of_an_old_copy_stores_nothing_under_offsets_that_were_read(yard: Yard) -> None:
    """Else the query would go on by itself, behind rows that were acked, once there are enough."""
    at = restored(yard)
    old = yard.intake()
    again = yard.loop(at, partitionsPerIntake="1")
    with pytest.raises(DataLoss, match="OFFSET_AHEAD") as ahead:
        again.until(1)
    again.close()
    assert yard.intake() == old  # nobody could bring anything
    command = shlex.split(ahead.value.remedy.partition("with: aqueduct ")[2])
    assert main(command) == 0
    again = yard.loop(at, partitionsPerIntake="1")
    while not again.planner._fleet.statuses():
        again.batch()
    produce(yard.url(), numbered(50), name="third")
    assert values(again.until(50), "third") == numbered(50)


def test_an_intake_of_an_old_copy_goes_on_behind_what_was_read(yard: Yard) -> None:
    """With failOnDataLoss=false; a producer that has waited for it brings its rows before the query
    looks again."""
    at = restored(yard)
    old = yard.intake()
    again = yard.loop(at, partitionsPerIntake="1", failOnDataLoss="false")
    while yard.intake() == old:
        again.batch()
    produce(yard.url(), numbered(25), name="third")
    assert values(again.until(25), "third") == numbered(25)
    events = yard.loop(view="events", partitionsPerIntake="1", failOnDataLoss="false")
    events.to_the_end()
    (told,) = [event for event in events.rows if event["kind"] == "skipped"]
    assert told["last"] == at.spool[0].to[0] - 1
    assert "failOnDataLoss=false" in told["reason"]


def test_latest_of_an_intake_that_the_query_launches_is_its_start(yard: Yard) -> None:
    """Else what a producer brings before the query looks again is acked and never read."""
    first = begun(yard)
    produce(yard.url(), numbered(10), name="before")
    first.until(10)
    first.close()
    yard.kill()
    second = yard.loop(startingOffsets="latest", cursor="second")
    assert second.batch() == []  # it launches
    produce(yard.url(), numbered(20))
    assert values(second.until(20)) == numbered(20)
    third = begun(yard, startingOffsets="latest", cursor="third")  # whose intake runs already
    produce(yard.url(), numbered(5), name="after")
    assert values(third.until(5), "after") == numbered(5)
    assert {row["channel"] for row in third.messages()} == {"after"}
    assert {row["channel"] for row in second.messages()} == {"readings"}


class TestCancels:
    """``onCancel=fail``, with a remote that cancels."""

    def loop(self, yard: Yard, remote: RemoteThread, **options: str) -> Loop:
        return yard.loop(
            endpoint=remote.url, tls_caFile=str(remote.ca_file), subscribe="a,b", **options
        )

    def test_a_cancelled_channel_ends_the_query_each_time(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail")
            with pytest.raises(ChannelEnded, match="'b'") as ended:
                loop.until(99)
            assert ended.value.subclass == "CANCELLED"
            loop.close()
            again = yard.loop(
                loop.at,
                endpoint=remote.url,
                tls_caFile=str(remote.ca_file),
                subscribe="a,b",
                onCancel="fail",
            )
            with pytest.raises(ChannelEnded, match="'b'"):
                again.until(99)

    def test_cancels_of_channels_that_are_not_wanted_are_passed_over(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail", channels="a")
            assert values(loop.until(5), "a") == [b"a %d" % n for n in range(5)]

    def test_a_cancel_that_cannot_be_read_is_not_passed_over(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="cancel")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="keep")
            loop.until(8)
            loop.close()
            credentials = Credentials.for_spool(yard.spool)
            with IntakeClient(yard.intake()["flight"], credentials) as client:

                def cancelled() -> bool:
                    status = client.status()
                    asked = Ticket(status.id, len(status.ends), *status.events)
                    batches = [expand_events(each, 0) for each in client.read(asked)]
                    return any("cancelled" in each.column("kind").to_pylist() for each in batches)

                wait_until(cancelled, LONG, "the event of the cancel")
                status = client.status()
                for piece in client.locations(Ticket(status.id, len(status.ends), *status.events)):
                    with Path(piece.path).open("r+b") as file:
                        file.seek(piece.position + piece.length - 20)
                        file.write(b"damage")
            again = yard.loop(
                loop.at,
                endpoint=remote.url,
                tls_caFile=str(remote.ca_file),
                subscribe="a,b",
                onCancel="fail",
            )
            with pytest.raises(SpoolFailed, match=r"CORRUPT.*aqueduct spool skip"):
                again.until(8)

    def test_a_query_that_keeps_them_again_leaves_no_cursor_behind(self, yard: Yard) -> None:
        scripts = {"a": Script(5, end="stay"), "b": Script(3, end="stay")}
        with RemoteThread(scripts, yard.home) as remote:
            loop = self.loop(yard, remote, onCancel="fail")
            loop.until(8)
            credentials = Credentials.for_spool(yard.spool)
            with IntakeClient(yard.intake()["flight"], credentials) as client:
                assert list(client.status().events_committed) == ["query.cancels"]
                loop.close()
                again = yard.loop(
                    loop.at, endpoint=remote.url, tls_caFile=str(remote.ca_file), subscribe="a,b"
                )
                again.batch()
                assert client.status().events_committed == {}


def test_endpoints_are_spread_over_intakes(yard: Yard, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with (
        RemoteThread({"a": Script(40)}, one) as first,
        RemoteThread({"a": Script(30)}, two) as second,
    ):
        loop = yard.loop(
            endpoint=f"aqueduct://{first.endpoint},{second.endpoint}",
            tls_insecure="true",
            subscribe="a",
            numIntakes="2",
        )
        loop.until(70)
        assert sorted(sum(p.to) for p in loop.at.spool.values()) == [30, 40]


def test_a_new_query_with_the_cursor_of_an_old_one_begins_anew(yard: Yard) -> None:
    old = begun(yard)
    produce(yard.url(), numbered(100))
    old.until(100)
    while old.batch() is not None:
        pass
    old.close()
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
        client.give_cursor("query")  # an operator's act; else the new one is refused
        new = begun(yard)
        assert client.status().committed["query"] == (0, 0)
    assert values(new.until(100)) == numbered(100)


def test_an_intake_that_is_lost_does_not_hold_up_the_others(yard: Yard) -> None:
    loop = yard.loop(numIntakes="2")
    while len(loop.at.spool) < 2:
        loop.batch()
    produce(yard.url(0), numbered(100), name="one")
    produce(yard.url(1), numbered(100), name="two")
    loop.until(200)
    yard.kill(1)
    produce(yard.url(0), numbered(50), name="three")
    epoch = loop.at.spool[1].epoch
    loop.until(250)
    while loop.at.spool[1].epoch == epoch:
        loop.batch()
    produce(yard.url(1), numbered(50), name="four")
    loop.until(300)
    for name, count in (("one", 100), ("two", 100), ("three", 50), ("four", 50)):
        assert values(loop.rows, name) == numbered(count)


def test_an_intake_that_is_halted_is_waited_for(yard: Yard) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(100))
    loop.until(100)
    pid = yard.intake()["pid"]
    os.kill(pid, signal.SIGSTOP)
    again = threading.Timer(8.0, os.kill, args=(pid, signal.SIGCONT))
    again.start()
    launches = loop.at.launch
    while loop.at.launch == launches:
        loop.batch()  # it counts as lost, and the task that is to start it waits for it
    again.join()
    produce(yard.url(), numbered(50), name="more")
    assert values(loop.until(150), "more") == numbered(50)
    assert yard.intake()["pid"] == pid


def test_a_spool_that_is_on_another_host_is_found(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(100))
    loop.until(100)
    yard.kill()
    asked: list[int] = []
    real = launch._is_here

    def is_here(order: LaunchOrder) -> bool:
        asked.append(order.intake)
        return len(asked) > 4 and real(order)  # the first tasks run on other hosts

    monkeypatch.setattr(launch, "_is_here", is_here)
    epoch = loop.at.spool[0].epoch
    while loop.at.spool[0].epoch == epoch:
        loop.batch()
    assert loop.at.spool[0].id == loop.batches[-2][0].spool[0].id
    produce(yard.url(), numbered(50), name="more")
    loop.until(150)


class TestAvailableNow:
    """A query that ends with what is there, always."""

    def test_it_ends_and_is_committed(self, yard: Yard) -> None:
        first = begun(yard)
        produce(yard.url(), numbered(100))
        first.close()
        now = yard.loop(first.at, minOffsetsPerTrigger="1000", maxOffsetsPerTrigger="1000")
        assert values(now.to_the_end()) == numbered(100)
        with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
            assert client.status().committed["query"] == now.at.spool[0].to

    def test_a_flood_does_not_keep_it(self, yard: Yard) -> None:
        first = begun(yard)
        first.close()
        with Flow(yard.url(), pause=0.0) as flow:
            now = yard.loop(first.at, maxOffsetsPerTrigger="50")
            now.to_the_end()
            sent = flow.messages
            wait_until(lambda: flow.messages > sent, LONG, "more of the flood")
            flow.finish()

    def test_an_intake_that_dies_is_started_again(self, yard: Yard) -> None:
        first = begun(yard)
        produce(yard.url(), numbered(100))
        first.close()
        now = yard.loop(first.at, maxOffsetsPerTrigger="10")
        now.planner.available_now()
        while len(now.messages()) < 30:
            now.batch()
        yard.kill()
        assert values(now.to_the_end()) == numbered(100)

    def test_a_new_query_ends(self, yard: Yard) -> None:
        assert yard.loop().to_the_end() == []


@pytest.mark.parametrize("lossy", ["true", "false"])
@pytest.mark.parametrize(
    "place", ["no directory", pytest.param("the place of a mount", marks=pytest.mark.long)]
)
def test_fault_42_a_spool_out_of_sight_costs_no_row(yard: Yard, place: str, lossy: str) -> None:
    """The intake is killed and the volume hidden, whatever failOnDataLoss says: the query fails,
    and goes on with every row when the volume is back."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    yard.kill()
    home, hidden = yard.spool / "intake-0", yard.home / "hidden"
    home.rename(hidden)
    if place == "the place of a mount":
        home.mkdir()
    hiding = yard.loop(loop.at, launchTimeout="1s", failOnDataLoss=lossy)
    with pytest.raises(IntakeFailed, match="UNREACHABLE"):
        hiding.until(1)
    assert hiding.at.spool == loop.at.spool
    hiding.close()
    assert [path.name for path in yard.spool.glob("intake-0/*")] == []
    if place == "the place of a mount":
        home.rmdir()
    hidden.rename(home)
    back = yard.loop(loop.at, failOnDataLoss=lossy)
    assert values(loop.messages() + back.until(60 - len(loop.messages()))) == numbered(60)


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_a_task_without_its_spool_fails(yard: Yard, lossy: str) -> None:
    """Whatever failOnDataLoss says: it does not succeed without its rows."""
    loop = begun(yard, failOnDataLoss=lossy)
    produce(yard.url(), numbered(30))
    loop.until(30)
    planned = loop.planner.partitions(*loop.batches[-1])
    parts = [part for part in planned if isinstance(part, DataPartition)]
    yard.kill()
    hidden = yard.home / "hidden"
    (yard.spool / "intake-0").rename(hidden)
    for part in parts:
        assert part.order is not None
        order = replace(part.order, lock_timeout=0.5)
        with pytest.raises(IntakeFailed, match=r"UNREACHABLE.*not in sight"):
            read(replace(part, order=order), loop.options)
    hidden.rename(yard.spool / "intake-0")
    rows = [row for part in parts for row in read(part, loop.options)]
    assert len(rows) == sum(part.rows.stop - part.rows.first for part in parts)


@pytest.mark.parametrize("lossy", ["true", "false"])
def test_fault_42_another_spool_in_its_place_is_no_proof_of_loss(yard: Yard, lossy: str) -> None:
    """That of an earlier query, on a host where ours never was: ours comes back with its rows."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    yard.kill()
    home, hidden = yard.spool / "intake-0", yard.home / "elsewhere"
    home.rename(hidden)
    settle_layout(home, 2)
    Spool.open(home, schema=SPOOL_SCHEMA, partitions=3, sync=InlineSync).close()
    hiding = yard.loop(loop.at, launchTimeout="1s", failOnDataLoss=lossy)
    with pytest.raises(DataLoss, match="SPOOL_REPLACED") as failed:
        hiding.until(60)
    known = loop.at.spool[0].id
    assert f"lostSpools={known}" in failed.value.remedy
    hiding.close()
    home.rename(yard.home / "of an earlier query")
    hidden.rename(home)
    back = yard.loop(loop.at, failOnDataLoss=lossy)
    assert values(loop.messages() + back.until(60 - len(loop.messages()))) == numbered(60)


@pytest.mark.parametrize("place", ["another spool", "nothing"])
def test_fault_42_a_spool_is_given_up_by_its_name(yard: Yard, place: str) -> None:
    """The act of a person: the query goes on with another spool, from a batch that cannot be done
    again any more, and with nothing but what it had read of the lost one."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    start, end = loop.batches[-1]
    places = len(data_places(loop, (start, end)))
    loop.close()
    yard.kill()
    home = yard.spool / "intake-0"
    home.rename(yard.home / "elsewhere")
    if place == "another spool":
        settle_layout(home, 2)
        Spool.open(home, schema=SPOOL_SCHEMA, partitions=3, sync=InlineSync).close()
    known = loop.at.spool[0].id
    after = yard.loop(start, lostSpools=f"other, {known}")
    planned = after.planner.partitions(start, end)
    parts = [part for part in planned if isinstance(part, DataPartition)]
    assert len(parts) == places
    assert [row for part in parts for row in read(part, after.options)] == []
    after.at = end
    while after.at.spool[0].id == known:
        after.batch()
    produce(yard.url(), numbered(20), name="new")
    assert values(after.until(20), "new") == numbered(20)
    after.close()
    # it is in the offsets from then on: the option has done its work
    again = yard.loop(after.at)
    produce(yard.url(), numbered(5), name="later")
    assert values(again.until(5), "later") == numbered(5)


def test_fault_42_a_spool_that_was_given_up_too_early_is_read(yard: Yard) -> None:
    """Its intake answers after all."""
    loop = begun(yard, maxOffsetsPerTrigger="20")
    produce(yard.url(), numbered(60))
    loop.until(20)
    loop.close()
    again = yard.loop(loop.at, lostSpools=loop.at.spool[0].id, failOnDataLoss="false")
    assert values(loop.messages() + again.until(60 - len(loop.messages()))) == numbered(60)


def flipped(spool: Path, partition: int, offset: int) -> None:
    """One bit in the record of a row."""
    with SpoolReader(spool) as reader:
        [piece] = reader.locations(partition, offset, offset + 1)
    at = piece.position + piece.length // 2
    with Path(piece.path).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 8]))


@pytest.mark.parametrize("intake", ["runs", "ended"])
def test_fault_19_a_damaged_batch_is_passed_by_an_explicit_act(
    yard: Yard, intake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query fails naming the command; the command is run, and the same query goes on from its
    checkpoint with all other rows, once. An event tells of it."""
    given = {"partitionsPerIntake": "1", "maxOffsetsPerTrigger": "40", "retention": "1h"}
    loop = begun(yard, **given)
    payloads = numbered(80)
    for first in range(0, 80, 20):
        produce(yard.url(), payloads[first : first + 20], name=f"r{first}")
    loop.until(20)
    loop.close()
    yard.kill()
    flipped(yard.spool / "intake-0", 0, 50)
    broken = yard.loop(loop.at, **given)
    with pytest.raises(SpoolFailed, match="aqueduct spool skip") as failed:
        broken.until(80)
    assert failed.value.subclass == "CORRUPT"
    broken.close()
    if intake == "ended":
        yard.kill()
    command = shlex.split(failed.value.remedy.partition("aqueduct spool skip ")[2])
    assert main(["spool", "skip", *command, "--reason", "a bad disk"]) == 0
    assert main(["spool", "skip", *command]) == 0
    assert "skipped already" in capsys.readouterr().out
    _, _, partition, _, low, _, high = command
    with SpoolReader(yard.spool / "intake-0") as reader:
        end = reader.ends()[0]
    after = yard.loop(broken.at, **given)
    while after.at.spool[0].to[0] < end:
        after.batch()
    rows = loop.rows + broken.rows + after.rows
    left = [n for n in range(end) if not int(low) <= n < int(high)]
    assert [row["offset"] for row in rows] == left
    assert 0 < int(high) - int(low) < end
    got = [row["value"] for row in rows if row["channel"] != "0"]
    assert set(got) < set(payloads)
    assert len(set(got)) == len(got)
    produce(yard.url(), [b"more"], name="more")
    assert after.until(len(after.messages()) + 1)[-1]["value"] == b"more"
    # what other readers make of it
    assert main(["spool", "verify", str(yard.spool)]) == 0
    assert main(["spool", "cat", str(yard.spool)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]
    assert sum(line["type"] == "skipped" for line in lines) == 1
    stored = [line["value"].encode() for line in lines if line.get("name", "0")[0] == "r"]
    assert stored == got
    assert main(["spool", "cat", str(yard.spool), "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [told] = [event for event in events if event["kind"] == "skipped"]
    assert (told["first"], told["last"]) == (int(low), int(high) - 1)
    assert told["reason"] == f"partition {partition}: a bad disk"
    assert [value for _, _, value in batch_read(yard.spool) if value in payloads] == got

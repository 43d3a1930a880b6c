"""What a streaming query reads, whatever happens to its intakes: real intakes, no Spark."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aqueduct_core.errors import ChannelEnded, DataLoss, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder, LaunchPartition
from aqueduct_spark.receivers import claims, launch
from tests.spark.loop import Loop, Yard, read, values
from tests.spark.producing import Flow, numbered, produce
from tests.support.remote import RemoteThread, Script
from tests.support.waiting import LONG, SOON, wait_until


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(tmp_path)
    yield yard
    yard.close()


def begun(yard: Yard, **options: str) -> Loop:
    """A query whose intake runs."""
    loop = yard.loop(**options)
    while not loop.at.spool:
        loop.batch()
    return loop


def data_parts(loop: Loop) -> list[DataPartition]:
    """The data tasks of the last batch, planned again."""
    planned = loop.planner.partitions(*loop.batches[-1])
    return [part for part in planned if isinstance(part, DataPartition)]


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
    monkeypatch.setattr(claims, "TAKE_OVER", 0.5)
    first = begun(yard)
    with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
        begun(yard)
    first.close()
    second = begun(yard)
    produce(yard.url(), numbered(10))
    assert values(second.until(10)) == numbered(10)


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


def test_tasks_are_split_and_the_same_when_repeated(yard: Yard) -> None:
    loop = begun(yard, maxBytesPerPartition="1m", minPartitions="3", groupCommit="1ms")
    payloads = [b"%06d" % n * 2000 for n in range(500)]  # 6 MB
    produce(yard.url(), payloads)
    loop.planner.partitions(loop.at, loop.at)
    loop.until(500)
    start, end = next(s for s, _ in loop.batches if s.spool), loop.at
    loop.batches.append((start, end))
    parts = data_parts(loop)
    assert 6 <= len(parts) <= 10
    rows = [row for part in parts for row in read(part, loop.options)]
    assert values(rows) == payloads
    yard.kill()
    again = yard.loop(loop.at, maxBytesPerPartition="1m", minPartitions="3", groupCommit="1ms")
    again.batches.append((start, end))
    planned = again.planner.partitions(start, end)
    # The intake is launched in the batch that needs it, and the tasks are those of before.
    assert isinstance(planned[0], LaunchPartition)
    assert [part.rows for part in planned[1:] if isinstance(part, DataPartition)] == [
        part.rows for part in parts
    ]
    assert values(again.run(start, end)) == payloads


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
    new = begun(yard)
    with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
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
        now = yard.loop(minOffsetsPerTrigger="1000", maxOffsetsPerTrigger="1000")
        assert values(now.to_the_end()) == numbered(100)
        with IntakeClient(yard.intake()["flight"], Credentials.for_spool(yard.spool)) as client:
            assert client.status().committed["query"] == now.at.spool[0].to

    def test_a_flood_does_not_keep_it(self, yard: Yard) -> None:
        first = begun(yard)
        first.close()
        with Flow(yard.url(), pause=0.0) as flow:
            now = yard.loop(maxOffsetsPerTrigger="50")
            now.to_the_end()
            sent = flow.messages
            wait_until(lambda: flow.messages > sent, LONG, "more of the flood")
            flow.finish()

    def test_an_intake_that_dies_is_started_again(self, yard: Yard) -> None:
        first = begun(yard)
        produce(yard.url(), numbered(100))
        first.close()
        now = yard.loop(maxOffsetsPerTrigger="10")
        now.planner.available_now()
        while len(now.messages()) < 30:
            now.batch()
        yard.kill()
        assert values(now.to_the_end()) == numbered(100)

    def test_a_new_query_ends(self, yard: Yard) -> None:
        assert yard.loop().to_the_end() == []


def test_a_spool_that_is_gone_ends_the_query_or_is_replaced(yard: Yard) -> None:
    loop = begun(yard)
    produce(yard.url(), numbered(10))
    loop.until(10)
    loop.close()
    yard.kill()
    (yard.spool / "intake-0").rename(yard.home / "elsewhere")
    strict = yard.loop(loop.at, launchTimeout="1s")
    with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
        strict.until(1)
    lenient = yard.loop(loop.at, launchTimeout="20s", failOnDataLoss="false")
    while lenient.at.spool[0].id == loop.at.spool[0].id:
        lenient.batch()
    produce(yard.url(), numbered(20))
    assert values(lenient.until(20)) == numbered(20)

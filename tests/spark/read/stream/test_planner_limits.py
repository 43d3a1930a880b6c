"""How much a batch takes, where a query begins, and where a bounded run ends."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from tests.spark.producing import Flow, numbered, produce
from tests.spark.read.stream.loop import Yard, begun, values
from tests.support.waiting import LONG, SOON, wait_until


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


def test_a_batch_that_is_as_large_as_it_may_be_does_not_wait_for_more(yard: Yard) -> None:
    loop = begun(yard, minOffsetsPerTrigger="1000", maxTriggerDelay="1h", maxBytesPerTrigger="1m")
    payloads = [bytes([n]) * 200_000 for n in range(20)]
    produce(yard.url(), payloads)
    assert loop.batch()
    while loop.batch() is not None:
        pass
    left = 20 - len(loop.messages())
    assert 0 < left <= 6  # less than a batch: they wait


def test_messages_do_not_wait_for_those_that_a_full_spool_takes_no_more(yard: Yard) -> None:
    loop = begun(yard, minOffsetsPerTrigger="100000", maxTriggerDelay="1h", spoolMaxBytes="8m")
    payloads = [b"%04d" % n * 10_000 for n in range(800)]  # four times as much
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce, yard.url(), payloads)

        def over() -> bool:
            loop.batch()
            return producing.done()

        wait_until(over, LONG, "all acks")
        assert producing.result().acked == 800
    first = loop.messages()
    assert [row["value"] for row in first] == payloads[: len(first)]
    assert len(first) > 400  # the last ones have room, and wait


def test_a_query_that_starts_at_a_time(yard: Yard) -> None:
    first = begun(yard)
    produce(yard.url(), numbered(100), name="old")
    first.until(100)
    moment = datetime.now(UTC)
    produce(yard.url(), numbered(50), name="new")
    first.until(150)
    late = begun(yard, cursor="late", startingTimestamp=moment.isoformat())
    assert {row["channel"] for row in late.until(50)} == {"new"}


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
            rows = now.to_the_end()
            sent = flow.messages
            assert len(rows) <= sent
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

"""One attempt of a task: rows become media, and are delivered when each has been ended by who
takes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aqueduct_core.aio.quicr.server import serve_origin
from aqueduct_core.errors import ConnectFailed, SchemaMismatch, SinkFailed
from aqueduct_core.quicr.events import EndReason
from aqueduct_core.quicr.relay.media import UrlCounts
from aqueduct_spark.formats.quicr.options import QUICR_OPTIONS
from aqueduct_spark.formats.quicr.sink.columns import ObjectRows
from aqueduct_spark.formats.quicr.sink.delivery import POSTS, PostDelivery
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination
from aqueduct_spark.write.sink import SentCounts, WriteIdentity, check_whole
from tests.core.transport.ends import server_tls
from tests.spark.formats.quicr.sink.taker import Taker, taking
from tests.support.rules import rule


def options(*where: str, stream: bool = False, **given: str) -> WriteOptions:
    kind = OptionKind.STREAM_WRITE if stream else OptionKind.BATCH_WRITE
    endpoint = {"endpoint": "quicr://" + ",".join(where), "tls.insecure": "true"}
    return WriteOptions.parse(endpoint | given, QUICR_OPTIONS, kind)


def attempt(given: WriteOptions, batch: int = 0, *, stream: bool = False) -> PostDelivery:
    return PostDelivery(given, WriteIdentity("w", batch, 1, rising=stream))


def rows(
    url: str,
    *payloads: bytes,
    flags: int = 0,
    groups: list[int] | None = None,
    objects: list[int] | None = None,
) -> ObjectRows:
    return ObjectRows(
        Destination(url, "ordered"),
        list(payloads),
        range(len(payloads)),
        flags=[flags] * len(payloads),
        groups=groups,
        objects=objects,
    )


@rule("Q-18", "Q-19")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_each_url_is_one_post_that_is_proven_by_its_end(delivery: str) -> None:
    async def main() -> SentCounts:
        async with taking(taker) as where:
            posting = attempt(options(where, delivery=delivery, group="3"))
            await posting.open()
            await posting.send([rows("a", b"0", b"1"), rows("b\\xff", b"2", flags=0x81)])
            await posting.send([rows("a", b"3" * 200_000)])
            return await posting.complete()

    taker = Taker(datagram=True)
    counts = asyncio.run(main())
    assert taker.media == {
        b"a": {(3, 0): (0, b"0"), (3, 1): (0, b"1"), (3, 2): (0, b"3" * 200_000)},
        b"b\xff": {(3, 0): (0x81, b"2")},
    }
    assert taker.starts == {b"a": (3, 0), b"b\xff": (3, 0)}
    assert taker.ended == [EndReason.COMPLETE] * 2
    assert (counts.sent, counts.acked, counts.bytes) == (4, 4, 200_003)
    assert sorted(counts.whole) == ["a", "b\\xff"]


def test_rows_may_say_where_they_stand() -> None:
    async def main() -> None:
        async with taking(taker) as where:
            posting = attempt(options(where))
            await posting.open()
            await posting.send(
                [
                    rows("a", b"0", b"1", b"2", groups=[4, 4, 5], objects=[2, 3, 0]),
                    rows("b", b"0", b"1", b"2", groups=[0, 0, 1]),
                ]
            )
            await posting.complete()

    taker = Taker()
    asyncio.run(main())
    assert sorted(taker.media[b"a"]) == [(4, 2), (4, 3), (5, 0)]
    assert sorted(taker.media[b"b"]) == [(0, 0), (0, 1), (1, 0)]
    assert taker.starts == {b"a": (4, 2)}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"groups": [0, 0], "objects": [0, 2]}, r"object \(0, 2\) comes where \(0, 1\)"),
        ({"groups": [1, 0], "objects": [0, 0]}, r"object \(0, 0\) comes where"),
        ({"groups": [0, 2]}, r"object \(2, 0\) comes where"),
    ],
)
def test_rows_out_of_order_are_refused_and_nothing_is_ended(
    given: dict[str, Any], text: str
) -> None:
    async def main() -> None:
        async with taking(taker) as where:
            posting = attempt(options(where))
            await posting.open()
            with pytest.raises(SchemaMismatch, match=text + ".*sortWithinPartitions"):
                await posting.send([rows("a", b"0", b"1", **given)])
            await posting.give_up()

    taker = Taker()
    asyncio.run(main())
    assert EndReason.COMPLETE not in taker.ended


def test_of_a_stream_each_batch_is_a_media_of_its_own() -> None:
    async def main() -> None:
        async with taking(taker) as where:
            for batch in (4, 4, 5):  # one of them twice
                posting = attempt(options(where, stream=True), batch, stream=True)
                await posting.open()
                await posting.send([rows("a", b"%d" % batch)])
                await posting.complete()
            posting = attempt(options(where, stream=True, urlPerBatch="false"), 6, stream=True)
            await posting.open()
            await posting.send([rows("a", b"6")])
            await posting.complete()

    taker = Taker()
    asyncio.run(main())
    assert {url: sorted(each) for url, each in taker.media.items()} == {
        b"a/4": [(4, 0)],
        b"a/5": [(5, 0)],
        b"a": [(6, 0)],
    }


def test_media_are_spread_over_addresses_or_go_to_one_that_answers() -> None:
    async def main() -> None:
        async with taking(one) as near, taking(other) as far:
            posting = attempt(options(near, far))
            await posting.open()
            await posting.send([rows(f"u{n}", b"x") for n in range(8)])
            counts = await posting.complete()
            assert len(counts.endpoints) == 2
        async with taking(last) as there:
            down = "127.0.0.1:9"
            with pytest.raises(ConnectFailed):
                await attempt(options(down, there)).open()
            posting = attempt(options(down, there, endpointPolicy="failover"))
            await posting.open()
            await posting.send([rows("v", b"x")])
            await posting.complete()

    one, other, last = Taker(), Taker(), Taker()
    asyncio.run(main())
    assert not set(one.media) & set(other.media)
    assert len(one.media) + len(other.media) == 8
    assert min(len(one.media), len(other.media)) > 0
    assert list(last.media) == [b"v"]


def test_more_media_than_an_origin_takes_of_one_connection_have_several() -> None:
    """An origin refuses one more post of a connection, and none of them ends before the task."""

    async def main() -> list[UrlCounts]:
        async with serve_origin("127.0.0.1", 0, tls=server_tls()) as origin:
            posting = attempt(options(origin.url.removeprefix("quicr://")))
            await posting.open()
            for part in (b"0", b"1"):
                await posting.send([rows(f"u{n}", part) for n in range(2 * POSTS + 1)])
            counts = await posting.complete()
            assert (counts.acked, counts.channels, len(counts.endpoints)) == (1026, 513, 1)
            return origin.counts()

    assert {(each.objects, each.final) for each in asyncio.run(main())} == {(2, True)}


def test_two_tasks_with_one_url_are_found_at_the_commit() -> None:
    tasks = [SentCounts(n, 1, 1, 1, 0, 1, whole=(f"u{n % 2}", f"v{n}")) for n in range(2)]
    check_whole([*tasks, tasks[0]])  # of one task twice
    with pytest.raises(SinkFailed, match=r"ROW_REPEATED.*'u0' were in the tasks 0 and 2"):
        check_whole([*tasks, SentCounts(2, 1, 1, 1, 0, 1, whole=("u0",))])

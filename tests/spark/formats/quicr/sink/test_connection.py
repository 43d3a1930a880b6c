"""A connection on which media are posted: what it waits for, and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aqueduct_core.aio.quicr.server import serve_origin
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.media.position import BEGIN
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_spark.formats.quicr.sink.connection import PostingConnection
from tests.core.transport.ends import server_tls
from tests.spark.formats.quicr.sink.taker import Taker, taking
from tests.spark.formats.quicr.sink.test_delivery import options

Scenario = Callable[[PostingConnection, Taker], Coroutine[Any, Any, None]]


def play(scenario: Scenario, **given: str) -> Taker:
    taker = Taker()

    async def main() -> None:
        async with taking(taker) as where:
            connection = PostingConnection(
                HostPort.parse(where), options(where, **given), datagram=False
            )
            await connection.dial()
            try:
                await scenario(connection, taker)
            finally:
                await connection.give_up()

    asyncio.run(main())
    return taker


async def post(connection: PostingConnection, url: str, *payloads: bytes) -> None:
    found = connection.post(url, url.encode(), BEGIN)
    for payload in payloads:
        found.queue.append(found.queue.next, payload, 0, 0.0)
    connection.wake(found)


def test_what_waits_is_bounded() -> None:
    """A receiver that has accepted nothing gets nothing, and more than so much is not kept."""

    async def scenario(connection: PostingConnection, taker: Taker) -> None:
        taker.silent = True
        await post(connection, "u", b"x" * 900)
        await asyncio.wait_for(connection.room(), 60)
        await post(connection, "v", b"x" * 900)
        waiting = asyncio.ensure_future(connection.room())
        await taker.until(lambda: taker.drivers)
        assert not waiting.done()
        waiting.cancel()

    play(scenario, maxInFlightBytes="1k")


def test_a_receiver_that_does_not_end_a_media_has_no_proof_of_it() -> None:
    async def scenario(connection: PostingConnection, taker: Taker) -> None:
        taker.confirms = False
        await post(connection, "u", b"x")
        with pytest.raises(SinkFailed, match=r"ACK_TIMEOUT.*1 media, such as 'u', within 0.2 s"):
            await connection.complete()

    assert play(scenario, ackTimeout="200ms").media == {b"u": {(0, 0): (0, b"x")}}


def test_a_receiver_that_gives_a_media_up() -> None:
    async def scenario(connection: PostingConnection, taker: Taker) -> None:
        taker.refuses.add(b"u")
        await post(connection, "u", b"x")
        with pytest.raises(SinkFailed, match=r"RECEIVER_CLOSED.*gave up media 'u'"):
            await connection.complete()

    play(scenario)


@pytest.mark.parametrize("datagram", [False, True])
def test_an_origin_that_cannot_keep_an_object_is_no_proof_of_it(datagram: bool) -> None:
    """Though all of it was sent by then."""

    async def main() -> None:
        keeping = RelayConfig(memory=1 << 16)
        async with serve_origin("127.0.0.1", 0, tls=server_tls(), keeping=keeping) as origin:
            where = str(HostPort(*origin.address))
            connection = PostingConnection(HostPort.parse(where), options(where), datagram=datagram)
            await connection.dial()
            await post(connection, "u", bytes(70_000))
            with pytest.raises(
                SinkFailed, match=r"RECEIVER_CLOSED.*media 'u'.*--memory of an origin"
            ):
                await connection.complete()
            await connection.give_up()

    asyncio.run(main())


def test_a_connection_that_ends_is_told() -> None:
    async def scenario(connection: PostingConnection, taker: Taker) -> None:
        taker.silent = True
        await post(connection, "u", b"x")
        await taker.until(lambda: taker.drivers)
        for driver in taker.drivers:
            driver.engine.shutdown(0, "go away", driver.now())
            driver.kick()
        with pytest.raises(SinkFailed, match=r"CONNECTION_LOST.*closed by peer, code 0: go away"):
            await connection.complete()
        with pytest.raises(SinkFailed, match="CONNECTION_LOST"):
            connection.post("v", b"v", BEGIN)

    play(scenario)


def test_who_gives_up_ends_nothing() -> None:
    async def scenario(connection: PostingConnection, taker: Taker) -> None:
        await post(connection, "u", b"x")
        await taker.until(lambda: taker.media.get(b"u"))
        await connection.give_up()

    taker = play(scenario)
    assert not [each for each in taker.ended if each.value == "complete"]

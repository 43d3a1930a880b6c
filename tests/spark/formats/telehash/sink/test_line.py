"""A line to a peer: whether somebody is there, and what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from aqueduct_core.errors import ConnectFailed
from aqueduct_spark.formats.telehash.sink.line import LineKey, dial_line
from aqueduct_spark.write.pool import Pool
from tests.spark.formats.telehash.sink.attempts import (
    CARRIERS,
    Attempt,
    counted,
    options,
    play,
)
from tests.spark.formats.telehash.sink.taker import TakenChannel, Taker, taking
from tests.support.virtual_loop import let_happen


def test_over_udp_a_receiver_that_was_started_again_is_known_by_its_acks() -> None:
    """There are none: it knows no channel of before. Nothing else tells."""

    async def scenario() -> None:
        async with taking(Taker(udp=True)) as old:
            old.processes = 4
            attempt = Attempt(options(old))
            await attempt.delivery.open()
            await attempt.send(counted(10))
            await old.until(lambda: len(old.rows("_t")) == 9)
            await let_happen(0.5)
            port = int(old.url.rpartition(":")[2])
        async with taking(Taker(udp=True), port) as new:
            assert (await attempt.delivery.complete()).acked == 10
            assert new.rows("_t") == [b"%d" % row for row in range(4, 10)]

    play(scenario())


@CARRIERS
def test_an_endpoint_where_nobody_listens_is_named_before_anything_is_sent(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            wanted = options(taker)
        with pytest.raises(ConnectFailed, match="REFUSED"):
            await Attempt(wanted).run(counted(1))
        waiting = asyncio.ensure_future(
            Attempt(replace(wanted, connect_timeout=30.0)).run(counted(3))
        )
        await let_happen(5)
        async with taking(Taker(udp=udp), wanted.endpoint.addresses[0].port) as late:
            assert (await waiting).acked == 3
            assert late.rows("_t") == [b"0", b"1", b"2"]

    play(scenario())


def test_what_the_peer_sends_or_opens_is_taken_and_dropped() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            seen: list[object] = []

            def talk(channel: TakenChannel) -> None:
                engine, now = channel.driver.engine, channel.driver.now()
                if not seen:
                    seen.append(engine.open("_back", reliable=True, body=b"hello", now=now))
                    channel.say(b"thanks")

            taker.on_packets = talk
            counts = await Attempt(options(taker)).run(counted(50))
            assert counts.acked == 50

    play(scenario())


def test_lines_are_shared_where_all_that_they_were_dialled_with_is_the_same() -> None:
    taker = Taker()
    taker.url = "telehash://127.0.0.1:1"
    one, same = options(taker), options(taker, writerId="w", batchId="1")
    address = one.endpoint.addresses[0]
    assert LineKey.of(address, one) == LineKey.of(address, same)
    for other in ({"window": "5"}, {"channelTimeout": "5s"}, {"maxDatagramBytes": "1300b"}):
        assert LineKey.of(address, one) != LineKey.of(address, options(taker, **other))


@CARRIERS
def test_a_channel_that_ends_while_nobody_has_the_line_is_not_gone_on_with(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            wanted, pool = options(taker, keepChannel="true"), Pool()
            await Attempt(wanted, pool=pool).run(counted(2))
            taker.channels[0].fail("enough")
            await let_happen(1)
            assert (await Attempt(wanted, batch=1, pool=pool).run(counted(2))).acked == 2
            assert [each.line for each in taker.channels] == [0, 0]
            await pool.close()

    play(scenario())


def test_a_line_says_how_it_was_lost() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = options(taker)
            line = await dial_line(wanted.endpoint.addresses[0], wanted)
            assert line.alive
            await taker.until(lambda: taker.lines)
            taker.end_lines()
            await line.changed.wait()
            assert not line.alive
            await line.close(1.0)

    play(scenario())

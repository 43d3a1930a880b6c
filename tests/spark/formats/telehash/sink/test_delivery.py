"""One attempt of a task: rows become packets, delivered when the peer has processed each."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import ConnectFailed
from aqueduct_spark.write.pool import Pool
from tests.spark.formats.telehash.sink.attempts import (
    CARRIERS,
    Attempt,
    by_column,
    counted,
    options,
    play,
    rows,
)
from tests.spark.formats.telehash.sink.taker import Taker, taking
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


@rule("T-1", "T-9")
@CARRIERS
def test_a_task_has_a_channel_that_ends_with_its_last_row(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            counts = await Attempt(options(taker), batch=7, partition=3).run(
                counted(40), counted(60, 40)
            )
            assert (counts.sent, counts.acked, counts.channels) == (100, 100, 1)
            [channel] = taker.channels
            assert channel.bodies == [b"%d" % row for row in range(100)]
            assert channel.ended
            marks = [{"q": "w", "e": 7, "p": 3, "i": row} for row in range(100)]
            assert [js for _, js in channel.packets] == marks

    play(scenario())


def test_marks_count_the_rows_of_each_type_and_stand_beside_its_json() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = by_column(options(taker))
            batch = rows(*(b"0", b"1", b"2"), type=["_a", "_b", "_a"], js=[None, '{"x":1}', None])
            await Attempt(wanted, batch=2).run(batch)
            assert {each.type: [js for _, js in each.packets] for each in taker.channels} == {
                "_a": [{"q": "w", "e": 2, "p": 0, "i": row} for row in range(2)],
                "_b": [{"x": 1, "q": "w", "e": 2, "p": 0, "i": 0}],
            }

    play(scenario())


@CARRIERS
def test_rows_of_a_lost_line_that_are_not_acked_go_on_a_new_one(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            taker.processes = 4
            attempt = Attempt(options(taker), batch=1)
            await attempt.delivery.open()
            await attempt.send(counted(10))
            await taker.until(lambda: len(taker.rows("_t")) == 9)
            await let_happen(0.5)  # for the acks
            taker.processes = None
            taker.end_lines()
            assert (await attempt.delivery.complete()).acked == 10
            first, second = taker.channels
            assert first.line != second.line
            assert [js["i"] for _, js in second.packets] == list(range(4, 10))
            assert second.bodies == [b"%d" % row for row in range(4, 10)]
            assert second.ended

    play(scenario())


@CARRIERS
def test_a_stream_has_a_line_for_all_its_batches_and_a_channel_for_each(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            wanted, pool = options(taker, stream=True), Pool()
            for batch in range(3):
                await Attempt(wanted, batch=batch, pool=pool).run(counted(2, batch))
            assert [(each.line, each.number) for each in taker.channels] == [(0, 1), (0, 3), (0, 5)]
            assert all(each.ended for each in taker.channels)
            await pool.close()

    play(scenario())


def test_types_are_spread_over_addresses_or_go_to_one_that_answers() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as one, taking(Taker()) as other:
            wanted = by_column(options(one, other))
            types = [f"_{row}" for row in range(8)]
            counts = await Attempt(wanted).run(rows(*([b"x"] * 8), type=types))
            assert len(counts.endpoints) == 2
            assert not {each.type for each in one.channels} & {each.type for each in other.channels}
            assert len(one.channels) + len(other.channels) == 8
        async with taking(Taker()) as last:
            with pytest.raises(ConnectFailed):
                await Attempt(options(one, last)).run(counted(1))
            going = options(one, last, endpointPolicy="failover")
            assert (await Attempt(going).run(counted(3))).acked == 3
            assert last.rows("_t") == [b"0", b"1", b"2"]

    play(scenario())

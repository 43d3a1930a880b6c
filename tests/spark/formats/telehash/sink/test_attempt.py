"""An attempt on its line: what it waits for, and how its channels end."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_core.telehash.events import CloseReason
from aqueduct_spark.formats.telehash.sink.attempt import GAVE_UP
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
from tests.spark.formats.telehash.sink.taker import TakenChannel, Taker, taking
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


def test_rows_say_type_json_and_end() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = options(taker, idempotence="none")
            batch = rows(
                *(b"0", b"1", b"2", b""),
                js=['{"a":{"b":[1]}}', None, "{}", None],
                end=[False, True, False, False],
            )
            counts = await Attempt(wanted).run(batch)
            assert counts.acked == 4
            one, two = taker.channels
            assert one.packets == [(b"0", {"a": {"b": [1]}}), (b"1", None)]
            assert two.packets == [(b"2", {}), (b"", None)]
            assert one.ended
            assert two.ended

    play(scenario())


@rule("T-4")
@CARRIERS
def test_the_window_holds_rows_back(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            taker.processes = 0
            attempt = Attempt(options(taker, window="8", channelTimeout="1m"))
            await attempt.delivery.open()
            sending = asyncio.ensure_future(attempt.send(counted(40)))
            await taker.until(lambda: taker.channels and len(taker.channels[0].packets) == 8)
            await let_happen(9)  # of the ten seconds after which many a peer gives up
            assert len(taker.channels[0].packets) == 8
            assert not sending.done()
            taker.processes = None
            taker.channels[0].process()
            await sending
            assert (await attempt.delivery.complete()).acked == 40
            assert taker.rows("_t") == [b"%d" % row for row in range(40)]

    play(scenario())


@rule("P-1")
@CARRIERS
def test_a_row_that_does_not_fit_is_named_with_its_size(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            attempt = Attempt(options(taker))
            await attempt.delivery.open()
            await attempt.send(counted(3))
            await taker.until(lambda: taker.rows("_t") == [b"0", b"1"])
            body = b"x" * (1_420 if udp else 1_120)
            with pytest.raises(
                SinkFailed, match=r"MESSAGE_TOO_LARGE.*Row 3 of the task needs a packet of \d+ b"
            ):
                await attempt.send(rows(body, b"4"))
            await attempt.delivery.give_up()
            await taker.until(lambda: taker.channels[0].closed)
            assert set(taker.rows("_t")) <= {b"0", b"1", b"2"}

    play(scenario())


@rule("P-6")
@CARRIERS
def test_a_failed_attempt_ends_in_err(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            attempt = Attempt(options(taker))
            await attempt.delivery.open()
            await attempt.send(counted(3))
            await taker.until(lambda: taker.rows("_t") == [b"0", b"1"])
            await attempt.delivery.give_up()
            await taker.until(lambda: taker.channels[0].closed)
            closed = taker.channels[0].closed
            assert closed is not None
            assert (closed.reason, closed.err, closed.by_peer) == (
                CloseReason.FAILED,
                GAVE_UP,
                True,
            )

    play(scenario())


@rule("T-2", "T-19")
@CARRIERS
def test_what_a_receiver_does_not_want_is_told_in_its_words(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            taker.refuses.add("_t")
            with pytest.raises(
                SinkFailed, match=r"RECEIVER_CLOSED.*type '_t'.* ended it with err 'no _t here'"
            ):
                await Attempt(options(taker)).run(counted(3))
            taker.refuses.clear()
            taker.processes = 2
            taker.on_packets = lambda channel: channel.fail("full\nup")
            with pytest.raises(SinkFailed, match=r"RECEIVER_CLOSED.*with err 'full\\nup'"):
                await Attempt(options(taker)).run(counted(9))

    play(scenario())


@rule("P-5")
def test_a_receiver_that_ends_the_channel_wants_no_more() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            taker.processes = 1

            def end(channel: TakenChannel) -> None:
                channel.driver.engine.send(channel.number, end=True, now=channel.driver.now())
                channel.driver.kick()

            taker.on_packets = end
            with pytest.raises(SinkFailed, match=r"RECEIVER_CLOSED.*ended it before it had all"):
                await Attempt(options(taker)).run(counted(9))

    play(scenario())


@rule("P-7", "T-16")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "2 packets not acked: none was acked for 10 s.*ackLevel=stored; or raise 'channelT"),
        ({"channelTimeout": "3s"}, "none was acked for 3 s"),
        ({"ackTimeout": "4s"}, "2 packets to .* were not acked within 4 s.*'ackTimeout'"),
    ],
)
def test_a_receiver_that_does_not_ack_is_waited_for_so_long(
    given: dict[str, str], text: str
) -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            taker.processes = 3
            with pytest.raises(SinkFailed, match=f"ACK_TIMEOUT.*{text}"):
                await Attempt(options(taker, **given)).run(counted(5))
            assert taker.rows("_t") == [b"%d" % row for row in range(5)]

    play(scenario())


@CARRIERS
def test_a_channel_that_is_kept_goes_on_with_the_next_batch(udp: bool) -> None:
    async def scenario() -> None:
        async with taking(Taker(udp=udp)) as taker:
            wanted, pool = options(taker, keepChannel="true"), Pool()
            for batch in range(3):
                await Attempt(wanted, batch=batch, pool=pool).run(counted(2, 2 * batch))
            [channel] = taker.channels
            assert channel.bodies == [b"%d" % row for row in range(6)]
            assert [(js["e"], js["i"]) for _, js in channel.packets] == [
                (batch, row) for batch in range(3) for row in range(2)
            ]
            assert not channel.ended
            await Attempt(wanted, batch=3, pool=pool).run(rows(b"6", b"7", end=[True, False]))
            first, second = taker.channels
            assert first.ended
            assert (first.bodies[-1], second.bodies) == (b"6", [b"7"])
            failing = Attempt(wanted, batch=4, pool=pool)
            await failing.delivery.open()
            await failing.send(counted(1))
            await failing.delivery.give_up()
            await taker.until(lambda: second.closed)
            await pool.close()

    play(scenario())


def test_more_types_than_channels_may_be_open() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = by_column(options(taker))
            types = [f"_{row % 5}" for row in range(40)]
            counts = await Attempt(wanted, max_open=3).run(
                rows(*(b"%d" % row for row in range(40)), type=types)
            )
            assert counts.acked == 40
            for type in range(5):
                assert taker.rows(f"_{type}") == [b"%d" % row for row in range(type, 40, 5)]
            assert all(each.ended for each in taker.channels)

    play(scenario())


def test_json_that_stands_for_something_else_is_refused_by_its_row() -> None:
    """Beside a type without an underscore there is no key of its own for it (P4)."""

    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = options(taker, type="chat")
            assert (await Attempt(wanted).run(rows(b"0", js=['{"x": 1}']))).acked == 1
            with pytest.raises(SchemaMismatch, match="'js' of row 1 of the task cannot be sent"):
                await Attempt(wanted).run(rows(b"0", b"1", b"2", js=[None, '{"seq": 1}', None]))

    play(scenario())


def test_a_number_too_large_for_json_is_refused_by_its_row() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            js = ['{"n": 1e300}', '{"n": 1e400}']
            with pytest.raises(SchemaMismatch, match="'js' of row 1 of the task cannot be sent"):
                await Attempt(options(taker)).run(rows(b"0", b"1", js=js))

    play(scenario())


@rule("P-5")
def test_json_that_peers_take_for_an_end_is_refused_where_none_is_meant() -> None:
    async def scenario() -> None:
        async with taking(Taker()) as taker:
            wanted = options(taker, idempotence="none")
            js = [None, '{"end": true}', None]
            with pytest.raises(
                SchemaMismatch, match="'js' of row 1 of the task would end the chan"
            ):
                await Attempt(wanted).run(rows(b"0", b"", b"2", js=js))
            counts = await Attempt(wanted).run(rows(b"0", b"1", b"", js=[js[1], js[1], js[1]]))
            assert counts.acked == 3

    play(scenario())

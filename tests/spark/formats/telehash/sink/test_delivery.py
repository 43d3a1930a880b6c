"""One attempt of a task: rows become packets, delivered when the peer has processed each."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.telehash.events import CloseReason
from aqueduct_spark.formats.telehash.sink.attempt import GAVE_UP
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.pool import Pool
from tests.spark.formats.telehash.sink.attempts import Attempt, counted, options, play, rows
from tests.spark.formats.telehash.sink.taker import TakenChannel, Taker, taking
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


def by_column(wanted: WriteOptions) -> WriteOptions:
    """Each row has its type."""
    return replace(wanted, own=replace(wanted.own, type=None))


CARRIERS = pytest.mark.parametrize("udp", [False, True], ids=["quic", "udp"])


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

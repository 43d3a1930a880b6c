"""What is told, and asked, while messages wait for the peer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.delivery_watch import (
    AGAIN,
    TICK,
    WORTH_A_LINE,
    DeliveryWatch,
    Observed,
    OutageNotices,
    WaitNotices,
)
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.engine.close_codes import CloseOrigin
from tests.core.aio.storing import Store
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

WAITS = Observed(
    peer="host:1",
    channel="channel 8 'logs'",
    waiting=3_512,
    ending=0,
    settled=100,
    heard=7,
    delivered=50_000,
    blocked=False,
)
NOTHING = replace(WAITS, waiting=0)


class Wait:
    """Looks every ``TICK``; the host answers each time, unless it is told otherwise."""

    def __init__(self, seen: Observed = WAITS) -> None:
        self.notices = WaitNotices()
        self.now = 1_000.0
        self.seen = seen
        assert self.notices.look(self.now, seen) is None

    def go_on(self, seconds: float, *, heard: int = 1, delivered: int = 0) -> list[str]:
        lines = []
        for _ in range(round(seconds / TICK)):
            self.now += TICK
            seen = self.seen
            self.seen = replace(
                seen, heard=seen.heard + heard, delivered=seen.delivered + delivered
            )
            line = self.notices.look(self.now, self.seen)
            if line is not None:
                lines.append(line)
        return lines


def test_a_wait_is_told_once_it_is_long_then_rarely_and_once_when_it_is_over() -> None:
    wait = Wait()
    assert wait.go_on(WORTH_A_LINE - TICK) == []
    (line,) = wait.go_on(TICK)
    assert line.startswith("waiting for host:1, 2 s so far (channel 8 'logs': 3,512 messages un-a")
    assert wait.go_on(AGAIN - TICK) == []
    (line,) = wait.go_on(TICK)
    assert "32 s so far" in line
    wait.seen = replace(wait.seen, settled=101)
    assert wait.go_on(TICK) == ["going on with host:1 after 33 s"]
    assert wait.go_on(WORTH_A_LINE - TICK) == []
    wait.seen = NOTHING
    assert wait.go_on(TICK) == []


def test_what_ends_a_wait_that_was_told_is_told_also_where_nothing_is_left() -> None:
    wait = Wait()
    assert len(wait.go_on(4)) == 1
    wait.seen = NOTHING
    assert wait.go_on(TICK) == ["going on with host:1 after 5 s"]


@pytest.mark.parametrize(
    ("seen", "heard", "delivered", "words"),
    [
        (WAITS, 0, 0, "un-acked, the peer does not answer"),
        (WAITS, 1, 10, "un-acked, the path is slow"),
        (replace(WAITS, blocked=True), 1, 0, "the receiver's credit is used up"),
        (WAITS, 1, 0, "the receiver has them and does not ack"),
        (replace(WAITS, waiting=0, ending=1), 1, 0, "its end not confirmed, the receiver has"),
    ],
)
def test_a_wait_is_told_with_its_reason(
    seen: Observed, heard: int, delivered: int, words: str
) -> None:
    (line,) = Wait(seen).go_on(WORTH_A_LINE, heard=heard, delivered=delivered)
    assert words in line


def test_an_outage_is_told_once_it_is_long_then_rarely_and_once_when_it_is_over() -> None:
    notices, told = OutageNotices("host:1"), []
    for now in range(100, 140):
        line = notices.failed(float(now), "nobody listens", since=100.0)
        if line is not None:
            told.append(line)
    assert told == [
        "waiting for a connection to host:1, 2 s so far (nobody listens)",
        "waiting for a connection to host:1, 32 s so far (nobody listens)",
    ]
    assert notices.connected(141.0) == "connected to host:1 after 41 s"
    assert notices.connected(142.0) is None
    assert notices.failed(150.5, "nobody listens", since=150.0) is None
    assert notices.connected(151.0) is None


class Probed:
    def __init__(self) -> None:
        self.seen = WAITS
        self.probes = 0

    def observe(self) -> Observed:
        return self.seen

    def probe(self) -> None:
        self.probes += 1


@in_loop
async def test_signs_of_life_are_asked_for_while_messages_wait_and_at_no_other_time() -> None:
    probed = Probed()
    watch = DeliveryWatch(asyncio.get_running_loop(), probed, lambda _: None)
    await let_happen(10 * TICK)
    assert probed.probes == 0
    watch.wake()
    await let_happen(10.5 * TICK)
    assert probed.probes == 10
    probed.seen = NOTHING
    await let_happen(20 * TICK)
    assert probed.probes == 10
    probed.seen = WAITS
    watch.wake()
    await let_happen(1.5 * TICK)
    watch.stop()
    watch.wake()
    await let_happen(20 * TICK)
    assert probed.probes == 11


@in_loop
async def test_who_acks_all_the_time_is_asked_nothing() -> None:
    probed = Probed()
    watch = DeliveryWatch(asyncio.get_running_loop(), probed, lambda _: None)
    watch.wake()
    for _ in range(20):
        await let_happen(TICK / 2)
        probed.seen = replace(probed.seen, settled=probed.seen.settled + 1)
    assert probed.probes == 1  # at the first look, which knows no other
    watch.stop()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    name = "aqueduct_core.aio.delivery_watch"
    return [record.getMessage() for record in caplog.records if record.name == name]


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("mode", ["ordered", "unordered", "unreliable"])
@in_loop
async def test_a_reader_that_does_not_read_is_named(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), config=Config(flow_per_channel=2_000)) as server,
        connect(
            server.url,
            tls=client_tls(),
            config=Config(flow_per_channel=0, send_queue_messages=4),
        ) as client,
    ):
        connection = await server.accept()
        sender, receiver = channel(mode, name="logs")
        await client.entrypoint.send(b"", attach=receiver)
        (far,) = (await connection.entrypoint.receive()).attachments
        sending = asyncio.ensure_future(sender.send_many([bytes(900)] * 20))
        await let_happen(60.0)
        assert not sending.done()
        first, second, *_ = lines(caplog)
        where = f"{client.peer[0]}:{client.peer[1]}"
        assert first.startswith(f"waiting for {where}, ")
        assert "'logs': " in first
        assert "the receiver's credit is used up" in first
        assert "the receiver's credit is used up" in second
        async for _ in far.batches():  # type: ignore[union-attr]
            if sending.done():
                break
        await sending
        await sender.flush()
        await let_happen(3 * TICK)
        assert lines(caplog)[-1].startswith(f"going on with {where} after ")


@pytest.mark.parametrize("restarted", [True, False])
@in_loop
async def test_a_server_that_was_killed_is_noticed_while_only_its_ack_is_outstanding(
    restarted: bool,
) -> None:
    """In seconds of its own: the idle timeout of the connection is 30."""
    loop = asyncio.get_running_loop()
    key = bytes(32)
    async with serve(
        "127.0.0.1", 0, tls=server_tls(), config=Config(flow_per_channel=2_000), reset_key=key
    ) as server:
        port = server.address[1]
        async with connect(server.url, tls=client_tls()) as client:
            connection = await server.accept()
            sender, receiver = channel(name="logs")
            await client.entrypoint.send(b"", attach=receiver)
            (far,) = (await connection.entrypoint.receive()).attachments
            # read by nobody, so its credit is used up: nothing is sent, and nothing comes
            sending = asyncio.ensure_future(sender.send_many([bytes(900)] * 20))
            await let_happen(0.5)
            killed = loop.time()
            server.listener._socket.close()
            if restarted:
                again = serve("127.0.0.1", port, tls=server_tls(), config=Config(), reset_key=key)
                await again.__aenter__()
            with pytest.raises(ConnectionLost) as caught:
                await sending
            assert loop.time() - killed <= (2.5 * TICK if restarted else 6.0)
            if restarted:
                assert caught.value.origin is CloseOrigin.STATELESS_RESET
                await again.__aexit__(None, None, None)
            del far


@in_loop
async def test_a_producer_tells_of_a_server_that_is_gone_and_comes_back_within_a_second_or_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, store = asyncio.get_running_loop(), Store()
    key = bytes(32)
    async with serve("127.0.0.1", 0, tls=server_tls(), config=Config(), reset_key=key) as server:
        port = server.address[1]
        async with Producer(
            server.url, producer="p-1", tls=client_tls(), give_up_after=None, chance=lambda: 1.0
        ) as producer:
            logs = producer.channel("logs")
            await logs.send(b"to one")
            await logs.flush()
            server.listener._socket.close()
            await eventually(lambda: not producer.connected)
            await let_happen(20.0)
            name = "aqueduct_core.aio.producer_loop"
            await logs.send(b"to the other")
            (line,) = [each.getMessage() for each in caplog.records if each.name == name]
            assert line.startswith(f"waiting for a connection to 127.0.0.1:{port}, ")
            async with serve(
                "127.0.0.1", port, tls=server_tls(), config=Config(), reset_key=key
            ) as again:
                started = loop.time()
                taking = asyncio.ensure_future(store.take(again))
                await logs.flush()
                assert loop.time() - started < 1.5
                assert logs.statistics.acked == 2
                line = [each.getMessage() for each in caplog.records if each.name == name][-1]
                assert line.startswith(f"connected to 127.0.0.1:{port} after 2")
                taking.cancel()
                await producer.cancel()

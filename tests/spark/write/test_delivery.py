"""Delivery of one task attempt: what success means, and a failure of its own for each cause."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.conventions.dedupe import Deduplicator, channel_key
from aqueduct_core.aqueduct.conventions.headers import CODE_NOT_REPEATABLE
from aqueduct_core.errors import (
    AqueductError,
    AuthFailed,
    ConnectFailed,
    SinkFailed,
    TlsFailed,
)
from aqueduct_spark.formats.aqueduct.sink import connection as sink_connection
from aqueduct_spark.formats.aqueduct.sink.connection import SILENT_SECONDS
from aqueduct_spark.write import delivery
from aqueduct_spark.write.delivery import RETURN_SECONDS
from aqueduct_spark.write.dial_wait import DialWait
from aqueduct_spark.write.pool import Pool
from tests.core.transport.ends import serving
from tests.spark.plain_peer import Peer, listening
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.event_loop import eventually, in_loop, server_tls
from tests.support.ports import free_port
from tests.support.proxy import Impairment, Proxy

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
WITH_HEADERS = pa.schema([("value", pa.binary()), ("headers", HEADERS)])


@in_loop
async def test_a_plain_peer_gets_every_row_and_its_key() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):
        counts = await Attempt(options(peer.url), partition=3, batch=7).run(
            [numbered(50, channels=2), numbered(10, start=50, channels=2)]
        )
        await eventually(lambda: all(heard.end == "Finished" for heard in peer.heard))
    assert (counts.sent, counts.acked, counts.nacked, counts.channels) == (60, 60, 0, 2)
    assert counts.endpoints == (peer.url.removeprefix("aqueduct://"),)
    [c0], [c1] = peer.named("c0"), peer.named("c1")
    assert c0.values == [b"%d" % row for row in range(0, 60, 2)]
    keys = [(dict(headers)[b"batch"], dict(headers)[b"row"]) for _, headers in c1.messages]
    assert keys == [(b"7", b"%d" % row) for row in range(1, 60, 2)]
    assert dict(c0.headers)[b"partition"] == b"3"
    assert dict(peer.connections[0].headers)[b"producer"] == b"w"


@in_loop
async def test_rows_carry_no_keys_where_numbers_are_enough() -> None:
    peer = Peer()
    async with listening(peer, server_tls(), headers=(("deduplicates", "sequence"),)):
        await Attempt(options(peer.url)).run([numbered(5)])
        await Attempt(options(peer.url, idempotence="headers")).run([numbered(5)])
    silent, keyed = peer.named("c0")
    assert [headers for _, headers in silent.messages] == [()] * 5
    assert all(len(headers) == 2 for _, headers in keyed.messages)


@in_loop
async def test_without_idempotence_nothing_says_that_rows_are_the_same() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):
        await Attempt(options(peer.url, idempotence="none")).run([numbered(3)])
    [heard] = peer.heard
    assert channel_key(peer.connections[0].headers, heard.headers) is None
    assert [headers for _, headers in heard.messages] == [()] * 3


@in_loop
async def test_the_deduplicator_of_an_application() -> None:
    """Two attempts of one task, of which the first gave up: each row counts once."""
    peer, deduplicator = Peer(), Deduplicator()
    async with listening(peer, server_tls()):
        first = Attempt(options(peer.url))
        await first.delivery.open()
        await first.send(numbered(40, channels=3))
        await eventually(lambda: sum(len(h.messages) for h in peer.heard) == 40)
        await first.delivery.give_up()
        await eventually(lambda: all(h.end == "Cancelled" for h in peer.heard))
        await Attempt(options(peer.url), max_open=2).run([numbered(60, channels=3)])
    new = []
    by_connection = {connection.id: connection.headers for connection in peer.connections}
    for heard in peer.heard:
        key = channel_key(by_connection[heard.connection], heard.headers)
        new += [v for n, v in enumerate(heard.values) if deduplicator.is_new(key, n)]
    assert sorted(map(int, new)) == list(range(60))


@in_loop
async def test_more_channels_than_may_be_open() -> None:
    """The ones not used for longest are finished, and opened again under the right number."""
    peer = Peer()
    async with listening(peer, server_tls()):
        attempt = Attempt(options(peer.url), max_open=4)
        batches = [numbered(40, start=start, channels=20) for start in range(0, 200, 40)]
        counts = await attempt.run(batches)
        await eventually(lambda: all(heard.end == "Finished" for heard in peer.heard))
    assert (counts.sent, counts.channels) == (200, 20)
    for number in range(20):
        parts = peer.named(f"c{number}")
        assert len(parts) > 1
        assert peer.values(f"c{number}") == [b"%d" % row for row in range(number, 200, 20)]
        starts = [int(dict(part.headers)[b"sequence-start"]) for part in parts]
        sizes = [len(part.messages) for part in parts]
        assert starts == [sum(sizes[:i]) for i in range(len(parts))]


@in_loop
async def test_kinds_of_one_name_are_apart() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):
        batch = numbered(30)
        kinds = ["ordered", "unordered", "unreliable"] * 10
        counts = await Attempt(options(peer.url)).run(
            [batch.append_column("reliability", pa.array(kinds))]
        )
        await eventually(lambda: len(peer.heard) == 3)
    assert counts.sent == 30
    assert counts.acked + counts.nacked == 30
    starts = {dict(heard.headers).get(b"sequence-start") for heard in peer.heard}
    assert starts == {b"0", b"%d" % (1 << 31), None}


@in_loop
async def test_a_receiver_that_closes() -> None:
    peer = Peer(close_at=5)
    async with listening(peer, server_tls()):
        attempt = Attempt(options(peer.url))
        with pytest.raises(SinkFailed) as failed:
            await attempt.run([numbered(100, start=100 * n) for n in range(50)])
    assert failed.value.subclass == "RECEIVER_CLOSED"
    assert "'c0'" in failed.value.what


@in_loop
async def test_a_failed_attempt_cancels_its_channels() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):

        def broken() -> object:
            yield numbered(10, channels=2)
            raise RuntimeError("the query above failed")

        with pytest.raises(RuntimeError, match="the query above"):
            await Attempt(options(peer.url)).run(broken())  # type: ignore[arg-type]
        await eventually(lambda: len(peer.heard) == 2)
        await eventually(lambda: all(heard.end == "Cancelled" for heard in peer.heard))


@in_loop
async def test_fault_26_the_message_that_carries_the_channels_is_lost() -> None:
    """The sink is told what happened, at once, and does not wait for acks until it is late."""
    peer = Peer()
    async with listening(peer, server_tls()):
        attempt = Attempt(options(peer.url, ackTimeout="60s"))
        await attempt.delivery.open()
        await eventually(lambda: bool(peer.connections))
        await peer.connections[0].entrypoint.close()
        with pytest.raises(SinkFailed) as failed:
            await attempt.run([numbered(10, channels=3)])
    assert failed.value.subclass in ("LOST_IN_TRANSIT", "RECEIVER_CLOSED")


@in_loop
async def test_a_lost_connection_is_dialled_again() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):
        attempt = Attempt(options(peer.url))
        await attempt.delivery.open()
        await attempt.send(numbered(10))
        await eventually(lambda: bool(peer.connections))
        peer.connections[0].abort("a test")
        counts = await attempt.run([numbered(10, start=10)])
    assert (counts.sent, counts.acked) == (20, 20)
    assert {int(value) for value in peer.values("c0")} == set(range(20))
    assert len(peer.connections) == 2


@in_loop
async def test_a_connection_lost_by_an_error_of_quic_is_dialled_again() -> None:
    """Its number is that with which an intake refuses what it has stored with other content."""
    peer = Peer()
    async with listening(peer, server_tls()) as server:
        attempt = Attempt(options(peer.url))
        await attempt.delivery.open()
        await attempt.send(numbered(10))
        await eventually(lambda: bool(peer.connections))
        (driver,) = server.listener.drivers
        link: Any = driver.link
        link._quic.close(error_code=CODE_NOT_REPEATABLE, frame_type=0)
        driver.kick()
        counts = await attempt.run([numbered(10, start=10)])
    assert (counts.sent, counts.acked) == (20, 20)
    assert len(peer.connections) == 2


@in_loop
async def test_a_receiver_that_is_gone() -> None:
    """It closes its connections and listens no more."""
    peer = Peer()
    async with listening(peer, server_tls(), config=Config(ack_mode=AckMode.ON_STORED)):
        attempt = Attempt(options(peer.url))
        await attempt.delivery.open()
        await attempt.send(numbered(10))
        await eventually(lambda: bool(peer.connections))
        peer.connections[0].abort("a test")
    with pytest.raises(SinkFailed) as failed:
        await attempt.delivery.complete()
    await attempt.delivery.give_up()
    assert failed.value.subclass == "CONNECTION_LOST"
    assert peer.url in failed.value.what


def test_a_dead_receiver_is_given_up_within_5_seconds() -> None:
    assert SILENT_SECONDS + RETURN_SECONDS <= 5


@pytest.mark.parametrize("idle", [False, True], ids=["rows on their way", "an idle connection"])
@in_loop
async def test_a_receiver_that_falls_silent(idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a packet comes any more, as from a host that has lost its power."""
    monkeypatch.setattr(sink_connection, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(delivery, "RETURN_SECONDS", 0.3)
    peer, pool = Peer(), Pool()
    async with listening(peer, server_tls()) as server:
        proxy = Proxy(server.address, Impairment(delay=0.0), seed=3)
        host, port = await proxy.open()
        wanted = options(
            f"aqueduct://{host}:{port}", streaming=True, ackTimeout="60s", connectTimeout="0s"
        )
        try:
            attempt = Attempt(wanted, pool=pool)
            if idle:
                await attempt.run([numbered(5)])
                attempt = Attempt(wanted, pool=pool, batch=1)
            await attempt.delivery.open()
            proxy.dark = True
            begun = asyncio.get_running_loop().time()
            with pytest.raises(SinkFailed) as failed:
                await attempt.run([numbered(17_000)])
            assert asyncio.get_running_loop().time() - begun < 10  # and not 60
            assert failed.value.subclass == "CONNECTION_LOST"
        finally:
            proxy.close()
            await pool.close()


@in_loop
async def test_no_acks_in_time() -> None:
    peer = Peer()
    async with listening(peer, server_tls(), config=Config(ack_mode=AckMode.ON_STORED)):
        with pytest.raises(SinkFailed) as failed:
            await Attempt(options(peer.url, ackTimeout="200ms")).run([numbered(7)])
    assert failed.value.subclass == "ACK_TIMEOUT"
    assert "7 messages" in failed.value.what


@in_loop
async def test_bytes_in_flight_are_bounded() -> None:
    peer = Peer()
    async with listening(peer, server_tls(), config=Config(ack_mode=AckMode.ON_STORED)):
        attempt = Attempt(options(peer.url, ackTimeout="300ms", maxInFlightBytes="1k"))
        await attempt.delivery.open()
        with pytest.raises(SinkFailed) as failed:
            await attempt.run(numbered(100, start=start) for start in range(0, 10_000, 100))
    assert failed.value.subclass == "ACK_TIMEOUT"
    waiting = int(failed.value.what.split()[0])
    assert 100 <= waiting <= 1_000


@in_loop
async def test_unreliable_rows_that_are_lost() -> None:
    peer = Peer()
    async with listening(peer, server_tls()) as server:
        proxy = Proxy(server.address, Impairment(delay=0.0), seed=5)
        host, port = await proxy.open()
        try:
            batch = pa.record_batch({"value": [b"%d" % row * 900 for row in range(10)] * 10})
            for ratio, fails in (("0.9", False), ("0.1", True)):
                proxy.impairment = Impairment(delay=0.0)
                wanted = options(
                    f"aqueduct://{host}:{port}", reliability="unreliable", maxLossRatio=ratio
                )
                attempt = Attempt(wanted)
                await attempt.delivery.open()
                # only datagrams are that large from now on
                proxy.impairment = Impairment(delay=0.0, loss=0.4, only_above=600)
                if fails:
                    with pytest.raises(SinkFailed) as failed:
                        await attempt.run([batch])
                    assert failed.value.subclass == "LOSS_ABOVE_LIMIT"
                    assert "of 100 unreliable" in failed.value.what
                else:
                    counts = await attempt.run([batch])
                    assert counts.acked + counts.nacked == 100
                    assert 10 < counts.nacked < 90
        finally:
            proxy.close()


@pytest.mark.parametrize(("pairs", "size"), [(300, 1), (1, 18 << 20)])
@in_loop
async def test_headers_that_cannot_be_sent(pairs: int, size: int) -> None:
    """What is wrong with the row is told, and not that its channel was cancelled for that."""
    peer = Peer()
    headers = [{"key": "k", "value": bytes(size)}] * pairs
    rows = pa.Table.from_pylist([{"value": b"", "headers": headers}], WITH_HEADERS)
    async with listening(peer, server_tls()):
        with pytest.raises(SinkFailed) as failed:
            await Attempt(options(peer.url)).run(rows.to_batches())
    assert failed.value.subclass == "MESSAGE_TOO_LARGE"
    assert "headers of" in failed.value.what


@pytest.mark.parametrize(("headers", "payload"), [(70_000, 10), (10, 70_000)])
@pytest.mark.parametrize("reliability", ["ordered", "unordered"])
@in_loop
async def test_a_row_over_a_limit_of_the_receiver(
    reliability: str, headers: int, payload: int
) -> None:
    """Only the receiver knows its limits. Sent again, the row would end the next connection too."""
    peer = Peer()
    limits = Config(max_headers_bytes=64_000, max_payload_bytes=60_000)
    pairs = [{"key": "k", "value": bytes(headers)}]
    rows = pa.Table.from_pylist(
        [{"value": bytes(payload), "headers": pairs}, {"value": b"next", "headers": []}],
        WITH_HEADERS,
    )
    async with listening(peer, server_tls(), config=limits):
        with pytest.raises(SinkFailed) as failed:
            await Attempt(options(peer.url, reliability=reliability)).run(rows.to_batches())
    assert failed.value.subclass == "MESSAGE_TOO_LARGE"
    assert peer.url in failed.value.what
    named = (
        ("header bytes of 70", "64000")
        if headers > payload
        else ("payload bytes of 70000", "60000")
    )
    assert all(each in failed.value.what for each in named), failed.value.what
    assert "raise that limit" in failed.value.remedy
    assert len(peer.connections) == 1


@in_loop
async def test_nobody_listens() -> None:
    with pytest.raises(ConnectFailed):
        await Attempt(options(f"aqueduct://127.0.0.1:{free_port()}")).run([numbered(1)])


@in_loop
async def test_an_endpoint_that_is_restarted_is_waited_for_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls, port = server_tls(), free_port()
    url = f"aqueduct://127.0.0.1:{port}"
    sending = asyncio.ensure_future(Attempt(options(url, connectTimeout="3m")).run([numbered(3)]))
    await eventually(lambda: "is not connected" in caplog.text)
    peer = Peer()
    async with listening(peer, tls, port=port):
        counts = await sending
    assert (counts.sent, counts.acked) == (3, 3)
    waits, over = [r.getMessage() for r in caplog.records if r.name == DialWait.__module__]
    assert f"[AQUEDUCT_CONNECT.REFUSED] endpoint {url} is not connected" in waits
    assert over.startswith(f"endpoint {url} is connected, after ")


@in_loop
async def test_a_receiver_that_is_restarted_slowly_in_the_midst(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream outlives it: where a task has one attempt, its query would end."""
    monkeypatch.setattr(delivery, "RETURN_SECONDS", 0.1)
    tls, port, first, second = server_tls(), free_port(), Peer(), Peer()
    wanted = options(f"aqueduct://127.0.0.1:{port}", streaming=True)
    async with listening(first, tls, port=port, config=Config(ack_mode=AckMode.ON_STORED)):
        attempt = Attempt(wanted)
        await attempt.delivery.open()
        await attempt.send(numbered(10))
        await eventually(lambda: bool(first.connections))
        first.connections[0].abort("a test")
    completing = asyncio.ensure_future(attempt.delivery.complete())
    await eventually(lambda: "is not connected" in caplog.text)  # said after 2 s
    async with listening(second, tls, port=port):
        counts = await completing
        await eventually(lambda: len(second.values("c0")) == 10)
    assert (counts.sent, counts.acked) == (10, 10)


@in_loop
async def test_the_wait_for_an_endpoint_has_a_limit() -> None:
    url = f"aqueduct://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectFailed, match=r"REFUSED.*\(for .* s, as 'connectTimeout' allows\)"):
        await Attempt(options(url, connectTimeout="300ms")).run([numbered(1)])


@in_loop
async def test_errors_are_ours_and_can_be_pickled() -> None:
    import pickle

    peer = Peer(close_at=1)
    async with listening(peer, server_tls()):
        with pytest.raises(AqueductError) as failed:
            await Attempt(options(peer.url)).run([numbered(10_000)])
    again = pickle.loads(pickle.dumps(failed.value))
    assert str(again) == str(failed.value)


@in_loop
async def test_endpoints_that_cannot_be_used_are_told_apart() -> None:
    """One line each, before any row was sent."""
    tls = server_tls()
    async with (
        serving(alpn="other", tls=tls) as foreign,
        serve("127.0.0.1", 0, tls=tls, authorize=bearer("s3cret")) as guarded,
    ):
        cases = [
            (f"aqueduct://127.0.0.1:{foreign.port}", {}, None, ConnectFailed, "NO_REPLY"),
            (guarded.url, {}, None, AuthFailed, "REJECTED"),
            (guarded.url, {}, "wrong-secret", AuthFailed, "REJECTED"),
            (guarded.url, {"tls_insecure": "false"}, "s3cret", TlsFailed, "UNKNOWN_CA"),
        ]
        for url, more, token, kind, subclass in cases:
            with pytest.raises(kind) as refused:
                await Attempt(options(url, **more), token=token).run([numbered(3)])
            assert isinstance(refused.value, AqueductError)
            assert refused.value.subclass == subclass
            text = str(refused.value)
            assert "\n" not in text
            assert "s3cret" not in text
            assert "wrong-secret" not in text

"""A QUIC error is a lost connection, whatever its number; only an application code is an answer."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ConnectFailed
from tests.core.aio.scene import scene
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls

ERRORS = {
    3: "FLOW_CONTROL_ERROR (0x3)",
    8: "TRANSPORT_PARAMETER_ERROR (0x8)",
    0x100: "CRYPTO_ERROR (0x100, TLS alert 0 close_notify)",
    0x102: "CRYPTO_ERROR (0x102, TLS alert 2)",
    0x103: "CRYPTO_ERROR (0x103, TLS alert 3)",
}
"""Of QUIC, each with the number of a code of ours: VERSION, RESOURCE_LIMIT, rejected, not
repeatable, fenced."""


def fail(server: Server, code: int) -> None:
    """End all connections as a server does whose QUIC finds fault with a client's packets."""
    for driver in list(server.listener.drivers):
        if driver.lost is None:
            link: Any = driver.link
            link._quic.close(error_code=code, frame_type=0, reason_phrase="a test")
            driver.kick()


@pytest.mark.parametrize("code", ERRORS)
@in_loop
async def test_a_dial_that_ends_with_an_error_of_quic_was_not_refused(code: int) -> None:
    def authorize(headers: Any) -> bool:
        fail(server, code)
        return True

    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=authorize) as server:
        with pytest.raises(ConnectFailed) as caught:
            await connect(server.url, tls=client_tls())
    assert caught.value.subclass == "NO_REPLY"
    assert f"QUIC's {ERRORS[code]} from the peer: a test" in caught.value.what


@pytest.mark.parametrize("code", ERRORS)
@in_loop
async def test_a_producer_goes_on_after_an_error_of_quic(code: int) -> None:
    async with storing() as (server, store), producer(server.url) as producing:
        channel = producing.channel("c")
        await channel.send(b"before")
        await channel.flush()
        came = 0

        def authorize(headers: Any) -> bool:
            nonlocal came
            came += 1
            if came < 3:
                fail(server, code)
            return True

        server._authorize = authorize
        fail(server, code)
        await eventually(lambda: not producing.connected)
        await channel.send(b"behind")
        await channel.flush()
        assert came == 3
        await channel.finish()
    assert store.payloads("c") == [b"before", b"behind"]


@in_loop
async def test_halves_tell_that_it_was_quic_and_not_the_peers_application() -> None:
    async with scene() as set_up:
        fail(set_up.server, 3)
        with pytest.raises(ConnectionLost, match=r"was lost: QUIC's FLOW_CONTROL_ERROR \(0x3\)"):
            await set_up.client.entrypoint.finish()
        await set_up.served.wait_closed()
        for connection, by_peer in ((set_up.client, True), (set_up.served, False)):
            closed = connection.closed
            assert closed == Closed(3, "a test", by_peer, CloseOrigin.TRANSPORT)
            assert "lost: \"QUIC's FLOW_CONTROL_ERROR" in repr(connection)


@in_loop
async def test_a_producer_that_is_closed_for_want_of_memory_dials_again() -> None:
    """It was no answer to what it sent: all of it is acked in the end, once."""
    async with storing() as (server, store), producer(server.url) as producing:
        channel = producing.channel("c")
        await channel.send(b"before")
        await channel.flush()
        guard = server.listener._guard
        for driver in list(server.listener.drivers):
            guard._close(driver, ConnectFailed("NO_MEMORY", "all is in use", "Come again"))
        await eventually(lambda: not producing.connected)
        await channel.send(b"behind")
        await channel.finish()
        assert producing.statistics.acked == 2
        assert guard.counts.evicted == 1
    assert store.payloads("c") == [b"before", b"behind"]
    assert guard.budget.used == 0

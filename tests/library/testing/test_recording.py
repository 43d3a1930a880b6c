"""The endpoint that a job writes to, met by programs; by jobs in ``tests/docs/test_testing.py``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aqueduct import AuthFailed, ConnectionLost, channel, connect
from aqueduct.testing import RecordingServer


def test_it_tells_what_came(tmp_path: Path) -> None:
    async def send() -> None:
        async with connect(server.url, tls=server.client_tls) as connection:
            sender, receiver = channel(name="orders")
            await connection.entrypoint.send(b"", attach=receiver)
            for number in range(3):
                await sender.send(b"%d" % number, headers={"batch": "7"})
            await sender.finish()

    with RecordingServer(tmp_path) as server:
        asyncio.run(send())
        assert server.wait_for(3, "orders") == [b"0", b"1", b"2"]
        came = [each for each in server.received if each.channel == "orders"]
        assert [(each.number, each.reliable, each.header("batch")) for each in came] == [
            (number, True, b"7") for number in range(3)
        ]
        assert came[0].header("row") is None
        assert server.payloads("0") == [b""]
        assert server.options["endpoint"] == server.url
        assert Path(server.options["tls.caFile"]).exists()
        with pytest.raises(TimeoutError, match="3 of 4 messages came on channel 'orders'"):
            server.wait_for(4, "orders", timeout=0)
        assert "3" not in repr(server.received[-1].payload[:0])
    assert server.payloads("orders") == [b"0", b"1", b"2"]


def test_it_sends_what_it_offers(tmp_path: Path) -> None:
    async def ask(name: str) -> list[bytes]:
        async with connect(server.url, tls=server.client_tls) as connection:
            sender, receiver = channel(name=name)
            await connection.entrypoint.send(b"please", attach=sender)
            return [message.payload async for message in receiver]

    with RecordingServer(tmp_path) as server:
        server.offer("orders", [b"a", b"b"])
        assert asyncio.run(ask("orders")) == [b"a", b"b"]
        assert asyncio.run(ask("unknown")) == []


def test_it_cuts_connections_and_demands_its_token(tmp_path: Path) -> None:
    async def wait() -> None:
        async with connect(server.url, tls=server.client_tls, token="right") as connection:
            sender, receiver = channel()
            await connection.entrypoint.send_and_wait(b"here", attach=receiver)
            server.cut()
            await sender.finish()

    async def come() -> None:
        await connect(server.url, tls=server.client_tls, token="wrong")

    with RecordingServer(tmp_path, token="right") as server:
        with pytest.raises(ConnectionLost, match="cut by the test"):
            asyncio.run(wait())
        with pytest.raises(AuthFailed):
            asyncio.run(come())
        assert server.payloads("0") == [b"here"]

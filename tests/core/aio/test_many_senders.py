"""Many channels that begin at once, over a real connection whose window they fill."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.serve import serve
from aqueduct_core.transport.settings import LEAST_WINDOW, LinkSettings
from tests.support.event_loop import client_tls, in_loop, server_tls

CHANNELS = 600
SIZE = 1_000


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_what_they_send_does_not_take_the_credit_of_what_brings_them(mode: str) -> None:
    """Nobody could read it before its channel came, so the credit would not come back either."""
    window = LinkSettings(stream_window=LEAST_WINDOW, connection_window=LEAST_WINDOW)
    assert CHANNELS * SIZE > 2 * LEAST_WINDOW
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), settings=window) as server,
        connect(server.url, tls=client_tls()) as client,
    ):
        served = await server.accept()

        async def send() -> None:
            sender, receiver = channel(mode)
            await client.entrypoint.send(b"", attach=receiver)
            await sender.send(bytes(SIZE))
            await sender.finish()

        async def receive(receiver: Receiver) -> int:
            return sum([len(message.payload) async for message in receiver])

        sending = [asyncio.create_task(send()) for _ in range(CHANNELS)]
        receiving = []
        async for message in served.entrypoint:
            for half in message.attachments:
                assert isinstance(half, Receiver)
                receiving.append(asyncio.create_task(receive(half)))
            if len(receiving) == CHANNELS:
                break
        assert set(await asyncio.gather(*receiving)) == {SIZE}
        await asyncio.gather(*sending)

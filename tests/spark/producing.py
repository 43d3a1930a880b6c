"""Producers for tests: real connections of the asyncio API, run to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.ledger import SenderStatistics
from aqueduct_core.transport.tls import ClientTls

TIMEOUT = 60.0
INSECURE = ClientTls(insecure=True)


def produce(
    endpoint: str,
    payloads: Iterable[bytes],
    *,
    name: str = "readings",
    mode: str = "ordered",
    producer: str = "tester",
    token: str | None = None,
    channel_headers: Sequence[tuple[str, str]] = (),
    message_headers: Sequence[tuple[str, str]] = (),
) -> SenderStatistics:
    """Send everything on one channel, wait for all acks, finish, close."""

    async def run() -> SenderStatistics:
        async with connect(endpoint, tls=INSECURE, producer=producer, token=token) as connection:
            sender, receiver = channel(mode, name=name, headers=channel_headers)
            await connection.entrypoint.send(b"", attach=receiver)
            if message_headers:
                for payload in payloads:
                    await sender.send(payload, headers=message_headers)
            else:
                await sender.send_many(payloads)
            await sender.flush()
            await sender.finish()
            return sender.statistics

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT))


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]

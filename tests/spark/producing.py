"""Producers for tests: real connections of the asyncio API, run to their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.waiting import LONG

TIMEOUT = LONG
INSECURE = ClientTls(insecure=True)


def produce(
    endpoint: str,
    payloads: Iterable[bytes],
    *,
    name: str = "readings",
    mode: str = "ordered",
    producer: str = "tester",
    token: str | None = None,
    tls: ClientTls = INSECURE,
    channel_headers: Sequence[tuple[str, str]] = (),
    message_headers: Sequence[tuple[str, str]] = (),
) -> SenderStatistics:
    """Send everything on one channel, wait for all acks, finish, close."""

    async def run() -> SenderStatistics:
        async with connect(endpoint, tls=tls, producer=producer, token=token) as connection:
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


class Flow:
    """A producer in a thread of its own that keeps what is not acked and sends it again.

    Its counters go up while it runs; ``finish`` ends it in good order, with all acked.
    """

    def __init__(
        self, endpoint: str, *, name: str = "flow", pause: float = 0.002, idle: float = 2.0
    ) -> None:
        self._endpoint = endpoint
        self._name = name
        self._pause = pause
        self._idle = idle
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self.messages = 0
        self.acked = 0
        self.reconnects = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(TIMEOUT)

    def finish(self) -> None:
        """Stop sending and return when every message is acked. Raises what the producer raised."""
        self._over.set()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the producer did not come to its end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self._failure = error

    async def _send(self) -> None:
        async with Producer(
            self._endpoint,
            producer="flow",
            tls=INSECURE,
            give_up_after=TIMEOUT,
            settings=LinkSettings(idle_timeout=self._idle),
        ) as producer:
            channel = producer.channel(self._name)
            while not self._over.is_set():
                await channel.send(b"message %d" % self.messages)
                self.messages += 1
                self.acked = producer.statistics.acked
                self.reconnects = producer.statistics.reconnects
                await asyncio.sleep(self._pause)
            await channel.finish()

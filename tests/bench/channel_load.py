"""Loads of a connection whose cost is in its channels and turns, not in its bytes.

``python -m tests.bench.channel_load active CHANNELS MESSAGES`` and so on: a client here, a server
in another process that reads everything; prints ``Costs`` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.transport import ClientTls, ServerTls
from tests.bench.measuring import percentile
from tests.support.waiting import environment

PAYLOAD = b"m" * 100
HERE = (sys.executable, "-W", "ignore", "-m", "tests.bench.channel_load")
ATTACHED = 100
"""Channels that go with one message."""


def run(load: str, *counts: int) -> Costs:
    """One load in processes of its own."""
    done = subprocess.run(
        [*HERE, load, *map(str, counts)], env=environment(), stdout=subprocess.PIPE, check=True
    )
    return Costs(*json.loads(done.stdout))


async def receive_all() -> None:
    """Be the server; tell port and, for each line that comes, the CPU used so far."""
    reading: set[asyncio.Task[None]] = set()

    async def read(receiver: Receiver) -> None:
        with suppress(ConnectionLost):
            async for batch in receiver.batches():
                for index in list(batch.carried):
                    for half in batch.attachments(index):
                        assert isinstance(half, Receiver)
                        task = asyncio.create_task(read(half))
                        reading.add(task)
                        task.add_done_callback(reading.discard)

    def answer() -> None:
        for _ in sys.stdin:
            print(time.process_time(), flush=True)

    async with serve("127.0.0.1", 0, tls=ServerTls.self_signed()) as server:
        print(server.address[1], flush=True)
        Thread(target=answer, daemon=True).start()
        async for connection in server:
            await read(connection.entrypoint)
            await connection.wait_closed()
            return


class Costs(NamedTuple):
    """Microseconds of CPU of either end for each message or channel; milliseconds to the ack."""

    client: float
    server: float
    ack: float = 0.0
    ack_late: float = 0.0

    def both(self) -> float:
        return self.client + self.server


class Meter:
    """CPU of this process and of the server's, for each of ``count``."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server
        self._began = self._now()

    def result(self, count: int) -> Costs:
        ends = zip(self._began, self._now(), strict=True)
        return Costs(*((now - began) / count * 1e6 for began, now in ends))

    def _now(self) -> tuple[float, float]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(file=self._server.stdin, flush=True)
        return time.process_time(), float(self._server.stdout.readline())


async def opened(connection: ClientConnection, count: int) -> list[Sender]:
    senders = []
    for _ in range(0, count, ATTACHED):
        pairs = [channel() for _ in range(min(ATTACHED, count - len(senders)))]
        await connection.entrypoint.send(b"", attach=[receiver for _, receiver in pairs])
        senders += [sender for sender, _ in pairs]
        if len(senders) % 1_000 == 0:
            await connection.entrypoint.flush()
    await connection.entrypoint.flush()
    for sender in senders:
        await sender.send(b"")
    await asyncio.gather(*(sender.flush() for sender in senders))
    return senders


async def active(
    connection: ClientConnection, meter: Callable[[], Meter], channels: int, messages: int
) -> Costs:
    """Every channel has a task that sends one message after the other, as all others do."""
    senders = await opened(connection, channels)

    async def send(sender: Sender) -> None:
        for _ in range(messages // channels):
            await sender.send(PAYLOAD)
            await asyncio.sleep(0)
        await sender.flush()

    measured = meter()
    await asyncio.gather(*map(send, senders))
    return measured.result(messages)


async def finish(connection: ClientConnection, meter: Callable[[], Meter], channels: int) -> Costs:
    senders = await opened(connection, channels)
    measured = meter()
    await asyncio.gather(*(sender.finish() for sender in senders))
    return measured.result(channels)


async def bulk(
    connection: ClientConnection, meter: Callable[[], Meter], mode: int, messages: int
) -> Costs:
    """Lines in bulk on one channel of that mode, by its place among all modes."""
    sender, receiver = channel(list(Mode)[mode])
    await connection.entrypoint.send(b"", attach=receiver)
    await connection.entrypoint.flush()
    measured = meter()
    await sender.send_many([PAYLOAD] * messages)
    await sender.finish()
    return measured.result(messages)


async def single(
    connection: ClientConnection, meter: Callable[[], Meter], rate: int, messages: int
) -> Costs:
    """One message after the other on one channel, ``rate`` of them a second, each by itself; with
    the time from when each was due to its ack, p50 and p99, in milliseconds."""
    (sender,) = await opened(connection, 1)
    loop = asyncio.get_running_loop()
    waits: list[float] = []

    def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
        now = loop.time()
        waits.extend(
            now - began - number / rate for number in range(len(waits), len(waits) + stop - first)
        )

    sender.observe(settled, lambda: None)
    measured = meter()
    began = loop.time()
    for number in range(messages):
        await asyncio.sleep(began + number / rate - loop.time())
        await sender.send(PAYLOAD)
    await sender.flush()
    took = [percentile(waits, percent) * 1e3 for percent in (50, 99)]
    return measured.result(messages)._replace(ack=took[0], ack_late=took[1])


async def dial(load: Callable[..., Awaitable[Costs]], counts: list[int]) -> None:
    server = subprocess.Popen(
        [*HERE, "serve"],
        env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    url = f"aqueduct://127.0.0.1:{int(server.stdout.readline())}"
    try:
        async with connect(url, tls=ClientTls(insecure=True)) as connection:
            result = await load(connection, lambda: Meter(server), *counts)
            connection.abort()
    finally:
        server.kill()
        server.wait()
    print(json.dumps(result))


LOADS = {"active": active, "bulk": bulk, "finish": finish, "single": single}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(receive_all())
    else:
        asyncio.run(dial(LOADS[sys.argv[1]], [int(word) for word in sys.argv[2:]]))

"""A crowd of producers in one process: ``python -m tests.soak.crowd`` (told what to do by `many`).

Goes on with each line on standard input: connect, attach all channels, send, finish; standard
output gets one JSON object for each step, with the seconds that it took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aqueduct import Sender, channel, connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.faults.ledger import payload

AT_ONCE = 8
"""Handshakes of one process under way at a time."""

LINK = LinkSettings(idle_timeout=120.0, handshake_timeout=60.0)


class Crowd:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._connections: list[ClientConnection] = []
        self._senders: list[Sender] = []

    async def connect(self) -> None:
        first = self._options.first
        numbers = range(first, first + self._options.connections)
        self._connections = await asyncio.gather(*(self._dial(number) for number in numbers))

    async def attach(self) -> None:
        made = await asyncio.gather(*(self._open(one) for one in self._connections))
        self._senders = [sender for senders in made for sender in senders]
        await asyncio.gather(*(one.entrypoint.flush() for one in self._connections))

    async def send(self) -> None:
        size = self._options.size
        parts = [payload(number, size) for number in range(self._options.messages)]
        await asyncio.gather(*(sender.send_many(parts) for sender in self._senders))
        await asyncio.gather(*(sender.flush() for sender in self._senders))

    async def finish(self) -> None:
        await asyncio.gather(*(sender.finish() for sender in self._senders))
        acked = sum(sender.statistics.acked for sender in self._senders)
        assert acked == len(self._senders) * self._options.messages, acked
        await asyncio.gather(*(one.close() for one in self._connections))

    async def _dial(self, number: int) -> ClientConnection:
        async with self._gate:
            return await connect(
                self._options.endpoint,
                tls=ClientTls(insecure=True),
                producer=f"c{number}",
                settings=LINK,
            )

    async def _open(self, connection: ClientConnection) -> list[Sender]:
        """The channels of one connection, a hundred a message."""
        senders = []
        left = self._options.channels
        while left:
            pairs = [channel(name=f"k{left - i - 1}") for i in range(min(100, left))]
            await connection.entrypoint.send(b"", attach=[receiver for _, receiver in pairs])
            senders += [sender for sender, _ in pairs]
            left -= len(pairs)
        return senders


async def run(options: argparse.Namespace) -> None:
    crowd = Crowd(options)
    steps: dict[str, Callable[[], Awaitable[Any]]] = {
        "connect": crowd.connect,
        "attach": crowd.attach,
        "send": crowd.send,
        "finish": crowd.finish,
    }
    for name, step in steps.items():
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        begun = time.monotonic()
        await step()
        print(json.dumps({"step": name, "seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", required=True)
    for name in ("first", "connections", "channels", "messages", "size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asyncio.run(run(parser.parse_args()))

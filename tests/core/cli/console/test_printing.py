"""A reader that does not read stops nobody but itself."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from aqueduct import channel, connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.cli.running import Listener, listening, read_all, send_payloads
from tests.support.waiting import LONG

PIECES = 300
"""Of 1,000 bytes: more than a pipe holds, and fewer than the windows."""


def test_a_full_pipe_stops_no_acks_and_no_interrupt(certificates: Path) -> None:
    """Nobody reads standard output: another connection is served, and Ctrl-C ends it."""
    with unread(certificates) as (listener, _):
        asyncio.run(
            send_payloads(listener.url, certificates, *(bytes(1_000) for _ in range(PIECES)))
        )
        asyncio.run(send_payloads(listener.url, certificates, b"still there"))
        listener.process.send_signal(signal.SIGINT)
        assert listener.process.wait(LONG) == 130


def test_what_waited_in_a_full_pipe_comes_whole_and_in_order(certificates: Path) -> None:
    """Many times what may wait: the sender stands still until somebody reads, and then goes on."""
    lines = [b"%06d " % i + b"x" * 1_000 for i in range(30_000)]

    async def produce(url: str, reading: asyncio.Event) -> None:
        tls = ClientTls(ca_file=certificates / "ca.pem")
        async with connect(url, tls=tls) as connection:
            sender, receiver = channel("ordered", name="many")
            await connection.entrypoint.send(b"", attach=receiver)
            sending = asyncio.create_task(sender.send_many(lines))
            await _stands_still(connection)
            assert not sending.done()
            reading.set()
            await sending
            await sender.finish()

    async def both(listener: Listener, reads: int) -> bytes:
        reading = asyncio.Event()
        producing = asyncio.create_task(produce(listener.url, reading))
        await reading.wait()
        got = await asyncio.to_thread(read_all, reads)
        await producing
        return got

    with unread(certificates, "-c", str(len(lines))) as (listener, reads):
        got = asyncio.run(both(listener, reads))
        assert listener.process.wait(LONG) == 0
    assert got.split(b"\n") == [*lines, b""]


class unread:
    """A listener whose standard output is a pipe that only the test reads."""

    def __init__(self, certificates: Path, *arguments: str) -> None:
        self._reads, self._writes = os.pipe()
        self._listening = listening(certificates, *arguments, stdout=self._writes)

    def __enter__(self) -> tuple[Listener, int]:
        listener = self._listening.__enter__()
        os.close(self._writes)
        return listener, self._reads

    def __exit__(self, *error: object) -> None:
        self._listening.__exit__(*error)  # type: ignore[arg-type]
        os.close(self._reads)


async def _stands_still(connection: ClientConnection) -> None:
    """Nothing more leaves, for several looks in a row: the windows are full."""
    still, before = 0, -1
    while still < 10:
        await asyncio.sleep(0.05)
        now = connection.bytes_delivered
        still = still + 1 if now == before and now > 0 else 0
        before = now

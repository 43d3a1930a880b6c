"""What an idle connection and an open channel hold, beside a stock server's connection and stream.

    python -m tests.bench.memory [--repetitions 3]

A server in a process of its own tells its resident memory before and after a client has opened so
many connections, or streams or channels of one. Ours is the asyncio server with its engine; the
stock one only counts bytes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import IO

from aioquic.asyncio.client import connect as connect_stock
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve as serve_stock
from aioquic.quic.configuration import QuicConfiguration

from aqueduct import channel, connect, serve
from aqueduct_core.transport import ClientTls, ServerTls
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.sheet import Sheet
from tests.support.processes import resident_bytes
from tests.support.waiting import environment

ALPN = "bench"
STOCK, OURS = "stock aioquic", "ours"
CONNECTIONS = 200
CHANNELS = 5_000
AT_ONCE = 100
"""Channels that are opened between two waits for the server to have them."""
SETTLE = 1.0
"""Seconds in which acknowledgements go and come."""


async def serve_until_told(kind: str) -> None:
    """Say the port; then, for each line of input, the resident memory."""
    tls = ServerTls.self_signed()
    async with AsyncExitStack() as stack:
        if kind == STOCK:
            port = await _serve_stock(tls)
        else:
            server = await stack.enter_async_context(serve("127.0.0.1", 0, tls=tls))
            port = server.address[1]
            tasks = [asyncio.create_task(_accept(server))]
            stack.callback(tasks[0].cancel)
        print(port, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(resident_bytes(os.getpid()), flush=True)


async def _accept(server: object) -> None:
    kept = []
    async for connection in server:  # type: ignore[attr-defined]
        kept.append((connection, asyncio.create_task(_keep(connection))))


async def _keep(connection: object) -> None:
    kept = []
    async for message in connection.entrypoint:  # type: ignore[attr-defined]
        kept += message.attachments


class ManyStreams(QuicConnectionProtocol):
    """A stock connection whose peer may open as many streams as ours."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        limit = self._quic._local_max_streams_uni
        limit.value = limit.sent = 65_536


async def _serve_stock(tls: ServerTls) -> int:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[ALPN])
    configuration.idle_timeout = 300.0
    configuration.certificate = tls.identity.certificate
    configuration.private_key = tls.identity.key
    server = await serve_stock(
        "127.0.0.1", 0, configuration=configuration, create_protocol=ManyStreams
    )
    assert server._transport is not None
    return int(server._transport.get_extra_info("sockname")[1])


async def open_and_hold(kind: str, port: int, connections: int, channels: int) -> None:
    """Open so many, say so, and keep them until the input ends."""
    async with AsyncExitStack() as stack:
        for _ in range(connections):
            if kind == STOCK:
                await _open_stock(stack, port, channels)
            else:
                await _open_ours(stack, port, channels)
        await asyncio.sleep(SETTLE)
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        os._exit(0)  # thousands of good-byes would be measured by nobody


async def _open_stock(stack: AsyncExitStack, port: int, channels: int) -> None:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[ALPN])
    configuration.idle_timeout, configuration.verify_mode = 300.0, 0
    client = await stack.enter_async_context(
        connect_stock("127.0.0.1", port, configuration=configuration)
    )
    for number in range(channels):
        stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
        client._quic.send_stream_data(stream, b"open")
        if number % AT_ONCE == AT_ONCE - 1:
            client.transmit()
            await client.ping()
    client.transmit()


async def _open_ours(stack: AsyncExitStack, port: int, channels: int) -> None:
    connection = await stack.enter_async_context(
        connect(f"aqueduct://127.0.0.1:{port}", tls=ClientTls(insecure=True))
    )
    await connection.accepted()
    for number in range(channels):
        sender, receiver = channel(mode="ordered")
        stack.push(lambda *_, sender=sender: None)  # kept
        await connection.entrypoint.send(b"", attach=receiver)
        await sender.send(b"open")
        if number % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0.05)


@contextmanager
def process(*words: object) -> Iterator[tuple[IO[str], IO[str]]]:
    """Input and output of this module in a process of its own."""
    started = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.bench.memory", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        yield started.stdin, started.stdout
    finally:
        started.kill()
        started.wait()
        started.stdin.close()
        started.stdout.close()


def ask(pipes: tuple[IO[str], IO[str]]) -> int:
    pipes[0].write("\n")
    pipes[0].flush()
    return int(pipes[1].readline())


def held(kind: str, connections: int, channels: int) -> float:
    """Bytes of resident memory that each of them takes, in the server."""
    with process("serve", kind) as server:
        port = int(server[1].readline())
        with process("open", kind, port, 1, 0) as first:  # what the first one loads
            assert first[1].readline()
        before = ask(server)
        with process("open", kind, port, connections, channels) as client:
            if not client[1].readline():
                raise RuntimeError(f"{kind}: {connections} connections did not open")
            return (ask(server) - before) / (channels or connections)


def compare(effort: Effort, sheet: Sheet) -> None:
    for name, counts, goal in (
        ("an idle connection", (CONNECTIONS, 0), "G16-connection"),
        ("an open channel", (1, CHANNELS), "G16-channel"),
    ):
        kinds = {kind: partial(held, kind, *counts) for kind in (STOCK, OURS)}
        runs = list(in_turns(kinds, effort, sheet))
        for kind in kinds:
            sheet.add(f"{name}, {kind}", "KiB", [run[kind] / 1024 for run in runs])
        over = ratios(runs, OURS, STOCK, lambda size: size)
        sheet.add(f"{name}, ours over stock", "x", over, goal)


BENCH = Bench(
    "memory", "what an idle connection and an open channel hold, over stock", compare, repetitions=3
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve_until_told(sys.argv[2]))
    elif sys.argv[1:2] == ["open"]:
        kind, *numbers = sys.argv[2:]
        asyncio.run(open_and_hold(kind, *map(int, numbers)))
    else:
        BENCH.run()

"""One end of a connection as a process of its own: ``python -m tests.interop.peer listen|send``.

Standard output has one JSON object a line. ``listen`` says where it listens; then, when as many
channels as asked for have ended, what came on each; it runs until its standard input ends.
``send`` opens one channel for each mode, sends, finishes, and says what became of each message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from aqueduct import Receiver, Sender, Server, channel, connect, serve
from aqueduct_core.aio.outcomes import Outcome
from aqueduct_core.transport import ClientTls, LinkSettings, ServerTls
from aqueduct_core.transport.settings import SMALLEST_DATAGRAM


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


def settings(options: argparse.Namespace) -> LinkSettings:
    """Datagrams stay small, so that the tests know how many messages one holds."""
    return LinkSettings(
        idle_timeout=options.idle_timeout,
        handshake_timeout=20,
        max_datagram_size=SMALLEST_DATAGRAM,
    )


async def listen(options: argparse.Namespace) -> None:
    tls = ServerTls.self_signed()
    async with serve("127.0.0.1", 0, tls=tls, settings=settings(options)) as server:
        say(port=server.address[1], certificate=tls.cert_pem.decode())
        connections = []
        receivers: list[asyncio.Task[dict[str, Any]]] = []
        taking = asyncio.create_task(take(server, connections, receivers, options.channels))
        await taking
        say(channels=await asyncio.gather(*receivers), connections=len(connections))
        await asyncio.to_thread(sys.stdin.read)
        for connection in connections:
            connection.abort("over")


async def take(
    server: Server, connections: list[Any], receivers: list[asyncio.Task[Any]], wanted: int
) -> None:
    async for connection in server:
        connections.append(connection)
        async for message in connection.entrypoint:
            for half in message.attachments:
                assert isinstance(half, Receiver)
                receivers.append(asyncio.create_task(collect(half)))
            if len(receivers) == wanted:
                return


async def collect(receiver: Receiver) -> dict[str, Any]:
    """Everything that came: index in the payload, number and number space, in order."""
    got = []
    try:
        async for message in receiver:
            index = int.from_bytes(message.payload[:4], "big")
            got.append((index, message.number, message.reliable))
        end = "finished"
    except Outcome as outcome:
        end = type(outcome).__name__
    return {
        "name": receiver.name,
        "got": got,
        "end": end,
        "nacked": receiver.statistics.nacked,
        "late": receiver.counts.late,
    }


async def send(options: argparse.Namespace) -> None:
    certificate = json.loads(sys.stdin.readline())["certificate"]
    async with connect(
        f"aqueduct://127.0.0.1:{options.port}",
        tls=ClientTls(ca_pem=certificate.encode()),
        settings=settings(options),
    ) as connection:
        senders = []
        for mode in options.modes:
            sender, receiver = channel(mode, name=mode)
            await connection.entrypoint.send(b"", attach=receiver)
            senders.append(sender)
        await connection.entrypoint.flush()
        say(ready=True)
        told = await asyncio.gather(*(fill(sender, options) for sender in senders))
        say(channels=told, lost=connection.closed is not None)


async def fill(sender: Sender, options: argparse.Namespace) -> dict[str, Any]:
    acked: list[tuple[bool, int, int]] = []
    nacked: list[tuple[bool, int, int]] = []

    def settled(reliable: bool, first: int, stop: int, is_acked: bool) -> None:
        (acked if is_acked else nacked).append((reliable, first, stop))

    sender.observe(settled, lambda: None)
    name, filler = sender.name, bytes(options.size - 4)
    for index in range(options.count):
        await sender.send(index.to_bytes(4, "big") + filler)
        await asyncio.sleep(options.pause)
    await sender.finish()
    counts = sender.statistics
    return {
        "name": name,
        "acked": acked,
        "nacked": nacked,
        "totals": (counts.sent, counts.acked, counts.nacked),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("listen", "send"))
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--port", type=int)
    parser.add_argument("--modes", nargs="*", default=["ordered"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--size", type=int, default=700)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--idle-timeout", type=float, default=20.0)
    options = parser.parse_args()
    asyncio.run(listen(options) if options.role == "listen" else send(options))


if __name__ == "__main__":
    main()

"""Many connections at one intake: what a message costs with 500 against 50, and what is dropped.

As many messages in all are sent over 50 connections and over 500, each with one ordered channel, in
two ways. CPU is that of the intake and its sync process, for a message.

*At once*: all are there before the first message; then all send what they have, which is what the
kernel's buffer has to take. This is the harder one, and has the goal: 200 messages or so of a
connection are two or three flights of slow start, so a message of 500 connections has ten times as
many flights, acknowledgements and groups as one of 50, and most of its cost is in these.

*Steady*: windows are warm, and a flight of 20 messages leaves every 2 ms from the next connection.
A message has as many flights with 500 connections as with 50: what is left is what having them
costs.

Datagrams that the kernel drops are counted at the socket of the intake, and at those of its
clients, which all belong to one process.

    python -m tests.bench.connections [--repetitions N] [--seconds S]
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from aqueduct import channel, connect
from aqueduct_core.aio.halves import Sender
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.intakes import intake_process
from tests.bench.measuring import Bench, CpuMeter, Effort, dropped_at, in_turns, ratios
from tests.bench.sheet import Sheet
from tests.support.waiting import environment

FEW, MANY = 50, 500
PAYLOAD = 100
RATE = 25_000
"""Messages of a run for each second of it, about."""
FLIGHT, EVERY = 20, 0.002
"""Messages of a flight of the steady load, and seconds from one to the next."""
AT_ONCE = 16
"""Handshakes under way at a time."""
SEND = "--send"
SENDER = (sys.executable, "-W", "ignore", "-m", "tests.bench.connections", SEND)


class Run(NamedTuple):
    """Microseconds of CPU for a message, messages a second until all were acked, datagrams
    dropped at the intake's socket and at those of its clients."""

    cost: float
    speed: float
    drops: int
    drops_at_clients: int


async def send(endpoint: str, connections: int, messages: int, steady: bool) -> None:
    """Connect, say so, wait for a line, send; one more line when everything is acked."""
    free = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:

        async def begin(number: int) -> Sender:
            async with free:
                connection = await stack.enter_async_context(
                    connect(endpoint, tls=ClientTls(insecure=True), producer=f"p{number}")
                )
                sender, receiver = channel(mode="ordered", name="bench")
                await connection.entrypoint.send(b"", attach=receiver)
                await connection.entrypoint.flush()
                return sender

        async def whole(sender: Sender) -> None:
            await sender.send_many([bytes(PAYLOAD)] * (messages // connections))
            await sender.flush()

        senders = await asyncio.gather(*(begin(number) for number in range(connections)))
        if steady:
            await asyncio.gather(*map(whole, senders))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        if steady:
            await in_flights(senders, messages)
        else:
            await asyncio.gather(*map(whole, senders))
        print("acked", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def in_flights(senders: list[Sender], messages: int) -> None:
    """Each flight is begun in its time, whatever became of those before."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for number in range(messages // FLIGHT):
            sender = senders[number % len(senders)]
            tasks.create_task(sender.send_many([bytes(PAYLOAD)] * FLIGHT))
            await asyncio.sleep(begun + (number + 1) * EVERY - loop.time())
    for sender in senders:
        await sender.flush()


def measure(connections: int, messages: int, steady: bool) -> Run:
    with (
        tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder,
        intake_process(Path(folder)) as running,
        subprocess.Popen(
            [*SENDER, running.endpoint, str(connections), str(messages), str(int(steady))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as sender,
    ):
        assert sender.stdin is not None
        assert sender.stdout is not None
        assert sender.stdout.readline() == "ready\n"
        meter, begun = CpuMeter(running.pid), time.perf_counter()
        sender.stdin.write("\n")
        sender.stdin.flush()
        assert sender.stdout.readline() == "acked\n"
        wall, used = time.perf_counter() - begun, meter.used()
        drops = running.drops, dropped_at(sender.pid)  # it keeps its sockets until it is killed
        sender.kill()
    return Run(used / messages * 1e6, messages / wall, *drops)


def compare(effort: Effort, sheet: Sheet) -> None:
    messages = int(RATE * effort.seconds)
    paced = int(FLIGHT / EVERY * effort.seconds) // (FLIGHT * MANY) * FLIGHT * MANY
    kinds = {
        f"{count} connections{way}": partial(measure, count, total // count * count, bool(way))
        for way, total in (("", messages), (", steady", max(paced, FLIGHT * MANY)))
        for count in (FEW, MANY)
    }
    runs = list(in_turns(kinds, effort, sheet))
    for kind in kinds:
        sheet.add(f"{kind}, CPU a message", "µs", [run[kind].cost for run in runs])
        sheet.add(f"{kind}, messages a second", "1/s", [run[kind].speed for run in runs])
    few, many, few_steady, many_steady = kinds
    over = ratios(runs, many, few, lambda run: run.cost)
    sheet.add(f"a message with {MANY} over {FEW} connections", "x", over, "connections")
    over = ratios(runs, many_steady, few_steady, lambda run: run.cost)
    sheet.add(f"a message with {MANY} over {FEW} connections, steady", "x", over)
    for kind in kinds:
        sheet.add(f"{kind}, dropped at the intake", "", [run[kind].drops for run in runs])
        at_clients = [run[kind].drops_at_clients for run in runs]
        sheet.add(f"{kind}, dropped at its clients", "", at_clients)
    drops = [max(each.drops + each.drops_at_clients for each in run.values()) for run in runs]
    sheet.add("datagrams dropped at both ends", "", drops, "drops")


BENCH = Bench("connections", "many connections at one intake: cost of a message, drops", compare)

if __name__ == "__main__":
    if sys.argv[1:2] == [SEND]:
        asyncio.run(send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "1"))
    else:
        BENCH.run()

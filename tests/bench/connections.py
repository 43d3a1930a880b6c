"""Many connections at one intake: what a message costs with 500 against 50, and what is dropped.

As many messages in all are sent over 50 connections and over 500, each with one ordered channel.
All are there before the first message; then all send what they have at once, which is what the
kernel's buffer has to take. CPU is that of the intake and its sync process, for a message.

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

from aqueduct_core.aio import channel, connect
from aqueduct_core.aio.halves import Sender
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.intakes import intake_process
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, ratios
from tests.bench.sheet import Sheet
from tests.support.waiting import environment

FEW, MANY = 50, 500
PAYLOAD = 100
RATE = 25_000
"""Messages of a run for each second of it, about."""
AT_ONCE = 16
"""Handshakes under way at a time."""
SEND = "--send"
SENDER = (sys.executable, "-W", "ignore", "-m", "tests.bench.connections", SEND)


class Run(NamedTuple):
    """Microseconds of CPU for a message, seconds until all were acked, datagrams dropped."""

    cost: float
    wall: float
    drops: int


async def send(endpoint: str, connections: int, messages: int) -> None:
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

        senders = await asyncio.gather(*(begin(number) for number in range(connections)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        part = [bytes(PAYLOAD)] * (messages // connections)

        async def whole(sender: Sender) -> None:
            await sender.send_many(part)
            await sender.flush()

        await asyncio.gather(*map(whole, senders))
        print("acked", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


def measure(connections: int, messages: int) -> Run:
    with (
        tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder,
        intake_process(Path(folder)) as running,
        subprocess.Popen(
            [*SENDER, running.endpoint, str(connections), str(messages)],
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
        drops = running.drops
        sender.kill()
    return Run(used / messages * 1e6, wall, drops)


def compare(effort: Effort, sheet: Sheet) -> None:
    messages = int(RATE * effort.seconds)
    kinds = {
        f"{count} connections": partial(measure, count, messages // count * count)
        for count in (FEW, MANY)
    }
    runs = list(in_turns(kinds, effort, sheet))
    few, many = kinds
    for kind in kinds:
        sheet.add(f"{kind}, CPU a message", "µs", [run[kind].cost for run in runs])
        sheet.add(f"{kind}, messages a second", "1/s", [messages / run[kind].wall for run in runs])
    over = ratios(runs, many, few, lambda run: run.cost)
    sheet.add(f"a message with {MANY} over {FEW} connections", "x", over, "connections")
    drops = [max(each.drops for each in run.values()) for run in runs]
    sheet.add("datagrams dropped", "", drops, "drops")


BENCH = Bench("connections", "many connections at one intake: cost of a message, drops", compare)

if __name__ == "__main__":
    if sys.argv[1:2] == [SEND]:
        asyncio.run(send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        BENCH.run()

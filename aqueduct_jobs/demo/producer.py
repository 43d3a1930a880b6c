"""A producer of the demo: one channel of this machine's telemetry, for a number of seconds.

    python -m aqueduct_jobs.demo.producer load --mode unreliable --endpoint aqueduct://… …

``processes`` tells each change of the process table (kept and sent again by a ``Producer`` if the
connection is lost), ``counters`` the network and disk counters, ``load`` the load of each core at
50 Hz. The channel is made by attaching it to an entrypoint message. What became of every message
is written to ``--ledger`` once a second and at the end, after FINISH.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from aqueduct import Producer, channel, connect
from aqueduct_core.errors import AqueductError
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_jobs.demo.ledger import LedgerFile

Reading = dict[str, Any]
Sensor = Callable[[], Iterator[list[Reading]]]


def process_changes() -> Iterator[list[Reading]]:
    """Each step: what started, ended, or used the processor since the step before."""
    known: dict[int, float] = {}
    while True:
        seen: dict[int, float] = {}
        changes: list[Reading] = []
        for process in psutil.process_iter(["pid", "name", "cpu_times", "memory_info"]):
            info = process.info
            if info["cpu_times"] is None or info["memory_info"] is None:
                continue
            used = info["cpu_times"].user + info["cpu_times"].system
            seen[info["pid"]] = used
            before = known.get(info["pid"])
            if before != used:
                event = "started" if before is None else "worked"
                changes.append(
                    {
                        "event": event,
                        "pid": info["pid"],
                        "name": info["name"],
                        "cpu_seconds": round(used, 2),
                        "resident_bytes": info["memory_info"].rss,
                    }
                )
        changes += [{"event": "ended", "pid": pid} for pid in known.keys() - seen.keys()]
        known = seen
        yield changes


def io_counters() -> Iterator[list[Reading]]:
    """Each step: the totals of network and disks since the machine started."""
    while True:
        network = psutil.net_io_counters()
        disk = psutil.disk_io_counters()
        yield [
            {
                "sent_bytes": network.bytes_sent,
                "received_bytes": network.bytes_recv,
                "read_bytes": disk.read_bytes if disk else 0,
                "written_bytes": disk.write_bytes if disk else 0,
            }
        ]


def core_load() -> Iterator[list[Reading]]:
    """Each step: percent busy of each core since the step before."""
    psutil.cpu_percent(percpu=True)
    while True:
        yield [{"cores": psutil.cpu_percent(percpu=True)}]


SENSORS: dict[str, tuple[Sensor, float]] = {
    "processes": (process_changes, 0.5),
    "counters": (io_counters, 0.1),
    "load": (core_load, 0.02),
}
"""The sensors and the seconds between their steps."""


async def readings(name: str, seconds: float) -> Any:
    """The payloads of a sensor at its pace; a slow receiver makes steps late, never lost."""
    sensor, period = SENSORS[name]
    begun = time.monotonic()
    for step, found in enumerate(sensor()):
        at = time.time()
        for reading in found:
            yield json.dumps({"at": at, **reading}).encode()
        following = begun + (step + 1) * period
        if following - begun > seconds:
            return
        await asyncio.sleep(max(0.0, following - time.monotonic()))


async def produce_reliably(args: argparse.Namespace, ledger: LedgerFile, producer: str) -> None:
    """Ordered and unordered channels: what is not acked is kept, and sent again when need be."""
    tls = ClientTls(ca_file=args.ca)
    async with Producer(args.endpoint, producer=producer, tls=tls) as connection:
        sender = connection.channel(args.channel, args.mode)

        def note(now: float) -> None:
            counts = sender.statistics
            ledger.write(counts.sent, counts.acked, counts.nacked, counts.acked_ranges, (), now)

        async for payload in readings(args.channel, args.seconds):
            await sender.send(payload)
            if ledger.due(now := time.monotonic()):
                note(now)
        await sender.finish()
        note(time.monotonic())


async def produce_unreliably(args: argparse.Namespace, ledger: LedgerFile, producer: str) -> None:
    """A channel of datagrams: each message is acked or nacked by the receipt deadline."""
    acked = {True: RangeSet(), False: RangeSet()}
    tls = ClientTls(ca_file=args.ca)
    async with connect(args.endpoint, producer=producer, tls=tls) as connection:
        sender, receiver = channel(args.mode, name=args.channel)

        def settled(reliable: bool, first: int, stop: int, good: bool) -> None:
            if good:
                acked[reliable].add(first, stop)

        def note(now: float) -> None:
            counts = sender.statistics
            ledger.write(counts.sent, counts.acked, counts.nacked, acked[True], acked[False], now)

        sender.observe(settled, lambda: None)
        await connection.entrypoint.send(b"", attach=receiver)
        async for payload in readings(args.channel, args.seconds):
            await sender.send(payload)
            if ledger.due(now := time.monotonic()):
                note(now)
        await sender.finish()
        note(time.monotonic())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("channel", choices=sorted(SENSORS))
    parser.add_argument("--mode", choices=("ordered", "unordered", "unreliable"), required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--ca", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    args = parser.parse_args(argv)
    producer = f"demo-{args.channel}"
    ledger = LedgerFile(args.ledger, args.channel, args.mode, producer)
    produce = produce_unreliably if args.mode == "unreliable" else produce_reliably
    try:
        asyncio.run(produce(args, ledger, producer))
    except AqueductError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a relay of QUICR adds to the delay of objects, with one reader, with 20, and one stopped.

    python -m tests.bench.media_relay [--repetitions 5] [--seconds 4]

Origin, relay, publisher, and the readers together, are a process each. The publisher sends 1 Mbit/s
as 100 objects a second, at even distances, each with the time at which it was due: so what is late
at the publisher counts. Readers get them in datagrams, in the order of arrival. A reader that is
stopped is a process of its own, stopped by a signal once it has the media: it takes and
acknowledges nothing more.
"""

from __future__ import annotations

import asyncio
import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from aqueduct.quicr import connect
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.measuring import Bench, Effort, in_turns, percentile, ratios
from tests.bench.sheet import Sheet
from tests.support.processes import cpu_seconds
from tests.support.waiting import environment

RATE = 100
"""Objects a second."""
PAYLOAD = 1_250
WARM_SECONDS = 1.0
READERS = 20
URL = "bench/relay"
ROLE = (sys.executable, "-W", "ignore", "-m", "tests.bench.media_relay")
COMMAND = (sys.executable, "-W", "ignore", "-m", "aqueduct_core.cli.main", "quicr")
READY = "listening on "
LONGEST = 120
"""Seconds that a process is waited for, at most."""


class Delay(NamedTuple):
    """Milliseconds from when an object was due to a reader, of all readers; CPU of the last server
    on the way, in microseconds for an object and reader."""

    p50: float
    p99: float
    cpu: float


def due(begun: float, number: int) -> float:
    return begun + number / RATE


async def publish(endpoint: str, seconds: float) -> None:
    async with (
        connect(endpoint, tls=ClientTls(insecure=True)) as client,
        client.publish(URL, datagram=True) as publisher,
    ):
        begun = time.monotonic()
        for number in range(int(RATE * (WARM_SECONDS + seconds))):
            at = due(begun, number)
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            await publisher.send(struct.pack("d", at) + bytes(PAYLOAD - 8))


async def read(endpoint: str, readers: int) -> list[float]:
    """Seconds that each object took to each reader; says on its output when all have asked, and
    when all have the first object."""
    begun = asyncio.Semaphore(0)
    took: list[float] = []

    async def one() -> None:
        async with (
            connect(endpoint, tls=ClientTls(insecure=True)) as client,
            client.request(URL, datagram=True, order="arrival") as media,
        ):
            begun.release()
            async for each in media:
                if each.object == 0:
                    begun.release()
                if each.object >= RATE * WARM_SECONDS:
                    took.append(time.monotonic() - struct.unpack_from("d", each.payload)[0])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(readers):
            tasks.create_task(one())
        for word in ("asked", "begun"):
            for _ in range(readers):
                await begun.acquire()
            print(word, flush=True)
    return took


@contextmanager
def role(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone afterwards."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def server(*words: str) -> Iterator[tuple[str, int]]:
    """``aqueduct quicr origin`` or ``relay``: where it listens, and its process."""
    kind, *rest = words
    with role(*COMMAND, kind, "127.0.0.1:0", *rest, "--self-signed") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(READY):
                yield f"quicr://{line.removeprefix(READY).strip()}", process.pid
                return
        raise RuntimeError(f"{' '.join(words)}: it ended before it listened")


def said(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"a reader said {line!r}, not {word!r}")


def measure(seconds: float, *, relayed: bool, readers: int, stopped: bool = False) -> Delay:
    """One publisher at an origin, and readers there or at a relay of it."""
    with ExitStack() as running:
        origin, pid = running.enter_context(server("origin"))
        last = origin
        if relayed:
            last, pid = running.enter_context(server("relay", origin, "--insecure", "--datagrams"))
        reading = running.enter_context(role(*ROLE, "--read", last, str(readers)))
        said(reading, "asked")
        if stopped:
            silent = running.enter_context(role(*ROLE, "--read", last, "1"))
            said(silent, "asked")
        publisher = running.enter_context(role(*ROLE, "--publish", origin, str(seconds)))
        if stopped:
            said(silent, "begun")
            silent.send_signal(signal.SIGSTOP)
        said(reading, "begun")
        before = cpu_seconds(pid)
        out, errors = reading.communicate(timeout=LONGEST)
        used = cpu_seconds(pid) - before
        if reading.returncode or publisher.wait(LONGEST):
            raise RuntimeError(f"readers or publisher have failed: {errors}")
    took = [each * 1e3 for each in json.loads(out)]
    cpu = used * 1e6 / (RATE * (WARM_SECONDS + seconds)) / readers
    return Delay(percentile(took, 50), percentile(took, 99), cpu)


def compare(effort: Effort, sheet: Sheet) -> None:
    direct, one, many, stopped = "origin", "relay", "relay, 20", "relay, 20, one stopped"
    direct_many = "origin, 20"
    timed = partial(measure, effort.seconds)
    runs = list(
        in_turns(
            {
                direct: partial(timed, relayed=False, readers=1),
                one: partial(timed, relayed=True, readers=1),
                direct_many: partial(timed, relayed=False, readers=READERS),
                many: partial(timed, relayed=True, readers=READERS),
                stopped: partial(timed, relayed=True, readers=READERS, stopped=True),
            },
            effort,
            sheet,
        )
    )
    for title, name in (
        ("1 reader at an origin", direct),
        ("1 reader at a relay", one),
        (f"{READERS} readers at an origin", direct_many),
        (f"{READERS} readers at a relay", many),
        (f"{READERS} readers at a relay, one more stopped", stopped),
    ):
        sheet.add(f"{title}: delay, p50", "ms", [run[name].p50 for run in runs])
        sheet.add(f"{title}: delay, p99", "ms", [run[name].p99 for run in runs])
        sheet.add(f"{title}: CPU an object and reader", "µs", [run[name].cpu for run in runs])
    for title, relayed, direct_way in (
        ("1 reader", one, direct),
        ("20 readers", many, direct_many),
    ):
        for part in ("p50", "p99"):
            added = [getattr(run[relayed], part) - getattr(run[direct_way], part) for run in runs]
            sheet.add(f"added by a relay, {title}, {part}", "ms", added)
    sheet.add(
        "p99 of 20 readers with one more stopped, over without",
        "x",
        ratios(runs, stopped, many, lambda run: run.p99),
        "relay-stopped",
    )


BENCH = Bench("media_relay", "QUICR: what a relay adds to the delay of objects", compare)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--publish", endpoint, seconds]:
            asyncio.run(publish(endpoint, float(seconds)))
        case ["--read", endpoint, readers]:
            print(json.dumps(asyncio.run(read(endpoint, int(readers)))))
        case _:
            BENCH.run()


if __name__ == "__main__":
    main(sys.argv[1:])

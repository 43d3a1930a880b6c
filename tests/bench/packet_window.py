"""One channel of Telehash over a path with delay: how near it comes to what its window allows.

    python -m tests.bench.packet_window [--repetitions 5] [--seconds 4]

An intake stores what comes, and acks it then (``ackLevel=stored``); a path between has 0, 10 and
50 ms in a round trip. A channel has at most its window of packets under way (T4), so it carries no
more than that in a round trip; an ack takes longer, by what a group commit and its flush take.
Packets have 1,000 bytes; the carrier is plain UDP, which has no window of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from aqueduct.telehash import TelehashChannel, TelehashConfig, connect
from aqueduct_core.intake.settings.intake import TlsSettings
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.telehash.config import MAX_UNACKED
from tests.bench.intakes import intake_process
from tests.bench.measuring import Bench, Effort, in_turns
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet
from tests.support.proxy import Impairment, Proxy

ROUND_TRIPS = (0, 10, 50)
"""Milliseconds."""
WINDOWS = (32, MAX_UNACKED)
BODY = bytes(1_000)
WARM_SECONDS = 1.2
"""Longer than a line over plain UDP is a stranger."""


class Goodput(NamedTuple):
    """Acked packets a second, and the seconds that a window of them took."""

    rate: float
    round_trip: float


async def measure(endpoint: str, window: int, round_trip: float, seconds: float) -> Goodput:
    """Send as fast as acks allow."""
    host, _, port = endpoint.rpartition("/")[2].rpartition(":")
    proxy = Proxy((host, int(port)), Impairment(delay=round_trip / 2), seed=1)
    place = await proxy.open()
    try:
        where = f"udp://{place[0]}:{place[1]}" if round_trip else endpoint
        async with connect(where, config=TelehashConfig(window=window)) as line:
            channel = line.open("_bench", BODY)
            sent = 1 + await send_until(channel, time.monotonic() + WARM_SECONDS)
            begun, before = time.monotonic(), sent - channel.unacked
            sent += await send_until(channel, begun + seconds)
            acked = sent - channel.unacked - before
            took = time.monotonic() - begun
            await channel.end()
    finally:
        proxy.close()
    return Goodput(acked / took, window * took / acked)


async def send_until(channel: TelehashChannel, end: float) -> int:
    """How many were sent by then."""
    count = 0
    while time.monotonic() < end:
        await channel.send(BODY)
        count += 1
    return count


def run(window: int, round_trip: float, seconds: float) -> Goodput:
    """With an intake of its own."""
    carrier = {"carrier": "udp", "tls": TlsSettings()}
    with work_folder() as folder, intake_process(folder, TelehashIntake, **carrier) as running:
        return asyncio.run(measure(running.endpoint, window, round_trip, seconds))


def compare(effort: Effort, sheet: Sheet) -> None:
    for window in WINDOWS:
        kinds: dict[str, Callable[[], Goodput]] = {
            f"window {window}, {trip} ms": partial(run, window, trip / 1e3, effort.seconds)
            for trip in ROUND_TRIPS
        }
        runs = list(in_turns(kinds, effort, sheet))
        for name, trip in zip(kinds, ROUND_TRIPS, strict=True):
            found = [each[name] for each in runs]
            sheet.add(f"{name}: goodput", "a second", [each.rate for each in found])
            trips = [1e3 * each.round_trip for each in found]
            sheet.add(f"{name}: from a packet to its ack", "ms", trips)
            if trip:
                most = 1e3 * window / trip
                sheet.add(f"{name}: over window/RTT", "x", [each.rate / most for each in found])


BENCH = Bench(
    "packet_window",
    "Telehash: one channel over a path with delay, beside its window in a round trip",
    compare,
    seconds=2.0,
)

if __name__ == "__main__":
    BENCH.run()

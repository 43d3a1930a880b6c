"""What a megabyte costs both ends in datagrams of each size, and of the size that is found out.

    python -m tests.bench.path_mtu [--repetitions 5] [--seconds 1]

One long stream over loopback, from a process that sends to one that counts. Both begin to count CPU
when the connection is there, so that what is found out costs what it costs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from typing import NamedTuple

from aqueduct_core.engine.actions import WriteStream
from aqueduct_core.transport import ClientTls, LinkSettings, dial
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.receivers import ALPN, OURS, PIECE, Received, Sending, of_size, transfer
from tests.bench.sheet import Sheet

SMALL, ETHERNET, JUMBO = 1_200, 1_452, 8_952
FOUND = "found out"
KINDS = {f"{size:,} bytes": size for size in (SMALL, ETHERNET, JUMBO)} | {FOUND: 0}
BYTES_A_SECOND = 16_000_000
QUEUED = 4 * PIECE
"""Bytes that the sender lets wait in the link."""


class Transfer(NamedTuple):
    """CPU seconds of the sender, what the receiver measured, and the datagrams that were sent."""

    sender: float
    received: Received
    datagrams: int


async def send(total: int, size: int) -> None:
    """Send to the receiver that standard input describes; print CPU and datagrams as JSON."""
    target = json.loads(sys.stdin.readline())
    engine = Sending()
    driver = await dial(
        "127.0.0.1",
        target["port"],
        alpn=ALPN,
        settings=of_size(size) if size else LinkSettings(),
        tls=ClientTls(ca_pem=target["ca"].encode()),
        make_engine=lambda now: engine,
        on_events=lambda driver, events: None,
    )
    begin, before = time.process_time(), driver.statistics.datagrams_sent
    piece = bytes(PIECE)
    for left in range(total, 0, -PIECE):
        engine.queue.append(WriteStream(2, piece[:left], left <= PIECE))
        driver.kick()
        await driver.writable(QUEUED)
    await driver.writable(1)
    cpu = time.process_time() - begin
    print(json.dumps({"cpu": cpu, "datagrams": driver.statistics.datagrams_sent - before}))
    driver.abandon()


def measure(total: int, size: int) -> Transfer:
    """One transfer between two processes of its own; ``size`` 0: as it is found out."""
    received, printed = transfer(OURS, total, "tests.bench.path_mtu", size)
    sent = json.loads(printed)
    return Transfer(sent["cpu"], received, sent["datagrams"])


def compare(effort: Effort, sheet: Sheet) -> None:
    total = int(BYTES_A_SECOND * effort.seconds)
    megabytes = total / 1e6
    kinds = {kind: partial(measure, total, size) for kind, size in KINDS.items()}
    runs = list(in_turns(kinds, effort, sheet))

    def both(run: Transfer) -> float:
        return run.sender + run.received.cpu

    for kind in kinds:
        sheet.add(f"{kind}: sender", "ms/MB", [r[kind].sender * 1e3 / megabytes for r in runs])
        counted = [r[kind].received.cpu * 1e3 / megabytes for r in runs]
        sheet.add(f"{kind}: receiver", "ms/MB", counted)
        sheet.add(f"{kind}: a datagram", "bytes", [total / r[kind].datagrams for r in runs])
    for kind in list(kinds)[1:]:
        small = next(iter(kinds))
        sheet.add(f"{kind} over {small}, CPU of both", "x", ratios(runs, kind, small, both))


BENCH = Bench(
    "path_mtu", "larger datagrams, and those whose size is found out, against 1,200 bytes", compare,
    seconds=1.0,
)  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        asyncio.run(send(int(sys.argv[2]), int(sys.argv[3])))
    else:
        BENCH.run()

"""Raw receive over real sockets: our loop against the stock aioquic server, both counting bytes.

    python -m tests.bench.transport [--repetitions 5] [--seconds 1]

Each repetition runs every receiver once against the same kind of sender. CPU is that of the
receiving process; wall time on a shared machine is shown, not judged. What is delivered while
nobody consumes is told beside the window that was granted.
"""

from __future__ import annotations

import asyncio
from functools import partial

from aqueduct_core.engine.actions import WriteStream
from aqueduct_core.transport import (
    ClientTls,
    LinkSettings,
    ListenedProtocol,
    ServerTls,
    dial,
    listen,
)
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.receivers import (
    ALPN,
    MANY,
    NO_GRO,
    OURS,
    STOCK,
    WIDE,
    Counting,
    Meter,
    Received,
    Sending,
    measure,
)
from tests.bench.sheet import Sheet

KINDS = (STOCK, OURS, MANY, NO_GRO, WIDE)
BYTES_A_SECOND = 8_000_000
DATAGRAM = 1_200
WINDOW = 1 << 20
STILL = 0.5
"""Seconds without a byte, after which a sender is taken to be held back."""


async def unconsumed(window: int = WINDOW) -> float:
    """Bytes that a receiver is given that consumes nothing, over its window."""
    meter = Meter(2, lambda: None)
    tls = ServerTls.self_signed()
    protocol = ListenedProtocol(
        lambda peer, now: (Counting(meter, consume=False), lambda driver, events: None),
        settings=LinkSettings(stream_window=window, connection_window=window),
    )
    listener = await listen("127.0.0.1", 0, {ALPN: protocol}, tls=tls)
    engine = Sending()
    driver = await dial(
        "127.0.0.1",
        listener.address[1],
        alpn=ALPN,
        settings=LinkSettings(),
        tls=ClientTls(ca_pem=tls.cert_pem),
        make_engine=lambda now: engine,
        on_events=lambda driver, events: None,
    )
    engine.queue.append(WriteStream(2, bytes(4 * window), False))
    driver.kick()
    seen = -1
    while seen < meter.bytes or not meter.bytes:
        seen = meter.bytes
        await asyncio.sleep(STILL)
    driver.abandon()
    await listener.close()
    return meter.bytes / window


def compare(effort: Effort, sheet: Sheet) -> None:
    total = int(BYTES_A_SECOND * effort.seconds)
    runs = list(in_turns({k: partial(measure, k, total, DATAGRAM) for k in KINDS}, effort, sheet))

    def cpu(run: Received) -> float:
        return run.cpu

    def speed(run: Received) -> float:
        return 1 / run.cpu

    for kind in KINDS:
        sheet.add(
            f"{kind}: CPU a datagram",
            "µs",
            [run[kind].cpu * 1e6 * DATAGRAM / total for run in runs],
        )
    for kind in KINDS:
        sheet.add(f"{kind}: wall", "MB/s", [total / 1e6 / run[kind].wall for run in runs])
    sheet.add("ours over stock, CPU", "x", ratios(runs, OURS, STOCK, speed), "G1")
    sheet.add("ours without GRO over stock, CPU", "x", ratios(runs, NO_GRO, STOCK, speed))
    sheet.add("10,000 open streams over one, CPU", "x", ratios(runs, MANY, OURS, cpu), "G3")
    sheet.add("windows that follow over one window", "x", ratios(runs, OURS, WIDE, speed), "G15")
    for kind in (STOCK, OURS):
        sheet.add(f"{kind}: dropped", "", [run[kind].drops for run in runs])
    delivered = [asyncio.run(unconsumed()) for _ in range(effort.repetitions)]
    sheet.add("delivered over the window, nothing consumed", "x", delivered, "G14")


BENCH = Bench(
    "transport", "receiving UDP: our loop against stock aioquic, both counting bytes", compare,
    seconds=1.0,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()

"""Raw receive over real sockets: our loop against the stock aioquic server, both counting bytes.

    python -m tests.bench.transport [--megabytes 12] [--repetitions 5] [--size 1200]

Each repetition runs every receiver once against the same kind of sender, each in a process of its
own, so that ratios are between neighbours in time. CPU is that of the receiving process from the
first byte of the stream to the last (``process_time``). Wall time on a shared machine is shown,
not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

from aqueduct_core.engine.actions import Action, Admit, Consumed, WriteStream
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import Input, LinkReady, StreamBytes
from aqueduct_core.transport import (
    ClientTls,
    LinkSettings,
    ListenedProtocol,
    ServerTls,
    dial,
    listen,
)

ALPN = "bench"
MEGABYTE = 1_000_000
PIECE = 256 * 1024
RECEIVERS = ("stock", "ours", "ours, 10,000 open streams", "ours, no GRO")
GOALS = {"ours": 3.0}
IDLE_STREAMS = 10_000


class Meter:
    """Counts the bytes of the long stream and the CPU and wall time between first and last."""

    def __init__(self, stream_id: int, done: Callable[[], None]) -> None:
        self.stream_id = stream_id
        self.bytes = 0
        self.begin: tuple[float, float] | None = None
        self.result: dict[str, float] | None = None
        self._done = done

    def take(self, stream_id: int, size: int, end: bool) -> None:
        if stream_id != self.stream_id:
            return
        if self.begin is None:
            self.begin = time.process_time(), time.perf_counter()
        self.bytes += size
        if end:
            cpu, wall = self.begin
            self.result = {
                "bytes": self.bytes,
                "cpu": time.process_time() - cpu,
                "wall": time.perf_counter() - wall,
            }
            self._done()


class Counting:
    """An engine that counts and consumes."""

    wake_at = None
    footprint = Footprint(0)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._actions: list[Action] = []

    def handle(self, input: Input, now: float) -> None:
        if isinstance(input, LinkReady):
            self._actions.append(Admit())
        elif isinstance(input, StreamBytes):
            self._meter.take(input.stream_id, len(input.data), input.end)
            self._actions.append(Consumed(input.stream_id, len(input.data)))

    def tick(self, now: float) -> None: ...

    def actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def events(self) -> list[Any]:
        return []


class Sending:
    """An engine that writes what it is told."""

    wake_at = None
    footprint = Footprint(0)

    def __init__(self) -> None:
        self.queue: list[Action] = []

    def handle(self, input: Input, now: float) -> None: ...

    def tick(self, now: float) -> None: ...

    def actions(self) -> list[Action]:
        actions, self.queue = self.queue, []
        return actions

    def events(self) -> list[Any]:
        return []


async def receive(kind: str) -> None:
    """Count one stream in this process and print the result as a line of JSON."""
    idle = IDLE_STREAMS if "open" in kind else 0
    done = asyncio.Event()
    meter = Meter(2 + 4 * idle, done.set)
    tls = ServerTls.self_signed()
    assert tls.cert_pem is not None
    close: Callable[[], Awaitable[None]]
    if kind == "stock":
        configuration = QuicConfiguration(is_client=False, alpn_protocols=[ALPN])
        configuration.certificate = tls.identity.certificate
        configuration.private_key = tls.identity.key

        class Protocol(QuicConnectionProtocol):
            def quic_event_received(self, event: QuicEvent) -> None:
                if isinstance(event, StreamDataReceived):
                    meter.take(event.stream_id, len(event.data), event.end_stream)

        server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Protocol)
        assert server._transport is not None
        port = server._transport.get_extra_info("sockname")[1]

        async def close() -> None:
            server.close()
    else:
        if "no GRO" in kind:
            import aqueduct_core.transport.udp_socket as udp

            udp.UDP_GRO = -1
        listener = await listen(
            "127.0.0.1",
            0,
            {
                ALPN: ListenedProtocol(
                    lambda peer, now: (Counting(meter), lambda driver, events: None)
                )
            },
            tls=tls,
        )
        port = listener.address[1]
        close = listener.close

    print(json.dumps({"port": port, "ca": tls.cert_pem.decode(), "idle": idle}), flush=True)
    await asyncio.wait_for(done.wait(), 60)
    print(json.dumps(meter.result), flush=True)
    await close()


async def send(total: int, size: int) -> None:
    """Send one long stream to the receiver described on standard input."""
    target = json.loads(sys.stdin.readline())
    engine = Sending()
    driver = await dial(
        "127.0.0.1",
        target["port"],
        alpn=ALPN,
        settings=LinkSettings(max_datagram_size=size),
        tls=ClientTls(ca_pem=target["ca"].encode()),
        make_engine=lambda now: engine,
        on_events=lambda driver, events: None,
    )
    for index in range(target["idle"]):
        engine.queue.append(WriteStream(2 + 4 * index, b"open", False))
    driver.kick()
    await driver.writable(1)
    piece = bytes(PIECE)
    left = total
    while left > 0:
        part = piece if left >= PIECE else piece[:left]
        left -= len(part)
        engine.queue.append(WriteStream(2 + 4 * target["idle"], part, left == 0))
        driver.kick()
        await driver.writable(1024 * 1024)
    await driver.writable(1)
    driver.abandon()


def measure(kind: str, total: int, size: int) -> dict[str, float]:
    """One run of a receiver and its sender, each in a process of its own."""
    module = [sys.executable, "-m", "tests.bench.transport"]
    receiver = subprocess.Popen([*module, "--receive", kind], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        subprocess.run(
            [*module, "--send", "--bytes", str(total), "--size", str(size)],
            input=receiver.stdout.readline(),
            text=True,
            check=True,
            timeout=60,
        )
        result: dict[str, float] = json.loads(receiver.stdout.readline())
    finally:
        receiver.kill()
        receiver.wait()
        if receiver.stdout is not None:
            receiver.stdout.close()
    if result["bytes"] != total:
        raise RuntimeError(f"{kind}: {result['bytes']} of {total} bytes arrived")
    return result


def calibration() -> float:
    """Nanoseconds of one iteration of a fixed loop: how loaded the machine is."""
    begin = time.perf_counter()
    for _ in range(200_000):
        pass
    return (time.perf_counter() - begin) / 200_000 * 1e9


def compare(total: int, size: int, repetitions: int) -> dict[str, float]:
    """Print the table; return the median CPU ratio of each receiver to the stock one."""
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in RECEIVERS}
    noise = []
    for _ in range(repetitions):
        noise.append(calibration())
        for kind in RECEIVERS:
            runs[kind].append(measure(kind, total, size))
    print(f"{total / MEGABYTE:g} MB, datagrams of {size} bytes, {repetitions} repetitions,")
    print(f"calibration {statistics.median(noise):.0f} [{min(noise):.0f}..{max(noise):.0f}] ns")
    columns = f"{'CPU µs/datagram':>16}{'MB/cpu-s':>10}{'MB/s wall':>11}{'CPU x stock':>22}"
    print(f"{'receiver':28}{columns}")
    ratios = {}
    for kind in RECEIVERS:
        cpu = statistics.median(run["cpu"] for run in runs[kind])
        wall = statistics.median(run["wall"] for run in runs[kind])
        paired = [a["cpu"] / b["cpu"] for a, b in zip(runs["stock"], runs[kind], strict=True)]
        ratios[kind] = statistics.median(paired)
        print(
            f"{kind:28}{cpu * 1e6 * size / total:16.1f}{total / MEGABYTE / cpu:10.1f}"
            f"{total / MEGABYTE / wall:11.1f}"
            f"{ratios[kind]:10.2f} [{min(paired):.2f}..{max(paired):.2f}]"
        )
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--size", type=int, default=1200)
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        asyncio.run(receive(options.receive))
    elif options.send:
        asyncio.run(send(options.bytes, options.size))
    else:
        ratios = compare(int(options.megabytes * MEGABYTE), options.size, options.repetitions)
        missed = [kind for kind, goal in GOALS.items() if ratios[kind] < goal]
        print("goals: " + ("missed by " + ", ".join(missed) if missed else "met"))
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

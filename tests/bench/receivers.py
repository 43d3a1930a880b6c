"""Receiving processes that count bytes, and their senders, for the benches of the transport.

    python -m tests.bench.receivers receive KIND | send BYTES SIZE

Each runs in a process of its own. CPU is that of the receiving process from the first byte of the
stream to the last (``process_time``).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any, NamedTuple

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
from tests.bench.measuring import dropped
from tests.support.waiting import environment

ALPN = "bench"
PIECE = 256 * 1024
IDLE_STREAMS = 10_000
STOCK, OURS, MANY, NO_GRO, WIDE = (
    "stock aioquic",
    "ours",
    "ours, 10,000 open streams",
    "ours, no GRO",
    "ours, one window for all",
)
WIDEST = 1 << 34
"""A window that is never moved."""
LIMIT = 120
"""Seconds for one run, at most."""


def of_size(size: int) -> LinkSettings:
    """Settings with datagrams of that size from the first one on; of another checkout, too, whose
    datagrams have one size and never grow."""
    there = {each.name for each in fields(LinkSettings)}
    return LinkSettings(
        **{name: size for name in ("initial_datagram_size", "max_datagram_size") if name in there}
    )


class Received(NamedTuple):
    """From the first byte to the last: bytes, CPU seconds of the receiver, seconds, and datagrams
    that the kernel dropped at its socket."""

    bytes: int
    cpu: float
    wall: float
    drops: int


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
    """An engine that counts and, unless told otherwise, consumes."""

    wake_at = None
    footprint = Footprint(0)

    def __init__(self, meter: Meter, *, consume: bool = True) -> None:
        self._meter = meter
        self._consume = consume
        self._actions: list[Action] = []

    def handle(self, input: Input, now: float) -> None:
        if isinstance(input, LinkReady):
            self._actions.append(Admit())
        elif isinstance(input, StreamBytes):
            self._meter.take(input.stream_id, len(input.data), input.end)
            if self._consume:
                self._actions.append(Consumed(input.stream_id, len(input.data)))

    def tick(self, now: float) -> None: ...

    def actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def events(self) -> list[Any]:
        return []


class Sending:
    """An engine that writes what it is given."""

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
    idle = IDLE_STREAMS if kind == MANY else 0
    done = asyncio.Event()
    meter = Meter(2 + 4 * idle, done.set)
    tls = ServerTls.self_signed()
    assert tls.cert_pem is not None
    port, close = await (_stock if kind == STOCK else _ours)(kind, meter, tls)
    print(json.dumps({"port": port, "ca": tls.cert_pem.decode(), "idle": idle}), flush=True)
    await asyncio.wait_for(done.wait(), LIMIT)
    print(json.dumps({**(meter.result or {}), "drops": dropped(port)}), flush=True)
    await close()


Close = Callable[[], Awaitable[None]]


async def _stock(kind: str, meter: Meter, tls: ServerTls) -> tuple[int, Close]:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[ALPN])
    configuration.certificate = tls.identity.certificate
    configuration.private_key = tls.identity.key

    class Protocol(QuicConnectionProtocol):
        def quic_event_received(self, event: QuicEvent) -> None:
            if isinstance(event, StreamDataReceived):
                meter.take(event.stream_id, len(event.data), event.end_stream)

    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=Protocol)
    assert server._transport is not None

    async def close() -> None:
        server.close()

    return server._transport.get_extra_info("sockname")[1], close


async def _ours(kind: str, meter: Meter, tls: ServerTls) -> tuple[int, Close]:
    if kind == NO_GRO:
        import aqueduct_core.transport.udp_socket as udp

        udp.UDP_GRO = -1
    wide = LinkSettings(stream_window=WIDEST, connection_window=WIDEST)
    protocol = ListenedProtocol(
        lambda peer, now: (Counting(meter), lambda driver, events: None),
        settings=wide if kind == WIDE else LinkSettings(),
    )
    listener = await listen("127.0.0.1", 0, {ALPN: protocol}, tls=tls)
    return listener.address[1], listener.close


async def send(total: int, size: int) -> None:
    """Send one long stream to the receiver described on standard input."""
    target = json.loads(sys.stdin.readline())
    engine = Sending()
    driver = await dial(
        "127.0.0.1",
        target["port"],
        alpn=ALPN,
        settings=of_size(size),
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


def measure(kind: str, total: int, size: int) -> Received:
    """One run of a receiver and its sender, each in a process of its own."""
    return transfer(kind, total, "tests.bench.receivers", size)[0]


def transfer(kind: str, total: int, module: str, size: int) -> tuple[Received, str]:
    """The same, with the sender of a module; and what that printed.

    Raises:
        RuntimeError: not all has arrived.
    """
    receiver = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.receivers", "receive", kind],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert receiver.stdout is not None
        sender = subprocess.run(
            [sys.executable, "-m", module, "send", str(total), str(size)],
            input=receiver.stdout.readline(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=LIMIT,
            env=environment(),
        )
        received = Received(**json.loads(receiver.stdout.readline()))
    finally:
        receiver.kill()
        receiver.communicate()
    if received.bytes != total:
        raise RuntimeError(f"{kind}: {received.bytes} of {total} bytes arrived")
    return received, sender.stdout


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        asyncio.run(receive(sys.argv[2]))
    else:
        asyncio.run(send(int(sys.argv[2]), int(sys.argv[3])))

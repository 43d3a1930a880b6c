"""What a datagram costs its sender: ours, and the stock library.

    python -m tests.bench.sending [--repetitions 5] [--seconds 2]
    make bench ONLY=sending AGAINST=../the-version-before

Each repetition runs every sender once, each in a process of its own, so that ratios are between
neighbours in time. CPU is that of the sender alone (``process_time``), from the first write until
everything is acknowledged. *In process* both ends are links in one process on a virtual clock with
2 ms of round trip, and only calls of the sender's end are timed; *over sockets* the receiver is a
process of its own. ``AQUEDUCT_FAST_PATHS=0`` measures ours without its fast paths.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent

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
from aqueduct_core.transport.aioquic.stack import AioquicStack
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.sheet import Sheet
from tests.support.waiting import environment

ALPN = "bench"
SIZE = 1_200
PIECE = 64 << 10
AHEAD = 1 << 20
"""Bytes that wait for the peer's acknowledgement at most."""
HALF_ROUND_TRIP = 0.001
TURN = 0.000_25
"""Seconds between two turns of an end: a busy event loop comes by no more often."""
STREAMS = (1, 8, 200)
BYTES_A_SECOND = 8_000_000
IN_PROCESS, OURS, STOCK = "in process", "over sockets", "the stock library over sockets"
SENDERS = (IN_PROCESS, OURS, STOCK)


class Sending:
    """An engine that writes what it is told, and takes in what arrives."""

    wake_at = None
    footprint = Footprint(0)

    def __init__(self) -> None:
        self.queue: list[Action] = []
        self.received = 0

    def handle(self, input: Input, now: float) -> None:
        if isinstance(input, LinkReady):
            self.queue.append(Admit())
        elif isinstance(input, StreamBytes):
            self.received += len(input.data)
            self.queue.append(Consumed(input.stream_id, len(input.data)))

    def tick(self, now: float) -> None: ...

    def actions(self) -> list[Action]:
        actions, self.queue = self.queue, []
        return actions

    def events(self) -> list[Any]:
        return []


def pieces(total: int, streams: int) -> Iterable[tuple[int, bytes]]:
    """The writes of a sender: (stream, bytes) in turn, small ones where there are many streams."""
    size = max(1_000, PIECE // streams)
    data, sent, turn = bytes(size), 0, 0
    while sent < total:
        part = data[: total - sent]
        yield 2 + 4 * (turn % streams), part
        sent += len(part)
        turn += 1


def in_process(total: int, streams: int) -> dict[str, float]:
    """Two links on a virtual clock; CPU of each end by itself, in seconds for a datagram."""
    stack, tls = AioquicStack(), ServerTls.self_signed()
    assert tls.cert_pem is not None
    settings = LinkSettings(max_datagram_size=SIZE)
    now = 100.0
    there, here = ("127.0.0.1", 2), ("127.0.0.1", 1)
    client = stack.dial(ALPN, settings, ClientTls(ca_pem=tls.cert_pem), "127.0.0.1", there, now)
    first = client.transmit(now)
    hello = stack.hello(first[0][0])
    assert hello is not None
    server = stack.accept({ALPN: settings}, tls.identity, hello)
    ends = ((client, Sending(), here), (server, Sending(), there))
    spent = {client: 0.0, server: 0.0}
    sent = 0
    under_way: deque[tuple[float, Any, list[tuple[bytes, Any]]]] = deque()
    under_way.append((now + HALF_ROUND_TRIP, server, [(data, here) for data, _ in first]))
    writes = iter(pieces(total, streams))
    measuring = exhausted = False
    while not (exhausted and not client.unsent):
        times = [under_way[0][0]] if under_way else []
        times += [link.timer for link, _, _ in ends if link.timer is not None]
        now = max(now + TURN, min(times))
        arrived: dict[Any, list[tuple[bytes, Any]]] = {}
        while under_way and under_way[0][0] <= now:
            _, link, datagrams = under_way.popleft()
            arrived.setdefault(link, []).extend(datagrams)
        for link, engine, address in ends:
            if link is client and client.ready and server.ready:
                if not measuring:
                    measuring, spent = True, dict.fromkeys(spent, 0.0)
                while (
                    not exhausted
                    and client.unsent
                    + sum(len(each.data) for each in engine.queue if isinstance(each, WriteStream))
                    < AHEAD
                ):
                    piece = next(writes, None)
                    exhausted = piece is None
                    if piece is not None:
                        engine.queue.append(WriteStream(*piece, False))
            timer = link.timer
            if link not in arrived and not engine.queue and (timer is None or now < timer):
                continue
            begun = time.process_time()
            if link in arrived:
                link.receive(arrived[link], now)
            if timer is not None and now >= timer:
                link.fire(now)
            for input in link.inputs():
                engine.handle(input, now)
            link.apply(engine.actions(), now)
            out = link.transmit(now)
            spent[link] += time.process_time() - begun
            if out:
                sent += measuring and link is client and len(out)
                peer = server if link is client else client
                at = now + HALF_ROUND_TRIP
                under_way.append((at, peer, [(data, address) for data, _ in out]))
    assert ends[1][1].received == total
    return {"cpu": spent[client], "receiver": spent[server], "datagrams": sent}


async def receive() -> None:
    """Take in whatever comes, until standard input ends."""
    tls = ServerTls.self_signed()
    assert tls.cert_pem is not None
    offer = ListenedProtocol(lambda peer, now: (Sending(), lambda driver, events: None))
    listener = await listen("127.0.0.1", 0, {ALPN: offer}, tls=tls)
    print(json.dumps({"port": listener.address[1], "ca": tls.cert_pem.decode()}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await listener.close()


async def send_ours(port: int, ca: str, total: int, streams: int) -> dict[str, float]:
    engine = Sending()
    driver = await dial(
        "127.0.0.1",
        port,
        alpn=ALPN,
        settings=LinkSettings(max_datagram_size=SIZE),
        tls=ClientTls(ca_pem=ca.encode()),
        make_engine=lambda now: engine,
        on_events=lambda driver, events: None,
    )
    cpu, wall = time.process_time(), time.perf_counter()
    before = driver.statistics.datagrams_sent
    for stream_id, data in pieces(total, streams):
        engine.queue.append(WriteStream(stream_id, data, False))
        if len(engine.queue) * len(data) >= PIECE:
            driver.kick()
            await driver.writable(AHEAD)
    driver.kick()
    await driver.writable(1)
    result = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "datagrams": driver.statistics.datagrams_sent - before,
    }
    driver.abandon()
    return result


class StockSender(QuicConnectionProtocol):
    """Writes as the peer acknowledges."""

    def begin(self, total: int, streams: int) -> asyncio.Future[None]:
        self.datagrams = 0
        self._writes = iter(pieces(total, streams))
        self._left = True
        self._over = asyncio.get_running_loop().create_future()
        sendto = self._transport.sendto

        def counted(data: bytes, address: Any = None) -> None:
            self.datagrams += 1
            sendto(data, address)

        self._transport.sendto = counted  # type: ignore[method-assign]
        self._more()
        return self._over

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        super().datagram_received(data, addr)
        if hasattr(self, "_over"):
            self._more()

    def quic_event_received(self, event: QuicEvent) -> None: ...

    def _more(self) -> None:
        waiting = sum(
            stream.sender._buffer_stop - stream.sender._buffer_start
            for stream in self._quic._streams.values()
        )
        if not self._left:
            if not waiting and not self._over.done():
                self._over.set_result(None)
            return
        if waiting >= AHEAD:
            return
        while waiting < AHEAD and self._left:
            piece = next(self._writes, None)
            if piece is None:
                self._left = False
            else:
                self._quic.send_stream_data(*piece)
                waiting += len(piece[1])
        self.transmit()


async def send_stock(port: int, ca: str, total: int, streams: int) -> dict[str, float]:
    configuration = QuicConfiguration(alpn_protocols=[ALPN], cadata=ca.encode())
    configuration.max_datagram_size = SIZE
    async with connect(
        "127.0.0.1", port, configuration=configuration, create_protocol=StockSender
    ) as stock:
        assert isinstance(stock, StockSender)
        cpu, wall = time.process_time(), time.perf_counter()
        await stock.begin(total, streams)
        return {
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "datagrams": stock.datagrams,
        }


def run(sender: str, total: int, streams: int) -> dict[str, float]:
    """One sender in a process of its own."""
    module = [sys.executable, "-m", "tests.bench.sending"]
    receiver = None
    line = ""
    if sender != IN_PROCESS:
        receiver = subprocess.Popen(
            [*module, "receive"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert receiver.stdout is not None
        line = receiver.stdout.readline()
    try:
        done = subprocess.run(
            [*module, sender, str(total), str(streams)],
            input=line,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=120,
            env=environment(),
        )
    finally:
        if receiver is not None:
            receiver.communicate()
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(effort: Effort, sheet: Sheet) -> None:
    total = int(BYTES_A_SECOND * effort.seconds)
    for streams in STREAMS:
        kinds = {sender: partial(run, sender, total, streams) for sender in SENDERS}
        runs = list(in_turns(kinds, effort, sheet))
        title = f"{streams} stream{'s' if streams > 1 else ''}"
        for sender in SENDERS:
            costs = [1e6 * each[sender]["cpu"] * SIZE / total for each in runs]
            sheet.add(f"{title}, {sender}: CPU a datagram", "µs", costs)
        over = ratios(runs, OURS, STOCK, lambda each: each["cpu"])
        sheet.add(f"{title}: ours over the stock library, CPU", "x", over)


BENCH = Bench("sending", "what a datagram costs its sender", compare, seconds=2.0)

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive"]:
            asyncio.run(receive())
        case [sender, total, streams] if sender == IN_PROCESS:
            print(json.dumps(in_process(int(total), int(streams))))
        case [sender, total, streams] if sender in SENDERS:
            target = json.loads(sys.stdin.readline())
            send = send_stock if sender == STOCK else send_ours
            sent = send(target["port"], target["ca"], int(total), int(streams))
            print(json.dumps(asyncio.run(sent)))
        case _:
            BENCH.run()

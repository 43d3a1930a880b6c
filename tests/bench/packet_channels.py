"""1,000 channels of Telehash at once: packets a second, and how long each packet waits for its ack.

    python -m tests.bench.packet_channels [--repetitions 3] [--seconds 5]

A sender keeps the window of each channel of one line full, with packets of 100 bytes; an intake
acks what is durable (``ackLevel=stored``). The *ack age* is from when the engine of the intake was
given a packet to the next ack that it sent on the channel, which is to be below a second (T10);
*until acked* is to one that has the packet, which has to be durable, and not behind one that was
lost. The intake notes them itself, which costs it a few microseconds a packet. Beside it stands the
same load on 64 channels.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

from aqueduct.telehash import TelehashChannel, connect
from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.inputs import Datagram, Input
from aqueduct_core.intake import process
from aqueduct_core.intake.settings.intake import TlsSettings
from aqueduct_core.intake.telehash import adapter
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.wire.channel_packets import decode
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.intakes import intake_process
from tests.bench.loads import Load, Sent, payloads, sender_process
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, percentile
from tests.bench.packet_rows import PROBATION, TYPE
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet

KIND = "100"
CHANNELS = (1_000, 64)
PACKETS = 12_000
"""A second, about: how many are sent in a run that is to take so many seconds."""
PROGRAM = "tests.bench.packet_channels"
AGES = "ages.json"
CARRIERS: dict[str, dict[str, Any]] = {
    "QUIC": {},
    "plain UDP": {"carrier": "udp", "tls": TlsSettings()},
}


class Acked(NamedTuple):
    """Packets a second, CPU seconds of the intake for each, and seconds from packets to acks."""

    rate: float
    cpu: float
    age_p50: float
    age_p99: float
    acked_p50: float
    acked_p99: float


class TimedEngine(TelehashEngine):
    """Notes how old packets are when an ack goes, and when they are acked. ``ages`` and ``acked``:
    of all engines of the process, in seconds."""

    ages: ClassVar[list[float]] = []
    acked: ClassVar[list[float]] = []

    def __init__(self, *, odd: bool, config: TelehashConfig | None = None) -> None:
        super().__init__(odd=odd, config=config)
        self._came: dict[int, list[float]] = {}
        self._unacked: dict[int, deque[tuple[int, float]]] = {}

    def handle(self, input: Input, now: float) -> None:
        super().handle(input, now)
        if isinstance(input, Datagram):
            packet = decode(input.data)
            if packet.seq is not None:
                self._came.setdefault(packet.channel, []).append(now)
                unacked = self._unacked.setdefault(packet.channel, deque())
                unacked.append((packet.seq, now))

    def actions(self) -> list[Action]:
        actions = super().actions()
        now = asyncio.get_running_loop().time()
        for action in actions:
            if isinstance(action, SendDatagram):
                packet = decode(action.data)
                if packet.ack is not None:
                    self._note(packet.channel, packet.ack, now)
        return actions

    def _note(self, channel: int, ack: int, now: float) -> None:
        self.ages += [now - came for came in self._came.pop(channel, ())]
        unacked = self._unacked.get(channel)
        while unacked and unacked[0][0] <= ack:
            self.acked.append(now - unacked.popleft()[1])


def timed_intake(folder: Path) -> NoReturn:
    """An intake that leaves the ages of its acks in a file."""
    adapter.TelehashEngine = TimedEngine  # type: ignore[misc]
    process.configure_logging()
    code = process.launched(sys.stdin.buffer, sys.stdout.buffer)
    (folder / AGES).write_text(json.dumps([TimedEngine.ages, TimedEngine.acked]))
    process.leave(code)


async def send(endpoint: str, load: Load) -> Sent:
    """Send the load in this process, on channels whose windows are full for as long as it lasts."""
    [body] = payloads(load.kind)
    left = load.count

    async def fill(channel: TelehashChannel) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await channel.send(body)
        await channel.delivered()

    async with connect(endpoint, tls=ClientTls(insecure=True)) as line:
        channels = [line.open(TYPE) for _ in range(load.channels)]
        await asyncio.gather(*(channel.delivered() for channel in channels))
        await asyncio.sleep(PROBATION)
        begun, used = time.monotonic(), time.process_time()
        await asyncio.gather(*map(fill, channels))
        return Sent.since(begun, used)


def measure(carrier: Mapping[str, Any], channels: int, seconds: float) -> Acked:
    load = Load(KIND, int(PACKETS * seconds), channels)
    with work_folder() as folder:
        program = ("-W", "ignore", "-m", PROGRAM, "--intake", str(folder))
        with intake_process(folder, TelehashIntake, program, **carrier) as running:
            meter = CpuMeter(running.pid)
            sent = sender_process(PROGRAM, ["--send", running.endpoint], load)
            cpu = meter.used() / load.count
        ages, acked = json.loads((folder / AGES).read_text())
    quantiles = (percentile(each, part) for each in (ages, acked) for part in (50, 99))
    return Acked(load.count / sent.wall, cpu, *quantiles)


def compare(effort: Effort, sheet: Sheet) -> None:
    kinds = {
        f"{channels:,} channels, {name}": partial(measure, carrier, channels, effort.seconds)
        for name, carrier in CARRIERS.items()
        for channels in CHANNELS
    }
    runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        found = [run[name] for run in runs]
        goal = "packet-ack" if name.startswith(f"{CHANNELS[0]:,}") else ""
        sheet.add(f"{name}: packets", "a second", [each.rate for each in found])
        sheet.add(f"{name}: the intake's CPU each", "µs", [each.cpu * 1e6 for each in found])
        sheet.add(f"{name}: ack age, p50", "ms", [each.age_p50 * 1e3 for each in found])
        sheet.add(f"{name}: ack age, p99", "ms", [each.age_p99 * 1e3 for each in found], goal)
        sheet.add(f"{name}: until acked, p50", "ms", [each.acked_p50 * 1e3 for each in found])
        sheet.add(f"{name}: until acked, p99", "ms", [each.acked_p99 * 1e3 for each in found])


BENCH = Bench(
    "packet_channels",
    "Telehash: 1,000 channels at once, and how old their acks are",
    compare,
    repetitions=3,
    seconds=5.0,
)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--intake", folder]:
            timed_intake(Path(folder))
        case ["--send", endpoint, kind, count, channels]:
            sent = asyncio.run(send(endpoint, Load(kind, int(count), int(channels))))
            print(json.dumps(sent._asdict()))
        case _:
            BENCH.run()


if __name__ == "__main__":
    main(sys.argv[1:])

"""What benches send: messages of one size, or of many, and a process that sends them.

    python -m tests.bench.loads ENDPOINT DATAGRAM KIND COUNT CHANNELS

The sender is a process of its own, so that its CPU is known apart and it shares no interpreter with
what is measured.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice
from typing import NamedTuple

from tests.support.waiting import environment

EQUAL = (100, 1_000, 65_536)
MIXED = "mixed"
KINDS = (*(str(size) for size in EQUAL), MIXED)
"""Payload bytes of all messages of a load, or ``mixed``."""

SMALLEST, LARGEST = 20, 20_000
"""Payload bytes of mixed loads; every order of magnitude between is as frequent as the others."""
DIFFERENT = 4_096
"""Payloads of a mixed load, which repeats them."""
BULK_BYTES = 500_000
"""Payload bytes of one call of the sender, about."""
NOMINAL = {"100": 5e6, "1000": 12e6, "65536": 16e6, MIXED: 12e6}
"""Bytes a second, roughly: how much is sent in a run that is to take so many seconds."""
SLOWEST = 40
"""How many times longer than nominal a run may take on a busy machine."""


class Load(NamedTuple):
    """``count`` messages on ``channels`` ordered channels, in turns of a bulk."""

    kind: str
    count: int
    channels: int = 1

    @property
    def total(self) -> int:
        """Payload bytes."""
        sizes = [len(payload) for payload in payloads(self.kind)]
        rounds, rest = divmod(self.count, len(sizes))
        return rounds * sum(sizes) + sum(sizes[:rest])

    @property
    def mean(self) -> float:
        return self.total / self.count

    def bulks(self) -> Iterator[list[bytes]]:
        """The messages, in portions that a sender is given at once."""
        every = cycle(payloads(self.kind))
        step = max(1, min(1_000, int(BULK_BYTES / self.mean)))
        for start in range(0, self.count, step):
            yield list(islice(every, min(step, self.count - start)))


class Sent(NamedTuple):
    """From the first message until all are acked: seconds, and CPU seconds of the sender; and when
    that was on the machine's monotonic clock, which all of its processes share."""

    wall: float
    cpu: float
    begun: float

    @classmethod
    def since(cls, begun: float, used: float) -> Sent:
        """Until now; ``used``: the CPU seconds of this process at ``begun``."""
        return cls(time.monotonic() - begun, time.process_time() - used, begun)


@cache
def payloads(kind: str) -> list[bytes]:
    """What the messages of a kind of load hold, one after the other, and then again."""
    if kind != MIXED:
        return [os.urandom(int(kind))]
    chance = random.Random(12)
    blob = chance.randbytes(LARGEST)
    span = math.log(LARGEST / SMALLEST)
    return [blob[: round(SMALLEST * math.exp(span * chance.random()))] for _ in range(DIFFERENT)]


def load_for(kind: str, seconds: float, channels: int = 1) -> Load:
    """A load that takes about so long on the machine that this was written on."""
    sizes = [len(payload) for payload in payloads(kind)]
    count = NOMINAL[kind] * seconds / (sum(sizes) / len(sizes))
    return Load(kind, max(channels, round(count)), channels)


async def send(endpoint: str, load: Load, datagram: int = 0) -> Sent:
    """Send in this process, in datagrams of at most so many bytes; 0: of what the path carries."""
    from aqueduct import channel, connect
    from aqueduct_core.transport import LinkSettings
    from aqueduct_core.transport.tls.credentials import ClientTls

    settings = LinkSettings(max_datagram_size=datagram) if datagram else LinkSettings()
    async with connect(endpoint, tls=ClientTls(insecure=True), settings=settings) as connection:
        senders = []
        for number in range(load.channels):
            sender, receiver = channel(mode="ordered", name=f"bench-{number}")
            await connection.entrypoint.send(b"", attach=receiver)
            senders.append(sender)
        begun, used = time.monotonic(), time.process_time()
        for sender, bulk in zip(cycle(senders), load.bulks(), strict=False):
            await sender.send_many(bulk)
        await asyncio.gather(*(sender.finish() for sender in senders))
        return Sent.since(begun, used)


def send_from_elsewhere(
    endpoint: str,
    load: Load,
    meanwhile: Callable[[], object] | None = None,
    datagram: int = 0,
) -> Sent:
    """``send`` in a process of its own; ``meanwhile`` is called five times a second."""
    return sender_process("tests.bench.loads", [endpoint, str(datagram)], load, meanwhile)


def sender_process(
    module: str, words: Sequence[str], load: Load, meanwhile: Callable[[], object] | None = None
) -> Sent:
    """Run a sender until it has printed what it used.

    Raises:
        RuntimeError: it failed. subprocess.TimeoutExpired: it took far too long.
    """
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", module, *words, *map(str, load)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 60 + SLOWEST * load.total / NOMINAL[load.kind]
    with process:
        while True:
            try:
                output, _ = process.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > limit:
                    process.kill()
                    raise
                if meanwhile is not None:
                    meanwhile()
    if process.returncode:
        raise RuntimeError(f"the sender of {load} ended with {process.returncode}")
    return Sent(**json.loads(output))


if __name__ == "__main__":
    endpoint, datagram, kind, count, channels = sys.argv[1:]
    sent = asyncio.run(send(endpoint, Load(kind, int(count), int(channels)), int(datagram)))
    print(json.dumps(sent._asdict()))

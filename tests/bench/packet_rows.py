"""Packets of Telehash to the disk and to rows, over both carriers, beside messages of Aqueduct and
objects of QUICR: how many a second.

    python -m tests.bench.packet_rows [--repetitions 3] [--seconds 10] [--kinds 100,1000]

As ``media_rows``. A packet is acked when it is durable (``ackLevel=stored``); there are as many
channels, with a window of 100 packets each, that acks are never what a sender waits for.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from itertools import chain

from aqueduct.telehash import PlainSettings, TelehashChannel, TelehashConfig, connect
from aqueduct_core.intake.settings.intake import TlsSettings
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.telehash.config import MAX_UNACKED
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench import media_rows
from tests.bench.loads import Load, Sent, sender_process
from tests.bench.measuring import Bench, Effort
from tests.bench.queries import spark_session
from tests.bench.sheet import Sheet
from tests.bench.ways import MESSAGES, Way, compare_ways

KINDS = ("100", "1000")
CHANNELS = 64
SHARE = 0.3
"""Of the load of others, which take less time for it."""
TYPE = "_bench"
PROBATION = PlainSettings().probation + 0.1
"""Seconds that a line over plain UDP is a stranger, who gets a part of the time."""
WINDOW = TelehashConfig(window=MAX_UNACKED)


async def give(channel: TelehashChannel, bodies: list[bytes]) -> None:
    """Send these; returns when all are acked."""
    for at, body in enumerate(bodies, 1):
        await channel.send(body, end=at == len(bodies))
    await channel.delivered()


async def send(endpoint: str, load: Load) -> Sent:
    """Send the load in this process, a part of it on each channel of a line."""
    bodies = list(chain.from_iterable(load.bulks()))
    tls = ClientTls(insecure=True)
    async with connect(endpoint, tls=tls, config=WINDOW) as line:
        channels = [line.open(TYPE) for _ in range(load.channels)]
        await asyncio.gather(*(channel.delivered() for channel in channels))
        await asyncio.sleep(PROBATION)
        begun, used = time.monotonic(), time.process_time()
        parts = (bodies[number :: load.channels] for number in range(load.channels))
        await asyncio.gather(*map(give, channels, parts))
        return Sent.since(begun, used)


def send_packets(endpoint: str, load: Load) -> Sent:
    """The same in a process of its own."""
    return sender_process("tests.bench.packet_rows", ["--send", endpoint], load)


OBJECTS = media_rows.DATAGRAMS
_packets = partial(
    Way,
    format="telehash",
    send=send_packets,
    intake=TelehashIntake,
    entries=1,
    channels=CHANNELS,
    share=SHARE,
)
QUIC = _packets("packets, QUIC")
UDP = _packets(
    "packets, plain UDP",
    more={"carrier": "udp", "tls": TlsSettings()},
    options={"listen": "udp://127.0.0.1:0", "tls.selfSigned": "false"},
)
WAYS = (MESSAGES, OBJECTS, QUIC, UDP)
OVER = ((QUIC, MESSAGES), (QUIC, OBJECTS), (UDP, MESSAGES), (UDP, OBJECTS))


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark:
        for kind in effort.kinds:
            compare_ways(spark, WAYS, OVER, kind, effort, sheet)


BENCH = Bench(
    "packet_rows",
    "Telehash: wire → durable → DataFrame beside Aqueduct's and QUICR's",
    compare,
    repetitions=3,
    seconds=10.0,
    kinds=KINDS,
)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--send", endpoint, kind, count, channels]:
            sent = asyncio.run(send(endpoint, Load(kind, int(count), int(channels))))
            print(json.dumps(sent._asdict()))
        case _:
            BENCH.run()


if __name__ == "__main__":
    main(sys.argv[1:])

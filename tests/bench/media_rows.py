"""Objects of QUICR to the disk and to rows, beside messages of Aqueduct: how many a second.

    python -m tests.bench.media_rows [--repetitions 5] [--seconds 20] [--kinds 1000,65536]

Each repetition runs, in opposite order by turns: an intake until all is durable, and a running
Spark query until all are rows; of Aqueduct's messages, of objects on a stream and of objects in
datagrams. Sender, intake and Spark share the processors. A load is long beside the trigger of the
query, half a second, which a row waits for whatever brings it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial

from aqueduct.quicr import connect
from aqueduct_core.intake.quicr.settings import QuicrIntake
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.bench.loads import Load, Sent, sender_process
from tests.bench.measuring import Bench, Effort
from tests.bench.queries import spark_session
from tests.bench.sheet import Sheet
from tests.bench.ways import MESSAGES, Way, compare_ways

KINDS = ("1000", "65536")
GROUP = 100
"""Objects of a group."""


async def post(endpoint: str, load: Load, *, datagram: bool, url: str) -> Sent:
    """Post the load as one media in this process; over when the receiver has it all."""
    async with connect(endpoint, tls=ClientTls(insecure=True)) as client:
        begun, used = time.monotonic(), time.process_time()
        async with client.publish(url, datagram=datagram) as publisher:
            for bulk in load.bulks():
                for payload in bulk:
                    await publisher.send(payload, new_group=publisher.next.object == GROUP)
        return Sent.since(begun, used)


def post_from_elsewhere(endpoint: str, load: Load, *, datagram: bool) -> Sent:
    words = [endpoint, str(int(datagram)), f"bench/{time.monotonic_ns()}"]
    return sender_process("tests.bench.media_rows", ["--post", *words], load)


STREAM = Way("objects, stream", "quicr", partial(post_from_elsewhere, datagram=False), QuicrIntake)
DATAGRAMS = Way(
    "objects, datagrams", "quicr", partial(post_from_elsewhere, datagram=True), QuicrIntake
)
WAYS = (MESSAGES, STREAM, DATAGRAMS)
OVER = ((STREAM, MESSAGES), (DATAGRAMS, MESSAGES))


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark:
        for kind in effort.kinds:
            compare_ways(spark, WAYS, OVER, kind, effort, sheet)


BENCH = Bench(
    "media_rows",
    "QUICR: wire → durable → DataFrame beside Aqueduct's",
    compare,
    seconds=20.0,
    kinds=KINDS,
)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--post", endpoint, datagram, url, kind, count, channels]:
            load = Load(kind, int(count), int(channels))
            sent = asyncio.run(post(endpoint, load, datagram=datagram == "1", url=url))
            print(json.dumps(sent._asdict()))
        case _:
            BENCH.run()


if __name__ == "__main__":
    main(sys.argv[1:])

"""A process that sends messages at a steady rate, each with the time at which it was due.

    python -m tests.bench.steady ENDPOINT RATE SECONDS
    python -m tests.bench.steady topic NAME BOOTSTRAP CA RATE SECONDS

To an endpoint of ours, or to a topic with librdkafka. The first eight bytes of a message are the
nanosecond of the machine's monotonic clock at which it was due: what a sender is late by counts.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.kafka_broker import Topic
from tests.support.waiting import environment

STAMP = struct.Struct("<q")
SIZE = 100
"""Payload bytes."""
LINGER = 0
"""Milliseconds that librdkafka waits for more: none, for latency."""


def payload(due: float) -> bytes:
    return STAMP.pack(int(due * 1e9)) + bytes(SIZE - STAMP.size)


def age_ms(payload: bytes, now: float) -> float:
    """Milliseconds from when a message was due until ``now`` on the monotonic clock."""
    return now * 1e3 - STAMP.unpack_from(payload)[0] / 1e6


async def paced(rate: float, seconds: float, send: Callable[[list[bytes]], Any]) -> None:
    """Give ``send`` what is due, until the time is over; a result that can be awaited is."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    count, total = 0, int(rate * seconds)
    while count < total:
        due = min(total, int((clock() - begun) * rate) + 1)
        result = send([payload(begun + number / rate) for number in range(count, due)])
        if result is not None:
            await result
        count = due
        await asyncio.sleep(max(0.0, begun + count / rate - clock()))


async def to_endpoint(endpoint: str, rate: float, seconds: float) -> None:
    from aqueduct import channel, connect
    from aqueduct_core.transport.tls.credentials import ClientTls

    async with connect(endpoint, tls=ClientTls(insecure=True)) as connection:
        sender, receiver = channel(mode="ordered", name="steady")
        await connection.entrypoint.send(b"", attach=receiver)
        await paced(rate, seconds, sender.send_many)
        await sender.finish()


async def to_topic(topic: Topic, rate: float, seconds: float) -> None:
    from confluent_kafka import Producer

    producer = Producer({**topic.librdkafka_options, "acks": "all", "linger.ms": LINGER})
    producer.list_topics(topic.name, timeout=60)

    def produce(payloads: list[bytes]) -> None:
        for each in payloads:
            producer.produce(topic.name, each, partition=0)
        producer.poll(0)

    await paced(rate, seconds, produce)
    if producer.flush(60):
        raise RuntimeError("messages are not acked")


def words(target: str | Topic) -> list[str]:
    if isinstance(target, str):
        return [target]
    return ["topic", target.name, target.bootstrap, str(target.ca or "-")]


@contextmanager
def steady_sender(target: str | Topic, rate: float, seconds: float) -> Iterator[None]:
    """Send in a process of its own; the end waits for it. Raises RuntimeError when it failed."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.bench.steady", *words(target),
         str(rate), str(seconds)],
        env=environment(),
    )  # fmt: skip
    try:
        yield
        if process.wait(seconds + 120):
            raise RuntimeError(f"the sender ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    *target, rate, seconds = sys.argv[1:]
    if target[0] == "topic":
        _, name, bootstrap, ca = target
        topic = Topic(name, bootstrap, None if ca == "-" else Path(ca))
        asyncio.run(to_topic(topic, float(rate), float(seconds)))
    else:
        asyncio.run(to_endpoint(target[0], float(rate), float(seconds)))

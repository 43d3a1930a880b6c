"""A process that sends a load to a topic, with librdkafka or a producer in pure Python.

    python -m tests.bench.kafka_sender LIBRARY TOPIC BOOTSTRAP CA KIND COUNT CHANNELS

Until all are acked by the broker (``acks=all``); the same records as ours, on as many partitions as
there are channels. Prints seconds and CPU seconds as ours does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from tests.bench.kafka_broker import Topic
from tests.bench.loads import Load, Sent, sender_process

LIBRDKAFKA, PYTHON = "librdkafka", "kafka-python"
LINGER = 5
"""Milliseconds that a producer waits for more; librdkafka's own default."""
BATCH_BYTES = 1_000_000
LONGEST = 900


def librdkafka(topic: Topic, load: Load) -> Sent:
    from confluent_kafka import KafkaError, Message, Producer

    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            **topic.librdkafka_options,
            "acks": "all",
            "linger.ms": LINGER,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": 64 * 1024,
        }
    )
    producer.list_topics(topic.name, timeout=60)  # connected
    begun, used = time.monotonic(), time.process_time()
    for partition, bulk in zip(cycle(range(load.channels)), load.bulks(), strict=False):
        for payload in bulk:
            while True:
                try:
                    producer.produce(
                        topic.name, payload, partition=partition, on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    left = producer.flush(LONGEST)
    sent = Sent.since(begun, used)
    if left or failed:
        raise RuntimeError(f"{left} messages are not acked, {len(failed)} failed: {failed[:1]}")
    return sent


def pure_python(topic: Topic, load: Load) -> Sent:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        **topic.python_options,
        acks="all",
        linger_ms=LINGER,
        batch_size=BATCH_BYTES,
        max_request_size=4 * BATCH_BYTES,
    )
    producer.partitions_for(topic.name)  # connected
    begun, used = time.monotonic(), time.process_time()
    futures = [
        producer.send(topic.name, payload, partition=partition)
        for partition, bulk in zip(cycle(range(load.channels)), load.bulks(), strict=False)
        for payload in bulk
    ]
    producer.flush(LONGEST)
    sent = Sent.since(begun, used)
    if failed := [future for future in futures if not future.succeeded()]:
        raise RuntimeError(f"{len(failed)} messages are not acked")
    producer.close()
    return sent


def send_to_topic(
    library: str, topic: Topic, load: Load, meanwhile: Callable[[], object] | None = None
) -> Sent:
    """Send in a process of its own; ``meanwhile`` is called five times a second."""
    words = [library, topic.name, topic.bootstrap, str(topic.ca or "-")]
    return sender_process("tests.bench.kafka_sender", words, load, meanwhile)


if __name__ == "__main__":
    library, name, bootstrap, ca, kind, count, channels = sys.argv[1:]
    send = {LIBRDKAFKA: librdkafka, PYTHON: pure_python}[library]
    topic = Topic(name, bootstrap, None if ca == "-" else Path(ca))
    print(json.dumps(send(topic, Load(kind, int(count), int(channels)))._asdict()))

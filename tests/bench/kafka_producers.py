"""Producer → durable: ours against Kafka's, the same records on one channel or partition.

    python -m tests.bench.kafka_producers [--repetitions 5] [--seconds 4] [--kinds 100,1000,65536]

Until every message is acked. Ours are acked when they are on the disk; the broker acks when they
are (``flush.messages=1``), or when they are in the page cache. With TLS, as ours always, or plain.
Two producers: librdkafka, in C, and kafka-python.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.bench.intakes import intake_process
from tests.bench.kafka_broker import Broker, broker
from tests.bench.kafka_sender import LIBRDKAFKA, PYTHON, send_to_topic
from tests.bench.loads import MIXED, Load, Sent, load_for, send_from_elsewhere
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, ratios
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet

OURS = "ours"


class Way(NamedTuple):
    library: str
    durable: bool
    tls: bool

    def __str__(self) -> str:
        stored = "durable" if self.durable else "page cache"
        return f"{self.library}, {stored}, {'TLS' if self.tls else 'plain'}"


WAYS = (
    Way(LIBRDKAFKA, True, True),
    Way(LIBRDKAFKA, False, True),
    Way(LIBRDKAFKA, False, False),
    Way(PYTHON, True, True),
)
RIVAL = WAYS[0]


class Run(NamedTuple):
    """Seconds, and CPU seconds of the sender and of what receives."""

    wall: float
    sender: float
    receiver: float


def run(sent: Sent, meter: CpuMeter) -> Run:
    return Run(sent.wall, sent.cpu, meter.used())


def ours(load: Load) -> Run:
    with work_folder() as folder, intake_process(folder) as running:
        meter = CpuMeter(running.pid)
        return run(send_from_elsewhere(running.endpoint, load, meter.look), meter)


def theirs(kafka: Broker, way: Way, load: Load) -> Run:
    topic = kafka.topic(durable=way.durable, tls=way.tls, partitions=load.channels)
    meter = CpuMeter(kafka.pid)
    return run(send_to_topic(way.library, topic, load), meter)


def compare(effort: Effort, sheet: Sheet) -> None:
    with work_folder() as folder, broker(folder / "kafka") as kafka:
        for way in WAYS:
            theirs(kafka, way, load_for("1000", 0.5))  # warm the broker
        for kind in effort.kinds:
            block(kafka, kind, effort, sheet)


def block(kafka: Broker, kind: str, effort: Effort, sheet: Sheet) -> None:
    load = load_for(kind, effort.seconds)
    title = f"{int(kind):,} B" if kind != MIXED else "mixed sizes"
    kinds = {OURS: partial(ours, load)}
    kinds |= {str(way): partial(theirs, kafka, way, load) for way in WAYS}
    runs = list(in_turns(kinds, effort, sheet))
    for way in WAYS:
        goal = f"librdkafka-{kind}" if way == RIVAL and kind != MIXED else ""
        over = ratios(runs, OURS, str(way), lambda each: 1 / each.wall)
        sheet.add(f"{title}: ours over {way}", "x", over, goal)
    for name in kinds:
        sheet.add(f"{title}: {name}", "MB/s", [load.total / 1e6 / each[name].wall for each in runs])
    for name in kinds:
        for part in ("sender", "receiver"):
            used = [getattr(each[name], part) * 1e6 / load.count for each in runs]
            sheet.add(f"{title}: {name}, {part}'s CPU a message", "µs", used)


BENCH = Bench("kafka_producers", "producer → durable against Kafka's, the same records", compare)

if __name__ == "__main__":
    BENCH.run()

"""What each figure is to reach, and where it is measured; or why it is not.

``must`` and ``stretch`` are ratios inside one repetition unless their text says another unit.
"""

from __future__ import annotations

from typing import NamedTuple


class Goal(NamedTuple):
    """``most``: a figure is to be at most that, and not at least. ``bench``: who measures it."""

    text: str
    bench: str
    must: float
    stretch: float | None = None
    most: bool = False
    unit: str = "x"

    def verdict(self, value: float) -> str:
        """``stretch``, ``met`` or ``missed``."""
        if self.stretch is not None and self._reached(value, self.stretch):
            return "stretch"
        return "met" if self._reached(value, self.must) else "missed"

    def share(self, value: float) -> float:
        """How far a value is on its way to what it must be: 1 and more, and it is reached."""
        if not self.most:
            return value / self.must
        return self.must / value if value else float("inf")

    def _reached(self, value: float, bar: float) -> bool:
        return value <= bar if self.most else value >= bar

    def __str__(self) -> str:
        sign = "≤" if self.most else "≥"
        further = "" if self.stretch is None else f", stretch {self.stretch:g}"
        return f"{sign} {self.must:g}{further}"


GOALS: dict[str, Goal] = {
    "G1": Goal("raw receive over stock aioquic, CPU", "transport", 3.0, 7.0),
    "G3": Goal("a datagram with 10,000 open streams over one", "transport", 1.3, 1.1, most=True),
    "G4-100": Goal("wire → Arrow over counting, 100 B, CPU", "stages", 0.65, 0.85),
    "G4-1000": Goal("wire → Arrow over counting, 1,000 B, CPU", "stages", 0.80, 0.90),
    "G4-65536": Goal("wire → Arrow over counting, 64 KiB, CPU", "stages", 0.85, 0.95),
    "G5": Goal("wire → durable over counting, CPU", "stages", 0.65, 0.80),
    "G6": Goal("wire → durable → DataFrame over stock counting, wall", "pipeline", 2.0, 4.0),
    "G9": Goal("spool, 1 MiB groups, over append and fdatasync", "spool", 0.7, 0.9),
    "G10": Goal(
        "ack over the disk's flush and the group's interval, p50", "latency", 2.0, 1.3, most=True
    ),
    "G11": Goal("truncation of a segment of 32 MB", "spool", 25.0, most=True, unit="ms"),
    "G11-disk": Goal(
        "disk beyond what is live, in segments", "spool", 2.0, most=True, unit="segments"
    ),
    "G12": Goal("reading by Flight over bare Flight", "reading", 0.8, 0.95),
    "G13": Goal("reading what is stored over storing it", "stages", 5.0, 10.0),
    "G14": Goal("delivered over the window, nothing consumed", "transport", 1.1, most=True),
    "G15": Goal("speed with windows that follow consumption", "transport", 0.97),
    "G16-connection": Goal("memory of an idle connection over stock", "memory", 1.3, most=True),
    "G16-channel": Goal("memory of an open stream over stock", "memory", 1.3, most=True),
    "G17": Goal("rows in Arrow payloads over their bytes' rate", "stages", 0.85, 0.95),
    "G18": Goal("decoding 100 B messages over a plain loop", "engine", 8.0, 12.0),
    "engine-100": Goal("the engine's cost over a plain loop's, 100 B", "engine", 0.5, most=True),
    "engine-1000": Goal("the engine's cost over a plain loop's, 1,000 B", "engine", 1.0, most=True),
    "engine-65536": Goal("the engine's cost over a plain loop's, 64 KiB", "engine", 1.5, most=True),
    "channels-open": Goal(
        "a message with 10,000 channels open over 2,000", "channels", 2.0, most=True
    ),
    "channels-turn": Goal(
        "a channel after 100,000 over one after 20,000", "channels", 2.0, most=True
    ),
    "left-over": Goal("entries that channels leave", "channels", 0.0, most=True, unit=""),
    "objects-left-over": Goal("objects that channels leave", "channels", 49.0, most=True, unit=""),
    "mapped": Goal("rows from mapped segments over Flight", "reading", 1.0),
    "mapped-intake": Goal("the intake's CPU for them over Flight's", "reading", 0.2, most=True),
    "sink-memory": Goal(
        "memory of a sink after 10,000,000 rows over 1,000,000", "sink_memory", 1.25, most=True
    ),
    "sender": Goal("sender CPU a datagram, over before", "sending", 0.45, 0.30, most=True),
    "durable": Goal("wire → durable over stock counting, wall", "pipeline", 3.0, 5.0),
    "durable-mixed": Goal(
        "wire → durable over stock counting, mixed sizes, wall", "pipeline", 2.3, 4.0
    ),
    "sustained": Goal("wire → DataFrame for a minute over stock counting", "sustained", 2.0, 3.0),
    "kafka-rows": Goal("wire → DataFrame over Kafka's, 1,000 B", "kafka_rows", 0.5, 1.0),
    "kafka-stored": Goal("stored rows → noop over Kafka's", "kafka_rows", 0.8, 1.5),
    "kafka-write": Goal("df.write acked over Kafka's sink", "kafka_write", 1.5, 3.0),
    "active": Goal(
        "a message with 10,000 over 1,000 active channels", "active_channels", 1.3, 1.1, most=True
    ),
    "connections": Goal("500 over 50 connections", "connections", 2.0, 1.3, most=True),
    "drops": Goal("datagrams dropped on loopback", "connections", 0.0, 0.0, most=True, unit=""),
    "finish": Goal(
        "finish of a channel, both ends", "active_channels", 0.3, 0.15, most=True, unit="ms"
    ),
    "ack-p50": Goal("send → ack at 1,000/s, p50", "latency", 10.0, 5.0, most=True, unit="ms"),
    "ack-p99": Goal("send → ack at 1,000/s, p99", "latency", 30.0, 15.0, most=True, unit="ms"),
    "librdkafka-100": Goal("durable over librdkafka, 100 B", "kafka_producers", 0.6, 1.0),
    "librdkafka-1000": Goal("durable over librdkafka, 1,000 B", "kafka_producers", 0.6, 1.0),
    "librdkafka-65536": Goal("durable over librdkafka, 64 KiB", "kafka_producers", 0.5, 1.0),
    "kafka-p50": Goal("send → row over Kafka's, p50", "kafka_latency", 1.0, 0.7, most=True),
    "kafka-p99": Goal("send → row over Kafka's, p99", "kafka_latency", 0.5, 0.4, most=True),
    "kafka-start": Goal("start → first batch over Kafka's", "kafka_start", 3.0, 1.5, most=True),
    "kafka-submit": Goal(
        "spark-submit → first row over Kafka's", "kafka_start", 1.2, 1.0, most=True
    ),
    "worker": Goal(
        "worker CPU of a batch of one row", "microbatch", 35.0, 15.0, most=True, unit="ms"
    ),
    "long-memory": Goal("memory after an hour over the first minute", "long", 1.1, 1.0, most=True),
    "relay-stopped": Goal(
        "p99 of 20 readers with one more stopped", "media_relay", 2.0, 1.2, most=True
    ),
    "packet-ack": Goal(
        "age of an ack, 1,000 channels, p99", "packet_channels", 1_000, 100, most=True, unit="ms"
    ),
    "long-cost": Goal("CPU a message after an hour over the first", "long", 1.1, 1.0, most=True),
}

AGAINST = {"1 stream, in process: CPU a datagram": "sender"}
"""Goals of figures beside those of another checkout, which is the version before."""

NOT_MEASURED = {
    "G2": "qh3 is no transport of this project, so there is nothing to receive with",
    "G7": "the same: wire → durable with qh3",
    "G8": "the same: qh3 over aioquic",
}
"""Goals of the design without a bench, and why."""

_CHEAPER_BASE = (
    "what it is compared with, a server that only counts bytes, became eight times cheaper by runs "
    "of packets; what the stage itself costs has not grown"
)
NOT_REACHED = {
    "active": (
        "8,000 messages of 1,000 channels are less than what may wait to be sent (1 MiB), so those "
        "of a channel share its frames; 80,000 of 10,000 are more, and their senders are called in "
        "turn: fewer messages share a frame, an ack and an event. The rest follows the channels: "
        "8 KB and 52 objects each at either end, which caches and the garbage collector see. Fewer "
        "objects for a channel would bring the most; to let more wait brought little and made acks "
        "wait behind it on a slow path"
    ),
    "connections": (
        "ten times as many slow starts at once, and a tenth in each flight: runs of few packets, "
        "an ack of QUIC and one of the protocol as packets of their own, timeouts of clients that "
        "wait for one another on two processors. At a steady rate 500 connections cost what 50 do. "
        "First flights paced by what the server takes would bring the most"
    ),
    "kafka-p50": (
        "a micro-batch of a Python data source costs the JVM more than one of a source in the JVM: "
        "a task takes 6 ms longer (rows as Arrow through a worker), the commit of offsets in the "
        "planner's process 6 ms, planning 3 ms. An intake that reads messages together costs less "
        "than half of before, which brought a sixth; commits in the background would bring 3 ms"
    ),
    "kafka-start": (
        "Spark starts a process of Python for the reader of a query: of 0.58 s 0.4 are its start "
        "and the import of PySpark, 0.07 what a planner of ours imports. Kafka's source plans in "
        "the JVM that runs already"
    ),
    "G4-100": _CHEAPER_BASE,
    "G4-1000": _CHEAPER_BASE,
    "G4-65536": _CHEAPER_BASE,
    "G5": _CHEAPER_BASE,
    "G6": (
        "sender, intake and Spark share two processors, and below some hundred bytes a row's way "
        "through worker and JVM is what costs, whatever the wire does; a minute of 1,000 bytes, "
        "with the JVM warm, is in `sustained`"
    ),
    "G12": (
        "the range is that of bare Flight, which gains more than ours where both processors are "
        "free. Rows of events are fields of each record, null for messages: a slimmer column for "
        "them would bring the most. Readers on the same machine map segments instead"
    ),
    "G16-connection": (
        "28 KiB are the engine, its channel, the search for the path's MTU, keys of two phases and "
        "what bounds a peer, none of which the library has"
    ),
    "G16-channel": (
        "a channel is a stream each way with sender, receiver, credit and deadlines, and stock "
        "counts a bare stream"
    ),
    "G18": (
        "100 bytes cost 0.19 µs, with the columns of a batch (lengths, offsets, payloads), which "
        "the plain loop does not make"
    ),
}
"""Why a figure stays below what it must be, told where it does."""

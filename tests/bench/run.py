"""``make bench``: benches, one after the other; each prints its own table.

    python -m tests.bench.run [--only NAME,…] [--against CHECKOUT] [--repetitions N] [--seconds S]
                              [--kinds KIND,…] [--out DIRECTORY] [--list]

All figures that have a goal are ratios to a reference that ran in the same minute on the same
machine; absolute ones are there to see the order of magnitude. With ``--against`` each bench runs
by turns here and with the product of another checkout, and the ratios of the two are told.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.against import NoCheckout, compare, run_in
from tests.bench.goals import NOT_MEASURED
from tests.support.repository import ROOT

BENCHES = {
    "engine": "the engine's own cost for each message against a plain Python loop",
    "media": "QUICR's own cost for each object, without any transport",
    "packets": "Telehash's own cost for each packet, without any transport",
    "media_relay": "QUICR: what a relay adds to the delay of objects",
    "channels": "10,000 channels open, 100,000 in turn: flat cost and memory",
    "active_channels": "10,000 active channels against 1,000, and the end of 20,000",
    "single_messages": "messages sent by themselves: CPU of both ends, and the ack",
    "modes": "short messages in bulk: unordered and unreliable against ordered",
    "sending": "what a datagram costs its sender",
    "transport": "receiving UDP: our loop against stock aioquic, both counting bytes",
    "path_mtu": "larger datagrams, and those whose size is found out, against 1,200 bytes",
    "spool": "the spool against a bare append with fdatasync",
    "latency": "send → ack, one message at a time at a steady rate",
    "connections": "500 connections against 50: cost of a message, datagrams dropped",
    "reading": "reading stored rows here: mapped segments against Flight",
    "sink": "DataFrame → wire → acked, and record batches from frame to frame",
    "sink_task": "one task of the sink without Spark: CPU for a row, by kind",
    "sink_memory": "10,000,000 rows through one sink task: flat memory",
    "pipeline": "wire → durable → DataFrame against stock aioquic counting bytes",
    "stages": "what each stage of the way to the disk adds to counting bytes",
    "memory": "what an idle connection and an open channel hold, over stock",
    "microbatch": "what a micro-batch of one row costs, and a query's start",
    "triggers": "the trigger of a query: age of rows, rows a second",
    "media_rows": "QUICR: wire → durable → DataFrame beside Aqueduct's",
    "packet_rows": "Telehash: wire → durable → DataFrame beside Aqueduct's and QUICR's",
    "packet_window": "Telehash: one channel over a path with delay, beside its window",
    "packet_channels": "Telehash: 1,000 channels at once, and how old their acks are",
    "sustained": "wire → DataFrame for a minute against stock aioquic counting bytes",
}
"""Those of ``make bench``, in that order."""
WITH_KAFKA = {
    "kafka_producers": "producer → durable against Kafka's, the same records",
    "kafka_rows": "wire and stored rows → DataFrame against Spark's source for Kafka",
    "kafka_write": "df.write until all is acked against Spark's sink for Kafka",
    "kafka_latency": "send → row at 1,000 a second against Spark's source for Kafka",
    "kafka_start": "the start of a query against Spark's source for Kafka",
}
"""Those of ``make bench-kafka``, which need a broker."""

BY_ITSELF = {"long": "an hour of messages: cost and memory at its end over its beginning"}
"""Of ``make bench-long``."""


def main(arguments: list[str] | None = None) -> int:
    known = {**BENCHES, **WITH_KAFKA, **BY_ITSELF}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="names, with commas between; see --list")
    parser.add_argument("--kafka", action="store_true", help="those with a broker")
    parser.add_argument("--against", type=Path, help="another checkout of this project")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    if options.list:
        for name, title in known.items():
            print(f"{name:16} {title}")
        for goal, reason in NOT_MEASURED.items():
            print(f"{goal:16} not measured: {reason}")
        return 0
    names = [name for name in options.only.replace(",", " ").split() if name]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no bench is called {', '.join(unknown)}; they are {', '.join(known)}")
    given = []
    for option in ("seconds", "kinds"):
        if value := getattr(options, option):
            given += [f"--{option}", str(value)]
    often = ["--repetitions", str(options.repetitions)] if options.repetitions else []
    failed = []
    for name in names or (WITH_KAFKA if options.kafka else BENCHES):
        module = f"tests.bench.{name}"
        print(f"\n=== {known[name]} ({module})", flush=True)
        if options.against:
            try:
                sheet = compare(name, module, options.against, options.repetitions or 5, given)
            except (NoCheckout, RuntimeError) as error:
                print(error, file=sys.stderr)
                failed.append(name)
                continue
            print("\nthis checkout over the other:", *sheet.lines(), sep="\n", flush=True)
            sheet.write(options.out)
        elif run_in(ROOT, module, [*given, *often, "--out", str(options.out.resolve())]):
            failed.append(name)
    if failed:
        print("\nbelow a goal or failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""How long a group takes until it is durable, how much goes through, and what it costs: against the
gateway at several distances, beside the local spool in the same run. `make objects` prints it."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.spool.objects.appending import ObjectSettings
from aqueduct_core.spool.objects.spool import ObjectSpool
from aqueduct_core.spool.objects.store import ObjectStore, Operation, StoreOutcome
from aqueduct_core.spool.spool import Spool
from aqueduct_core.spool.sync import wait_readable
from tests.support.objects.gateway import farther, gateway_above

DISTANCES = (0.0, 0.02, 0.1)
"""Seconds that are added from a request to its answer."""

GROUP_SECONDS = 0.02
PACED, PACED_BYTES = 150, 20_000
BULK, BULK_BYTES = 60, 1 << 20
SCHEMA = pa.schema([("value", pa.binary())])


@dataclass
class CountingStore:
    """Counts what is asked of a store."""

    store: ObjectStore
    requests: Counter[str] = field(default_factory=Counter)

    def carry_out(self, operation: Operation) -> StoreOutcome:
        self.requests[type(operation).__name__] += 1
        return self.store.carry_out(operation)


@dataclass(frozen=True, slots=True)
class StorageFigures:
    """``half`` and ``most``: milliseconds within which 50 % and 99 % of the groups were durable, of
    20 kB each, one every 20 ms; ``rate``: MB/s of groups of 1 MiB as fast as they go;
    ``requests``: per MB, of those groups."""

    half: float
    most: float
    rate: float
    requests: float | None = None

    def row(self, name: str) -> str:
        requests = "–" if self.requests is None else f"{self.requests:.2f}"
        return f"| {name} | {self.half:.1f} | {self.most:.1f} | {self.rate:.0f} | {requests} |"


def rows(size: int) -> pa.RecordBatch:
    """Of a thousand bytes each, about."""
    data = [bytes([number % 256]) * 1000 for number in range(size // 1000)]
    return pa.record_batch([pa.array(data, pa.binary())], schema=SCHEMA)


def paced(spool: Any) -> list[float]:
    """Seconds until each group was durable."""
    begun: dict[int, float] = {}
    took: list[float] = []

    def durable(group: int) -> None:
        now = time.perf_counter()
        took.extend(now - begun.pop(each) for each in [each for each in begun if each <= group])

    spool.on_durable = durable
    batch = rows(PACED_BYTES)
    start = time.perf_counter()
    for number in range(PACED):
        due = start + number * GROUP_SECONDS
        while (left := due - time.perf_counter()) > 0:
            if wait_readable(spool.fileno(), left):
                spool.pump()
        spool.append(0, batch)
        begun.setdefault(spool.group, time.perf_counter())
        spool.flush()
    assert spool.settle(60)
    return sorted(took)


def bulk(spool: Any) -> float:
    """Bytes a second."""
    batch = rows(BULK_BYTES)
    start = time.perf_counter()
    for _ in range(BULK):
        while spool.full:
            wait_readable(spool.fileno(), 1.0)
            spool.pump()
        spool.append(0, batch)
        spool.flush()
        spool.pump()
    assert spool.settle(300)
    return BULK * BULK_BYTES / (time.perf_counter() - start)


def measured(spool: Any, requests: Callable[[], int] | None = None) -> StorageFigures:
    took = paced(spool)
    before = requests() if requests else 0
    rate = bulk(spool)
    per_mb = (requests() - before) / (BULK * BULK_BYTES / 1e6) if requests else None
    half, most = took[len(took) // 2], took[int(len(took) * 0.99)]
    return StorageFigures(half * 1e3, most * 1e3, rate / 1e6, per_mb)


@contextmanager
def object_spool(store: ObjectStore) -> Iterator[ObjectSpool]:
    bounds = ObjectSettings(window=16)
    with ObjectSpool.open(store, schema=SCHEMA, partitions=1, bounds=bounds) as spool:
        yield spool


def main() -> None:
    print("| Spool | p50 ms | p99 ms | MB/s | requests/MB |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        with Spool.open(Path(place) / "local", schema=SCHEMA, partitions=1) as local:
            print(measured(local).row("local"), flush=True)
        (Path(place) / "gateway").mkdir()
        with gateway_above(Path(place) / "gateway") as gateway:
            for distance in DISTANCES:
                name = f"{distance * 1000:.0f} ms"
                with farther(gateway, distance) as far:
                    counting = CountingStore(far.store(f"{distance * 1000:.0f}"))
                    with object_spool(counting) as spool:
                        found = measured(spool, counting.requests.total)
                print(found.row(f"gateway + {name}"), flush=True)


if __name__ == "__main__":
    main()

"""A host with rows in memory, served and called, for tests of server and client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from msgspec import structs

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.flight.activity import (
    ActivityStatus,
    ChannelQuery,
    ChannelStatus,
    CursorLag,
    SpoolUse,
)
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.server import IntakeServer
from aqueduct_core.flight.status import CursorOwner, CursorReset, IntakeStatus, Rates
from aqueduct_core.flight.subscription_status import Failure, SubscriptionStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket, View, require_spool
from aqueduct_core.spool import Location, Stretch
from tests.support.waiting import LONG

SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("source", pa.run_end_encoded(pa.int32(), pa.struct([("name", pa.string())]))),
    ]
)
CREDENTIALS = Credentials.fresh()
SPOOL = "6f3c1c1e-0000-4000-8000-000000000001"


def batch(first: int, count: int, size: int = 8, name: str = "a") -> pa.RecordBatch:
    values = pa.array([b"%0*d" % (size, n) for n in range(first, first + count)], pa.binary())
    source = pa.RunEndEncodedArray.from_arrays(
        pa.array([count], pa.int32()), pa.array([{"name": name}], SCHEMA.field(1).type.value_type)
    )
    return pa.RecordBatch.from_arrays([values, source], schema=SCHEMA)


class MemoryHost:
    """Rows 0 to ``rows`` of partition 0, stored in batches of ``grain``."""

    schema = SCHEMA

    def __init__(self, rows: int = 100, grain: int = 10, size: int = 8) -> None:
        self.rows = rows
        self.grain = grain
        self.size = size
        self.corrupt_from: int | None = None
        self.pause: tuple[int, float] | None = None
        self.calls: list[object] = []
        self.more = threading.Event()

    def status(self) -> IntakeStatus:
        return IntakeStatus(
            id=SPOOL,
            epoch=3,
            ends=(self.rows,),
            starts=(0,),
            committed={"query": (5,)},
            listen="127.0.0.1:4433",
            flight="127.0.0.1:4434",
            pid=1,
            lease=15.0,
            counters={"rows": self.rows},
            events=(3, 9),
            events_committed={"events": 4},
            held_bytes=17,
            rates=Rates(1.5, 300.0),
            oldest=(2.5,),
            subscriptions=SubscriptionStatus(2, 1, 0, (Failure("c", "lost", "gone"),), 1),
            complete=False,
            owners={"query": CursorOwner("a1b2", "host box, process 7", 1.5)},
            settings={"listen": "127.0.0.1:0"},
        )

    def observe(self, query: ChannelQuery) -> IntakeStatus:
        self.calls.append(query)
        channel = ChannelStatus("orders", "p", "s-1", 8, messages=7, rate=1.5)
        return structs.replace(
            self.status(),
            activity=ActivityStatus(started=1.0, reliable=7, channels=(channel,), channels_found=1),
            lag=(CursorLag("query", "messages", self.rows - 5, 1_000, 2.5),),
            use=SpoolUse(2_000, 10_000, 1, self.rows),
        )

    def wait(self, beyond: Sequence[int], timeout: float, view: View) -> IntakeStatus:
        self.calls.append(timeout if view == "messages" else (view, timeout))
        if list(beyond) == [self.rows]:
            self.more.wait(timeout)
        return self.status()

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]:
        require_spool(SPOOL, ticket.spool)
        if ticket.end > self.rows:
            raise DataLoss("OFFSET_AHEAD", f"offset {ticket.end} is not stored", "Wait for it")
        return self._rows(ticket.start, ticket.end)

    def _rows(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        position = start
        while position < end:
            if self.corrupt_from is not None and position >= self.corrupt_from:
                raise SpoolFailed("CORRUPT", f"offset {position} is damaged", "Restore it")
            if self.pause is not None and position >= self.pause[0]:
                seconds, self.pause = self.pause[1], None
                time.sleep(seconds)
            stop = min(end, position - position % self.grain + self.grain)
            yield batch(position, stop - position, self.size, f"run {position // self.grain}")
            position = stop

    def locations(self, ticket: Ticket) -> list[Location]:
        self.calls.append(ticket)
        middle = (ticket.start + ticket.end) // 2
        return [
            Location(ticket.partition, "/spool/a", 8, 100, ticket.start, middle, 1, 2, "s"),
            Location(ticket.partition, "/spool/b", 0, 120, middle, ticket.end, 1, 3, "s"),
        ]

    def stretches(self, ticket: Ticket) -> list[Stretch]:
        require_spool(SPOOL, ticket.spool)
        middle = (ticket.start + ticket.end) // 2
        return [
            Stretch(ticket.start, middle, "stored"),
            Stretch(middle, ticket.end, "skipped"),
        ]

    def skip(self, order: GiveUp) -> None:
        require_spool(SPOOL, order.ticket.spool)
        self.calls.append(order)

    def sizes(self, partition: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        self.calls.append(("sizes", partition, start, end, step))
        return [(start + 1, step), (end, 2 * step)]

    def locate(self, microseconds: int, view: View) -> list[int]:
        self.calls.append(("locate", microseconds, view))
        return [7]

    def hold(self, hold: Hold) -> None:
        require_spool(SPOOL, hold.spool)
        self.calls.append(hold)
        if hold.owner == "late":
            raise SpoolFailed("CURSOR_IN_USE", f"cursor {hold.cursor!r} is held", "Wait")

    def release(self, cursor: str, owner: str) -> None:
        self.calls.append(("release", cursor, owner))

    def drop_cursor(self, cursor: str, query: str | None) -> None:
        self.calls.append(("drop", cursor, query))

    def give_cursor(self, cursor: str) -> None:
        self.calls.append(("give", cursor))

    def reset_cursor(self, order: Reset) -> CursorReset:
        require_spool(SPOOL, order.spool)
        self.calls.append(order)
        return CursorReset("r1", order.to, 1_800_000_000.5)

    def commit(self, commit: Commit) -> None:
        require_spool(SPOOL, commit.spool)
        self.calls.append(commit)

    def renew(self, seconds: float | None) -> None:
        self.calls.append(("renew", seconds))

    def drain(self) -> None:
        raise KeyError("something that no client should read")


@contextmanager
def serving(
    host: MemoryHost, refused: Callable[[str], None] = lambda reason: None
) -> Iterator[IntakeServer]:
    server = IntakeServer("127.0.0.1", 0, CREDENTIALS, host, refused)
    try:
        yield server
    finally:
        server.shutdown()


@contextmanager
def client_of(
    server: IntakeServer, credentials: Credentials = CREDENTIALS, read_timeout: float = LONG
) -> Iterator[IntakeClient]:
    with IntakeClient(
        f"127.0.0.1:{server.port}",
        credentials.for_clients(),
        action_timeout=LONG,
        read_timeout=read_timeout,
    ) as client:
        yield client

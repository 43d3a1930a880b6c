"""Reads of a client: exactly its rows, at its pace, and an end when the intake is silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from aqueduct_core.errors import IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import READ_AHEAD
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.spool import BATCH_BYTES
from tests.core.flight.hosted import SPOOL, MemoryHost, client_of, serving
from tests.support.waiting import LONG, SOON


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(value.as_py()[-8:]) for one in batches for value in one.column("value")]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (3, 97), (10, 20), (15, 16), (4, 4)])
def test_a_read_has_exactly_the_rows_of_its_ticket(start: int, end: int) -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        assert values(client.read(Ticket(SPOOL, 0, start, end))) == list(range(start, end))


def test_wait_answers_at_once_when_there_is_more_and_is_bounded() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        begun = time.monotonic()
        assert client.wait([99], LONG).ends == (100,)
        assert client.wait([9], LONG, view="events").events == (3, 9)
        assert time.monotonic() - begun < SOON
        threading.Timer(0.1, host.more.set).start()
        assert client.wait([100], LONG).ends == (100,)
        assert time.monotonic() - begun < SOON
    assert host.calls == [1.0, ("events", 1.0), 1.0]


def test_an_error_in_the_middle_of_a_read_comes_after_the_rows_before_it() -> None:
    host = MemoryHost(grain=10, size=BATCH_BYTES // 10)
    host.corrupt_from = 50
    got: list[int] = []
    with serving(host) as server, client_of(server) as client:
        batches = client.read(Ticket(SPOOL, 0, 0, 100))
        got += values(next(batches) for _ in range(5))
        with pytest.raises(SpoolFailed, match=r"CORRUPT\] offset 50"):
            next(batches)
    assert got == list(range(50))


def test_a_silent_intake_ends_the_read() -> None:
    host = MemoryHost()
    host.pause = (0, 1.0)
    with (
        serving(host) as server,
        client_of(server, read_timeout=0.3) as client,
        pytest.raises(IntakeFailed, match=r"UNREACHABLE.*did not answer within 0.3 s"),
    ):
        list(client.read(Ticket(SPOOL, 0, 0, 100)))


def test_a_read_that_made_progress_goes_on_after_its_time() -> None:
    host = MemoryHost(grain=10, size=BATCH_BYTES // 10)
    host.pause = (50, 0.6)
    with serving(host) as server, client_of(server, read_timeout=0.5) as client:
        assert values(client.read(Ticket(SPOOL, 0, 0, 100))) == list(range(100))


class Counting(MemoryHost):
    """Counts the batches that were asked for."""

    given = 0

    def _rows(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        for one in super()._rows(start, end):
            self.given += 1
            yield one


@pytest.mark.parametrize("eager", [1, 100], ids=["slow", "fast at first"])
def test_slow_readers_wait_for_their_own_pace_and_hold_little(eager: int) -> None:
    """A hundred megabytes for each; nobody holds more of them than a read may be ahead."""
    host = Counting(rows=2_000, grain=10, size=BATCH_BYTES // 10)
    with serving(host) as server, ExitStack() as stack:
        clients = [stack.enter_context(client_of(server)) for _ in range(2)]
        readers = [
            stack.enter_context(closing(client.read(Ticket(SPOOL, 0, 0, 2_000))))
            for client in clients
        ]
        taken = 0

        def ahead() -> int:
            """In bytes, of both reads."""
            return (host.given - taken) * BATCH_BYTES

        bound = 2 * (2 * READ_AHEAD + BATCH_BYTES)
        for reader in readers:
            for _ in range(eager):
                next(reader)
                taken += 1
        settled = 0
        while settled != host.given:  # until nothing moves any more
            settled = host.given
            threading.Event().wait(0.3)
        assert ahead() <= bound
        for reader in readers:
            for _ in reader:
                taken += 1
                assert ahead() <= bound
        assert taken == host.given == 400

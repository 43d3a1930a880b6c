from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.authenticated import authorized
from aqueduct_core.flight.client import READ_AHEAD
from aqueduct_core.flight.joining import BATCH_BYTES, joined
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Ticket
from aqueduct_core.spool import Location, Stretch
from tests.core.flight.hosted import CREDENTIALS, SPOOL, MemoryHost, batch, client_of, serving
from tests.support.waiting import LONG, SOON


def values(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(value.as_py()[-8:]) for one in batches for value in one.column("value")]


def test_status_and_orders_reach_the_host() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        client.commit("early", [1])
        assert client.status() == host.status()
        client.commit("query", [7])
        client.commit("query", [8], spool=SPOOL, epoch=0)
        client.renew(4.5)
        client.renew()
    assert host.calls == [
        Commit("early", (1,)),
        Commit("query", (7,), SPOOL, 3),
        Commit("query", (8,), SPOOL, 0),
        ("renew", 4.5),
        ("renew", None),
    ]


def test_cursors_are_held_released_and_dropped() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        client.hold("early", "me")
        client.status()
        client.hold("query", "me", seconds=2.5)
        client.hold("events", "me", view="events")
        client.commit("events", [4], owner="me", view="events", query="a1b2")
        client.hold("query", "me", query="a1b2", where="host box, process 7")
        client.release("query", "me")
        client.drop_cursor("query")
        client.drop_cursor("query", query="a1b2")
        client.give_cursor("query")
        with pytest.raises(SpoolFailed, match=r"CURSOR_IN_USE\] cursor 'query' is held"):
            client.hold("query", "late")
    assert host.calls == [
        Hold("early", "me"),
        Hold("query", "me", 2.5, spool=SPOOL),
        Hold("events", "me", view="events", spool=SPOOL),
        Commit("events", (4,), SPOOL, 3, "me", "events", "a1b2"),
        Hold("query", "me", spool=SPOOL, query="a1b2", where="host box, process 7"),
        ("release", "query", "me"),
        ("drop", "query", None),
        ("drop", "query", "a1b2"),
        ("give", "query"),
        Hold("query", "late", spool=SPOOL),
    ]


def test_what_rows_take_and_where_they_lie_comes_from_the_host() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        assert client.sizes(1, 5, 9, 1000) == [(6, 1000), (9, 2000)]
        assert client.locate(1_800_000_000_000_000) == (7,)
        assert client.locate(5, view="events") == (7,)
        ticket = Ticket(SPOOL, 1, 10, 20)
        first, last = client.pieces(ticket)
        assert isinstance(first, Location)
        assert (first.path, first.first, first.stop, last.first, last.stop) == (
            "/spool/a", 10, 15, 15, 20,
        )  # fmt: skip
        assert last.inode == 3
        mine = Ticket(SPOOL, 0, 10, 20)
        assert client.stretches(mine) == [Stretch(10, 15, "stored"), Stretch(15, 20, "skipped")]
        client.skip(mine, "a bad disk")
        with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
            client.skip(Ticket("another", 0, 10, 20), "a bad disk")
    assert host.calls.pop() == GiveUp(mine, "a bad disk")
    assert host.calls == [
        ("sizes", 1, 5, 9, 1000),
        ("locate", 1_800_000_000_000_000, "messages"),
        ("locate", 5, "events"),
        ticket,
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (3, 97), (10, 20), (15, 16), (4, 4)])
def test_a_read_has_exactly_the_rows_of_its_ticket(start: int, end: int) -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        assert values(client.read(Ticket(SPOOL, 0, start, end))) == list(range(start, end))


def test_small_batches_are_joined_and_keep_their_runs() -> None:
    host = MemoryHost(rows=20_000, grain=20, size=100)
    with serving(host) as server, client_of(server) as client:
        batches = list(client.read(Ticket(SPOOL, 0, 7, 20_000)))
    assert all(BATCH_BYTES <= one.nbytes < 2 * BATCH_BYTES for one in batches[:-1])
    assert values(iter(batches)) == list(range(7, 20_000))
    names = [name["name"] for one in batches for name in one.column("source").to_pylist()]
    assert names == [f"run {n // 20}" for n in range(7, 20_000)]


def test_a_large_batch_goes_out_as_it_is() -> None:
    large = batch(0, 100, BATCH_BYTES // 50)
    assert [one is large for one in joined(iter([large]))] == [True]


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


def test_errors_of_the_host_are_the_same_class_at_the_client() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        with pytest.raises(DataLoss, match=r"OFFSET_AHEAD\] offset 101 is not stored"):
            list(client.read(Ticket(SPOOL, 0, 0, 101)))
        with pytest.raises(DataLoss, match=r"SPOOL_REPLACED"):
            list(client.read(Ticket("another", 0, 0, 1)))
        with pytest.raises(DataLoss, match=r"SPOOL_REPLACED"):
            client.commit("query", [1], spool="another")


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


def test_a_fault_of_ours_shows_its_type_only() -> None:
    with (
        serving(MemoryHost()) as server,
        client_of(server) as client,
        pytest.raises(IntakeFailed, match="internal error KeyError") as caught,
    ):
        client.drain()
    assert "no client should read" not in str(caught.value)


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


@pytest.mark.parametrize("body", [b"garbage", b"[]", b"{}", b'{"timeout": "x", "beyond": []}'])
def test_garbage_in_an_action_is_refused_and_the_server_stays(body: bytes) -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        raw = client._client
        options = authorized(CREDENTIALS, LONG)
        with pytest.raises(fl.FlightServerError):
            list(raw.do_action(fl.Action("wait", body), options))
        with pytest.raises(fl.FlightServerError):
            list(raw.do_action(fl.Action("invented", b"{}"), options))
        with pytest.raises(fl.FlightServerError):
            raw.do_get(fl.Ticket(b"garbage"), options).read_all()
        assert client.status().epoch == 3


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

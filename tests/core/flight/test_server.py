"""Status, orders and rows go through the server; errors stay what they are."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.authenticated import authorized
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket
from aqueduct_core.spool import BATCH_BYTES, Location, Stretch, coalesced
from tests.core.flight.hosted import CREDENTIALS, SPOOL, MemoryHost, batch, client_of, serving
from tests.support.waiting import LONG


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
        assert client.reset_cursor("query", [7, 8]).to == (7, 8)
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
        Reset("query", (7, 8), SPOOL),
        Hold("query", "late", spool=SPOOL),
    ]


def test_what_rows_take_and_where_they_lie_comes_from_the_host() -> None:
    host = MemoryHost()
    with serving(host) as server, client_of(server) as client:
        assert client.sizes(1, 5, 9, 1000) == [(6, 1000), (9, 2000)]
        assert client.locate(1_800_000_000_000_000) == (7,)
        assert client.locate(5, view="events") == (7,)
        ticket = Ticket(SPOOL, 1, 10, 20)
        first, last = client.locations(ticket)
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
    assert [one is large for one in coalesced(iter([large]))] == [True]


def test_errors_of_the_host_are_the_same_class_at_the_client() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        with pytest.raises(DataLoss, match=r"OFFSET_AHEAD\] offset 101 is not stored"):
            list(client.read(Ticket(SPOOL, 0, 0, 101)))
        with pytest.raises(DataLoss, match=r"SPOOL_REPLACED"):
            list(client.read(Ticket("another", 0, 0, 1)))
        with pytest.raises(DataLoss, match=r"SPOOL_REPLACED"):
            client.commit("query", [1], spool="another")


def test_a_fault_of_ours_shows_its_type_only() -> None:
    with (
        serving(MemoryHost()) as server,
        client_of(server) as client,
        pytest.raises(IntakeFailed, match="internal error KeyError") as caught,
    ):
        client.drain()
    assert "no client should read" not in str(caught.value)


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

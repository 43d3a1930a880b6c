"""The orders of planners on a real spool, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError, DataLoss, IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.status import CursorOwner
from aqueduct_core.flight.tickets import Commit, Hold, Reset
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.control.commands import Control
from aqueduct_core.intake.control.lease import Lease
from aqueduct_core.intake.control.state import IntakeState
from aqueduct_core.intake.observing.activity import Activity
from aqueduct_core.intake.observing.traffic_table import ConnectionState
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from aqueduct_core.spool.lock import LOCK
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000


class Desk:
    def __init__(self, b: Bench) -> None:
        self.now = 100.0
        self.moved = 0
        self.drained = False
        self.behind: list[AqueductError] = []
        self.lease = Lease(10.0, self.now)
        self.spool = b.spool
        self.activity = Activity(lambda: self.now, lambda: NOW)
        self.serving = Control(
            b.spool,
            2,
            lease=self.lease,
            fence=Fence(b.spool),
            clock=lambda: self.now,
            state=lambda: IntakeState("l:1", "f:2", connections=3, held_bytes=7),
            moved=self._moved,
            behind=self.behind.append,
            drain=self._drain,
            record=b.groups.record,
            activity=self.activity,
            peers=lambda: [ConnectionState("s", "h:1", 2, 3, 4)],
            wall_microseconds=lambda: NOW,
            wall=lambda: 1_800_000_000.0 + self.now,
        )

    def _moved(self) -> None:
        self.moved += 1

    def _drain(self) -> None:
        self.drained = True


@contextmanager
def desk(directory: Path) -> Iterator[Desk]:
    with bench(directory, partitions=2) as b:
        peer = Peer()
        for name in ("a", "b", "c", "d"):
            source = AqueductSource(name, "p", "s", 8)
            b.groups.add(PendingBatch(peer, run([b"x"]), source, True, NOW))
        b.groups.record(PendingEvent(peer, LoggedEvent("connected", NOW, "s")))
        b.settle()
        yield Desk(b)


def test_a_status_tells_messages_and_events_apart(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me"))
        d.serving.hold(Hold("events", "me", view="events"))
        ends = tuple(d.spool.ends())
        d.serving.commit(Commit("query", ends[:2], owner="me"))
        d.serving.commit(Commit("events", (1,), owner="me", view="events"))
        status = d.serving.status()
        assert (status.ends, status.starts, status.events) == (ends[:2], (0, 0), (0, 1))
        assert sum(status.ends) == 4
        assert (status.committed, status.events_committed) == ({"query": ends[:2]}, {"events": 1})
        assert (status.listen, status.flight, status.connections, status.held_bytes) == (
            "l:1", "f:2", 3, 7,
        )  # fmt: skip
        assert d.moved == 4


def test_every_order_of_a_planner_renews_the_lease(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        for order in (
            d.serving.status,
            lambda: d.serving.hold(Hold("query", "me", 60.0)),
            lambda: d.serving.commit(Commit("query", (0, 0), owner="me")),
            lambda: d.serving.renew(None),
        ):
            d.now += 9.0
            order()
        d.now += 9.0
        assert not d.lease.check(d.now)
        d.now += 2.0
        assert d.lease.check(d.now) is False  # this late, it was the process that stood still
        d.now += 1.0
        assert not d.lease.check(d.now)
        d.serving.drain()
        assert d.drained


def test_who_has_read_what_is_not_stored_ends_it(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        a, b, events = d.spool.ends()
        d.serving.hold(Hold("query", "me", given_out=(a, b)))
        d.serving.hold(Hold("events", "me", view="events", given_out=(events,)))
        assert not d.behind
        for late in (
            Hold("query", "me", given_out=(a, b + 1)),
            Hold("events", "me", view="events", given_out=(events + 1,)),
        ):
            with pytest.raises(DataLoss, match="OFFSET_AHEAD") as refused:
                d.serving.hold(late)
            assert d.behind.pop() is refused.value


def test_commits_of_the_wrong_shape_spool_epoch_or_view_are_refused(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me"))
        for commit, error in (
            (Commit("query", (0,), owner="me"), ValueError),
            (Commit("query", (0, 0), owner="me", view="events"), ValueError),
            (Commit("query", (0,), owner="me", view="events"), InvalidOption),
            (Commit("query", (0, 0), "another", owner="me"), DataLoss),
            (Commit("query", (0, 0), epoch=99, owner="me"), IntakeFailed),
            (Commit("query", (99, 0), owner="me"), DataLoss),
            (Commit("query", (0, 0), owner="other"), SpoolFailed),
        ):
            with pytest.raises(error):
                d.serving.commit(commit)
        assert d.serving.status().committed == {"query": (0, 0)}


def test_a_hold_on_the_wrong_view_or_spool_holds_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("events", "me", view="events"))
        d.serving.release("events", "me")
        with pytest.raises(InvalidOption):
            d.serving.hold(Hold("events", "other"))
        with pytest.raises(DataLoss):
            d.serving.hold(Hold("events", "other", view="events", spool="another"))
        d.serving.hold(Hold("events", "third", view="events"))


def test_a_dropped_cursor_is_gone_for_everybody(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me", 5.0))
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            d.serving.drop_cursor("query", None)
        d.now += 5.0
        d.serving.drop_cursor("query", None)
        assert d.serving.status().committed == {}
        d.serving.drop_cursor("query", None)
        d.serving.hold(Hold("query", "other"))


def test_fault_41_only_the_query_that_owns_a_cursor_holds_commits_or_drops_it(
    tmp_path: Path,
) -> None:
    with desk(tmp_path) as d:
        ends = tuple(d.spool.ends()[:2])
        d.serving.hold(Hold("query", "run 1", 5.0, query="", where="host a"))
        assert d.serving.status().owners == {}  # its id is in no checkpoint yet
        d.serving.hold(Hold("query", "run 1", 5.0, query="a1", where="host a"))
        owner = CursorOwner("a1", "host a", 1_800_000_100.0)
        assert d.serving.status().owners == {"query": owner}
        d.serving.commit(Commit("query", (0, 0), owner="run 1", query="a1"))
        d.serving.release("query", "run 1")
        d.now += 60.0
        for query in ("b2", ""):
            for order in (
                lambda query=query: d.serving.hold(Hold("query", "run 2", query=query)),
                lambda query=query: d.serving.commit(Commit("query", ends, query=query)),
                lambda query=query: d.serving.commit(
                    Commit("query", ends, owner="run 1", query=query)
                ),
                lambda query=query: d.serving.drop_cursor("query", query),
            ):
                with pytest.raises(SpoolFailed, match=r"CURSOR_IN_USE\].*query a1 \(host a") as no:
                    order()  # type: ignore[no-untyped-call]
                assert f"aqueduct spool cursors {tmp_path} --give query" in str(no.value)
        assert d.serving.status().committed == {"query": (0, 0)}
        assert d.serving.status().owners == {"query": owner}
        d.serving.hold(Hold("query", "run 3", query="a1", where="host b"))
        assert d.serving.status().owners["query"].where == "host b"


def test_fault_41_an_operator_gives_a_cursor_to_the_next_query(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "run 1", 5.0, query="a1"))
        d.serving.commit(Commit("query", (1, 0), owner="run 1", query="a1"))
        with pytest.raises(SpoolFailed, match="is held by another"):
            d.serving.give_cursor("query")
        d.now += 5.0
        d.serving.give_cursor("query")
        d.serving.hold(Hold("query", "run 2", query="b2"))
        assert d.serving.status().committed == {"query": (1, 0)}
        with pytest.raises(SpoolFailed, match="belongs to query b2"):
            d.serving.hold(Hold("query", "run 1", query="a1"))
        d.serving.release("query", "run 2")
        d.serving.drop_cursor("query", None)
        d.serving.hold(Hold("query", "run 3", query="c3"))


def test_fault_41_a_cursor_that_was_dropped_otherwise_is_nobodys(tmp_path: Path) -> None:
    """By a release that knows no owners; or its drop was cut off before the owner was forgotten."""
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "run 1", 5.0, query="a1"))
        d.serving.release("query", "run 1")
        d.spool.drop("query")
        assert d.serving.status().owners == {}
        d.serving.hold(Hold("query", "run 2", query=""))
        d.serving.hold(Hold("query", "run 2", query="b2"))


def test_fault_13_a_full_disk_under_the_catalog_fails_no_query_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me"))

        def full(*_: object) -> None:
            raise SpoolFailed("FULL", "no space", "Free some")

        monkeypatch.setattr(d.spool, "commit", full)
        monkeypatch.setattr(d.spool, "enter_cursor", full)
        moved = d.moved
        d.serving.hold(Hold("query", "me"))
        d.serving.commit(Commit("query", tuple(d.spool.ends()[:2]), owner="me"))
        assert d.moved == moved + 2  # what it has read may go, which makes room
        with pytest.raises(SpoolFailed, match="FULL"):
            d.serving.hold(Hold("new", "me"))
        d.serving._leases.hold("new", "other", 5.0, d.now)  # and nobody holds it


def test_fault_32_nothing_is_answered_once_another_intake_has_the_spool(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        (tmp_path / LOCK).unlink()
        with bench(tmp_path, partitions=2) as successor:
            assert successor.spool.epoch == d.spool.epoch + 1
            for order in (
                d.serving.status,
                lambda: d.serving.hold(Hold("query", "me")),
                lambda: d.serving.commit(Commit("query", (0, 0))),
                lambda: d.serving.drop_cursor("query", None),
                lambda: d.serving.renew(None),
            ):
                with pytest.raises(SpoolFailed, match="opened by another owner"):
                    order()
        d.spool.abandon("another has it")


def test_commits_are_timed_and_peers_are_told(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me"))
        d.serving.commit(Commit("query", tuple(d.spool.ends()[:2]), owner="me"))
        assert d.activity.commits.status().count == 1
        assert [each.address for each in d.serving.peers()] == ["h:1"]


def test_a_cursor_is_reset_while_nobody_holds_it_and_commits_obey(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        ends = tuple(d.spool.ends()[:2])
        d.serving.hold(Hold("query", "me"))
        d.serving.commit(Commit("query", ends, owner="me"))
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            d.serving.reset_cursor(Reset("query", (0, 0)))
        d.serving.release("query", "me")
        with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
            d.serving.reset_cursor(Reset("query", (0, 0), "another"))
        assert d.serving.status().resets == {}
        reset = d.serving.reset_cursor(Reset("query", (0, 0), d.spool.id))
        assert d.serving.status().resets == {"query": reset}
        assert d.serving.status().committed == {"query": (0, 0)}
        d.serving.hold(Hold("query", "me"))
        d.serving.commit(Commit("query", ends, owner="me"))
        assert d.serving.status().committed == {"query": (0, 0)}
        d.serving.commit(Commit("query", ends, owner="me", reset=reset.id))
        assert d.serving.status().committed == {"query": ends}
        assert d.serving.status().resets == {}


def test_a_reset_goes_with_its_cursor(tmp_path: Path) -> None:
    with desk(tmp_path) as d:
        d.serving.hold(Hold("query", "me"))
        d.serving.release("query", "me")
        d.serving.reset_cursor(Reset("query", (0, 0)))
        d.serving.drop_cursor("query", None)
        assert d.serving.status().resets == {}
        d.serving.hold(Hold("query", "me"))
        d.serving.release("query", "me")
        d.serving.reset_cursor(Reset("query", (0, 0)))
        d.spool.drop("query")  # by a release that knew no resets
        d.serving.hold(Hold("query", "me"))
        assert d.serving.status().resets == {}

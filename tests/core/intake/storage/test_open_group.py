"""What is taken back of the group that is open."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.intake.storage.batches import ChannelTally
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.pending import PendingEvent
from tests.core.intake.bench import Peer, bench
from tests.core.intake.storage.test_group_commit import NOW, fill, free, offer, source


def test_what_is_withdrawn_from_the_open_group_is_not_stored_and_may_come_again(
    tmp_path: Path,
) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        mine = source()
        b.groups.add(offer(peer, [b"0", b"1"], origin=mine))
        b.groups.add(offer(peer, [b"other"], channel=16, origin=source("d")))
        assert b.groups.withdraw(peer, mine) == (2, False)
        assert b.groups.withdraw(peer, mine) == (0, False)
        b.settle()
        assert b.values() == [b"other"]
        assert {receipt.channel for receipt in peer.acked} == {8, 16}  # its credit goes back
        b.groups.add(offer(again, [b"0", b"1"], origin=source()))
        b.settle()
        assert b.values() == [b"other", b"0", b"1"]
        assert b.groups.counters.rows == 3


def test_a_group_of_which_all_was_withdrawn_settles(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        mine = source()
        b.groups.add(offer(peer, [b"0"], origin=mine))
        b.groups.withdraw(peer, mine)
        b.settle()
        assert (b.values(), b.groups.idle) == ([], True)


def test_rows_that_an_accepted_finish_counts_are_not_withdrawn(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        mine, tally = source(), ChannelTally()
        b.groups.add(offer(peer, [b"0"], origin=mine)._replace(tally=tally))
        done = LoggedEvent("finished", NOW, "cafe", "p", "c", 8, counts={"reliableSent": 1})
        b.groups.record(PendingEvent(peer, done, tally, confirms=True))
        assert b.groups.withdraw(peer, mine) == (0, False)
        b.settle()
        assert b.values() == [b"0"]
        assert [e["counts"]["reliableStored"] for e in b.events()] == [1]


def test_a_finish_that_waits_goes_with_the_rows_that_it_counts(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, max_bytes=64_000) as b:
        mine = source()
        fill(b)
        b.groups.add(offer(peer, [b"0"], origin=mine))
        done = LoggedEvent("finished", NOW, "cafe", "p", "c", 8, counts={"reliableSent": 1})
        b.groups.record(PendingEvent(peer, done, ChannelTally(), confirms=True))
        assert b.groups.withdraw(peer, mine) == (0, True)
        free(b)
        assert [e["kind"] for e in b.events()] == []
        assert b.values() == []

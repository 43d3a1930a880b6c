from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aqueduct_core.dedupe.numbering import batch_floor
from aqueduct_core.intake.offers import Offer
from aqueduct_core.intake.records import Source
from aqueduct_core.intake.schema import SPOOL_SCHEMA
from aqueduct_core.spool import InlineSync, Spool
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run
from tests.support.rules import rule

NOW = 1_800_000_000_000_000


def source(channel: str = "c", producer: str = "p", start: int = 0) -> Source:
    return Source(channel, producer, "cafe", 8, start)


def offer(
    peer: Peer,
    payloads: list[bytes],
    *,
    first: int = 0,
    origin: Source | None = None,
    resumes: bool = True,
    reliable: bool = True,
    timestamp: int = NOW,
    channel: int = 8,
) -> Offer:
    messages = run(payloads, channel=channel, first=first, reliable=reliable)
    return Offer(peer, messages, origin or source(), resumes, timestamp)


@rule("AQ-ACK-15")
def test_nothing_is_acked_before_its_group_is_durable(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"a", b"b"]))
        b.groups.offer(offer(peer, [b"c"], first=2))
        assert (peer.acked, b.values(), b.groups.idle) == ([], [], False)
        b.fire()
        assert (peer.acked, b.values(), b.groups.idle) == ([], [], False)
        b.pump()
        assert [(r.channel, r.first, r.stop) for r in peer.acked] == [(8, 0, 2), (8, 2, 3)]
        assert [r.size for r in peer.acked] == [10, 5]
        assert (b.values(), b.groups.idle) == ([b"a", b"b", b"c"], True)
        assert b.groups.counters.groups == 1


def test_a_group_ends_by_age_or_by_size(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, group_bytes=100) as b:
        b.groups.offer(offer(peer, [b"a"]))
        assert [seconds for seconds, _ in b.timers] == [0.02]
        b.groups.offer(offer(peer, [b"x" * 100], first=1))
        b.pump()
        assert len(peer.acked) == 2
        b.groups.offer(offer(peer, [b"z"], first=2))
        early, late = (call for _, call in b.timers)
        early()  # the timer of the group that ended by size
        b.pump()
        assert len(peer.acked) == 2
        late()
        b.pump()
        assert b.values() == [b"a", b"x" * 100, b"z"]


def test_repeats_are_acked_and_not_stored_again(tmp_path: Path) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"0", b"1", b"2"]))
        b.settle()
        b.groups.offer(offer(again, [b"1", b"2", b"3"], origin=source(start=1)))
        assert again.acked == []
        b.settle()
        assert [(r.first, r.stop) for r in again.acked] == [(0, 3)]
        assert b.values() == [b"0", b"1", b"2", b"3"]
        assert b.groups.counters.deduped == 2


def test_a_repeat_of_what_is_not_durable_yet_waits_for_the_first_copy(tmp_path: Path) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"0", b"1"]))
        b.fire()  # under way, not durable
        b.groups.offer(offer(again, [b"0", b"1"]))
        b.fire()
        assert again.acked == []
        b.pump()
        assert len(peer.acked) == len(again.acked) == 1
        b.groups.offer(offer(again, [b"1"], first=1))
        b.groups.offer(offer(again, [b"1"], first=1))
        b.fire()
        assert len(again.acked) == 3
        assert b.values() == [b"0", b"1"]


def test_a_repeat_in_the_same_group_is_stored_once(tmp_path: Path) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"0", b"1"]))
        b.groups.offer(offer(again, [b"1", b"2"], first=1))
        b.settle()
        assert b.values() == [b"0", b"1", b"2"]
        assert len(peer.acked) == len(again.acked) == 1


def test_repeats_with_a_hole_fill_exactly_the_hole(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"0", b"1"]))
        b.groups.offer(offer(peer, [b"4", b"5"], first=4))
        b.settle()
        b.groups.offer(offer(peer, [b"%d" % n for n in range(8)]))
        b.settle()
        assert sorted(map(bytes, b.values())) == [b"%d" % n for n in range(8)]


def test_marks_survive_a_restart(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"0", b"1"], origin=source(start=10)))
        b.settle()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"1", b"2"], origin=source(start=11)))
        b.groups.offer(offer(peer, [b"other"], origin=source("other", start=11)))
        b.settle()
        assert b.values() == [b"0", b"1", b"2", b"other"]


def test_who_keeps_no_numbers_is_not_deduplicated(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        for _ in range(2):
            b.groups.offer(offer(peer, [b"a"], resumes=False))
            b.groups.offer(offer(peer, [b"u"], reliable=False))
            b.settle()
        assert sorted(map(bytes, b.values())) == [b"a", b"a", b"u", b"u"]


def test_a_channel_stays_on_one_partition_and_channels_spread(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, partitions=4) as b:
        for number in range(40):
            for name in ("a", "b", "c", "d", "e", "f", "g", "h"):
                b.groups.offer(offer(peer, [name.encode()], first=number, origin=source(name)))
        b.settle()
        where: dict[object, set[object]] = {}
        for row in b.rows():
            where.setdefault(row["channel"], set()).add(row["partition"])
        assert all(len(partitions) == 1 for partitions in where.values())
        assert len(set.union(*where.values())) > 1
        assert b.groups.counters.groups == 1


def test_timestamps_never_go_back_inside_a_partition(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        for number, timestamp in enumerate((NOW, NOW - 10**9, NOW + 5, NOW)):
            b.groups.offer(offer(peer, [b""], first=number, timestamp=timestamp))
        b.settle()
        stamps = [row["timestamp"] for row in b.rows()]
        assert stamps == sorted(stamps)
        assert len(set(stamps)) == 2


def test_a_full_spool_pushes_back_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    peer = Peer()
    payload = b"x" * 10_000
    with bench(tmp_path, max_bytes=64_000) as b:
        number = 0
        while not b.spool.full:
            b.groups.offer(offer(peer, [payload], first=number))
            b.settle()
            number += 1
        stored = len(peer.acked)
        for _ in range(3):
            b.groups.offer(offer(peer, [payload], first=number))
            number += 1
        b.groups.offer(offer(peer, [b"u"], reliable=False, resumes=False))
        b.settle()
        assert b.groups.holding
        assert len(peer.acked) == stored
        assert [receipt.reliable for receipt in peer.lost] == [False]
        b.pass_all()
        while b.spool.full:
            b.spool.trim()
        for _ in range(3):
            b.settle()
        assert not b.groups.holding
        assert len(peer.acked) == number


def test_after_the_stop_what_was_accepted_is_stored_and_nothing_else(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.offer(offer(peer, [b"a"]))
        b.groups.stop()
        b.groups.offer(offer(peer, [b"b"], first=1))
        assert not b.groups.idle
        b.settle()
        assert b.groups.idle
        assert [(r.first, r.stop) for r in peer.acked] == [(0, 1)]
        assert b.values() == [b"a"]


def test_a_cancelled_channel_takes_back_what_was_not_accepted(tmp_path: Path) -> None:
    peer, other = Peer(), Peer()
    with bench(tmp_path, max_bytes=4096) as b:
        b.groups.offer(offer(peer, [b"x" * 5000], channel=8))
        b.settle()
        assert b.spool.full
        b.groups.offer(offer(peer, [b"a"], first=1, channel=8))
        b.groups.offer(offer(peer, [b"b"], channel=16, origin=source("d")))
        b.groups.offer(offer(other, [b"c"], channel=8, origin=source("e")))
        b.groups.withdraw(peer, source())
        assert [receipt.channel for receipt in peer.lost] == [8]
        b.groups.withdraw(peer)
        assert [receipt.channel for receipt in peer.lost] == [8, 16]
        assert (other.lost, b.groups.holding) == ([], True)


class BadDisk(InlineSync):
    broken = False

    def sync(self, fd: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, "input/output error")
        super().sync(fd)


def test_after_a_failure_of_the_disk_nothing_is_acked_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer()
    spool = Spool.open(tmp_path, schema=SPOOL_SCHEMA, partitions=2, sync=BadDisk)
    with spool:
        b = Bench(spool)
        b.groups.offer(offer(peer, [b"a"]))
        b.settle()
        monkeypatch.setattr(BadDisk, "broken", True)
        b.groups.offer(offer(peer, [b"b"], first=1))
        b.settle()
        monkeypatch.setattr(BadDisk, "broken", False)
        b.groups.offer(offer(peer, [b"c"], first=2))
        b.settle()
    assert [error.name for error in b.failures] == ["AQUEDUCT_SPOOL.IO"]
    assert [(r.first, r.stop) for r in peer.acked] == [(0, 1)]


def test_a_batch_that_begins_ends_the_batches_before_it(tmp_path: Path) -> None:
    """A sink's rows are numbered by batch: one range is remembered, and late ones are repeats."""
    peer, late = Peer(), Peer()

    def batch(number: int, row: int = 0) -> Source:
        floor = batch_floor(number)
        return Source("c", "w/0", "cafe", 8, floor + row, floor)

    with bench(tmp_path) as b:
        for number in range(5):
            b.groups.offer(offer(peer, [b"row %d" % number], origin=batch(number)))
            b.settle()
        b.groups.offer(offer(late, [b"late", b"late too"], origin=batch(3)))
        b.groups.offer(offer(peer, [b"row 4", b"next"], origin=batch(4)))
        b.settle()
        assert b.values() == [*(b"row %d" % n for n in range(5)), b"next"]
        assert [(r.first, r.stop) for r in late.acked] == [(0, 2)]
        assert list(b.spool.seen("w/0", "c")) == [(0, batch_floor(4) + 2)]

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS, AqueductSource
from aqueduct_core.intake.storage.batches import ChannelTally
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.event_summaries import MAX_REJECTED
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from aqueduct_core.spool import InlineSync, Spool
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run
from tests.support.rules import rule

NOW = 1_800_000_000_000_000


def source(channel: str = "c", producer: str = "p", start: int = 0) -> AqueductSource:
    return AqueductSource(channel, producer, "cafe", 8, start)


def offer(
    peer: Peer,
    payloads: list[bytes],
    *,
    first: int = 0,
    origin: AqueductSource | None = None,
    resumes: bool = True,
    reliable: bool = True,
    timestamp: int = NOW,
    channel: int = 8,
) -> PendingBatch:
    messages = run(payloads, channel=channel, first=first, reliable=reliable)
    return PendingBatch(peer, messages, origin or source(), resumes, timestamp)


@rule("AQ-ACK-15")
def test_nothing_is_acked_before_its_group_is_durable(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"a", b"b"]))
        b.groups.add(offer(peer, [b"c"], first=2))
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
        b.groups.add(offer(peer, [b"a"]))
        assert [seconds for seconds, _ in b.timers] == [0.02]
        b.groups.add(offer(peer, [b"x" * 100], first=1))
        b.pump()
        assert len(peer.acked) == 2
        b.groups.add(offer(peer, [b"z"], first=2))
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
        b.groups.add(offer(peer, [b"0", b"1", b"2"]))
        b.settle()
        b.groups.add(offer(again, [b"1", b"2", b"3"], origin=source(start=1)))
        assert again.acked == []
        b.settle()
        assert [(r.first, r.stop) for r in again.acked] == [(0, 3)]
        assert b.values() == [b"0", b"1", b"2", b"3"]
        assert b.groups.counters.deduped == 2


def test_a_repeat_of_what_is_not_durable_yet_waits_for_the_first_copy(tmp_path: Path) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"0", b"1"]))
        b.fire()  # under way, not durable
        b.groups.add(offer(again, [b"0", b"1"]))
        b.fire()
        assert again.acked == []
        b.pump()
        assert len(peer.acked) == len(again.acked) == 1
        b.groups.add(offer(again, [b"1"], first=1))
        b.groups.add(offer(again, [b"1"], first=1))
        b.fire()
        assert len(again.acked) == 3
        assert b.values() == [b"0", b"1"]


def test_a_repeat_in_the_same_group_is_stored_once(tmp_path: Path) -> None:
    peer, again = Peer(), Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"0", b"1"]))
        b.groups.add(offer(again, [b"1", b"2"], first=1))
        b.settle()
        assert b.values() == [b"0", b"1", b"2"]
        assert len(peer.acked) == len(again.acked) == 1


def test_repeats_with_a_hole_fill_exactly_the_hole(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"0", b"1"]))
        b.groups.add(offer(peer, [b"4", b"5"], first=4))
        b.settle()
        b.groups.add(offer(peer, [b"%d" % n for n in range(8)]))
        b.settle()
        assert sorted(map(bytes, b.values())) == [b"%d" % n for n in range(8)]


def test_marks_survive_a_restart(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"0", b"1"], origin=source(start=10)))
        b.settle()
    with bench(tmp_path) as b:
        b.groups.add(offer(peer, [b"1", b"2"], origin=source(start=11)))
        b.groups.add(offer(peer, [b"other"], origin=source("other", start=11)))
        b.settle()
        assert b.values() == [b"0", b"1", b"2", b"other"]


def test_who_keeps_no_numbers_is_not_deduplicated(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        for _ in range(2):
            b.groups.add(offer(peer, [b"a"], resumes=False))
            b.groups.add(offer(peer, [b"u"], reliable=False))
            b.settle()
        assert sorted(map(bytes, b.values())) == [b"a", b"a", b"u", b"u"]


def test_a_channel_stays_on_one_partition_and_channels_spread(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, partitions=4) as b:
        for number in range(40):
            for name in ("a", "b", "c", "d", "e", "f", "g", "h"):
                b.groups.add(offer(peer, [name.encode()], first=number, origin=source(name)))
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
            b.groups.add(offer(peer, [b""], first=number, timestamp=timestamp))
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
            b.groups.add(offer(peer, [payload], first=number))
            b.settle()
            number += 1
        stored = len(peer.acked)
        for _ in range(3):
            b.groups.add(offer(peer, [payload], first=number))
            number += 1
        b.groups.add(offer(peer, [b"u"], reliable=False, resumes=False))
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
        b.groups.add(offer(peer, [b"a"]))
        b.groups.stop()
        b.groups.add(offer(peer, [b"b"], first=1))
        assert not b.groups.idle
        b.settle()
        assert b.groups.idle
        assert [(r.first, r.stop) for r in peer.acked] == [(0, 1)]
        assert b.values() == [b"a"]


def test_a_cancelled_channel_takes_back_what_was_not_accepted(tmp_path: Path) -> None:
    peer, other = Peer(), Peer()
    with bench(tmp_path, max_bytes=4096) as b:
        b.groups.add(offer(peer, [b"x" * 5000], channel=8))
        b.settle()
        assert b.spool.full
        b.groups.add(offer(peer, [b"a"], first=1, channel=8))
        b.groups.add(offer(peer, [b"b"], channel=16, origin=source("d")))
        b.groups.add(offer(other, [b"c"], channel=8, origin=source("e")))
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
    spool = Spool.open(tmp_path, schema=ROWS.schema, partitions=2, sync=BadDisk)
    with spool:
        b = Bench(spool)
        b.groups.add(offer(peer, [b"a"]))
        b.settle()
        monkeypatch.setattr(BadDisk, "broken", True)
        b.groups.add(offer(peer, [b"b"], first=1))
        b.settle()
        monkeypatch.setattr(BadDisk, "broken", False)
        b.groups.add(offer(peer, [b"c"], first=2))
        b.settle()
    assert [error.name for error in b.failures] == ["AQUEDUCT_SPOOL.IO"]
    assert [(r.first, r.stop) for r in peer.acked] == [(0, 1)]


def event(peer: Peer, kind: str, number: int = 0, **given: object) -> PendingEvent:
    return PendingEvent(peer, LoggedEvent(kind, NOW + number, "cafe", "p", **given))  # type: ignore[arg-type]


def test_events_come_behind_the_rows_of_their_group_and_in_order(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, partitions=2) as b:
        b.groups.record(event(peer, "connected"))
        b.groups.add(offer(peer, [b"a"]))
        finished = LoggedEvent(
            "finished", NOW - 50, "cafe", "p", "c", 8, counts={"reliableSent": 1}
        )
        tally = ChannelTally(stored=1)
        b.groups.record(PendingEvent(peer, finished, tally, confirms=True))
        assert (b.events(), peer.finished) == ([], [])
        b.settle()
        events = b.events()
        assert [e["kind"] for e in events] == ["connected", "finished"]
        assert events[0]["timestamp"] == events[1]["timestamp"]  # never back
        assert events[1]["counts"]["reliableStored"] == 1
        assert peer.finished == [8]
        assert b.groups.counters.groups == 1


def test_an_event_alone_makes_a_group_within_its_time(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        b.groups.record(event(peer, "connected"))
        assert [seconds for seconds, _ in b.timers] == [0.02]
        assert not b.groups.idle
        b.settle()
        assert [e["kind"] for e in b.events()] == ["connected"]
        assert b.groups.idle


def test_many_events_end_a_group_by_size(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, group_bytes=10_000) as b:
        for number in range(200):
            b.groups.record(event(peer, "opened", number, channel=f"c{number}", channel_id=number))
        b.settle()
        assert b.groups.counters.groups > 4
        assert [e["channel"] for e in b.events()] == [f"c{number}" for number in range(200)]


def test_nacks_are_told_before_the_end_of_their_channel(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path) as b:
        for first in (0, 1, 5, 2):
            b.groups.nacked(peer, source(), first, first + 1, NOW)
        b.groups.record(event(peer, "closed", channel="c", channel_id=8))
        b.groups.nacked(peer, source("d"), 7, 9, NOW)
        b.settle()
        assert [(e["kind"], e["first"], e["last"]) for e in b.events()] == [
            ("nacked", 0, 2),
            ("nacked", 5, 5),
            ("closed", None, None),
            ("nacked", 7, 8),
        ]


def fill(b: Bench) -> None:
    b.groups.add(offer(Peer(), [b"x" * 70_000], channel=800, origin=source("filler")))
    b.settle()
    assert b.spool.full


def free(b: Bench) -> None:
    b.pass_all()
    while b.spool.full:
        b.spool.trim()
    for _ in range(3):
        b.settle()


def test_without_room_nacks_stay_one_range_and_come_later(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        for number in range(10_000):
            b.groups.nacked(peer, source(), number, number + 1, NOW)
        b.settle()
        assert b.events() == []
        assert not b.groups.holding
        free(b)
        (nacked,) = b.events()
        assert (nacked["first"], nacked["last"]) == (0, 9_999)


def test_refused_connections_without_end_take_little(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        for number in range(5_000):
            b.groups.record(event(peer, "rejected", number, reason="no token"))
        assert b.groups.held_bytes < 200_000
        free(b)
        events = b.events()
        assert len(events) == MAX_REJECTED + 1
        assert events[-1]["reason"].startswith(f"{5_000 - MAX_REJECTED} more were refused")
        b.groups.record(event(peer, "rejected", 9_999, reason="again"))
        b.settle()
        assert b.events()[-1]["reason"] == "again"


def test_at_the_stop_events_that_wait_are_stored_and_messages_are_not(tmp_path: Path) -> None:
    peer = Peer()
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        b.groups.record(event(peer, "opened", channel="c", channel_id=8))
        b.groups.add(offer(peer, [b"a"]))
        done = LoggedEvent("finished", NOW, "cafe", "p", "c", 8, counts={"reliableSent": 1})
        b.groups.record(PendingEvent(peer, done, ChannelTally(), confirms=True))
        b.groups.stop()
        b.groups.record(event(peer, "disconnected", 5))
        b.groups.flush()
        b.settle()
        assert [e["kind"] for e in b.events()] == ["opened", "disconnected"]
        assert (peer.finished, peer.acked) == ([], [])


def test_who_is_not_allowed_any_more_writes_nothing(tmp_path: Path) -> None:
    peer = Peer()

    def gone() -> None:
        raise SpoolFailed("LOCKED", "another intake has it", "Let it")

    with bench(tmp_path) as b:
        b.groups._allowed = gone
        b.groups.add(offer(peer, [b"a"]))
        b.settle()
        assert [error.subclass for error in b.failures] == ["LOCKED"]
        assert (b.values(), peer.acked, b.spool.open_bytes) == ([], [], 0)

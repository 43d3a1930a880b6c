"""What is wrong with a protocol, or with one connection, is never an ack for what is not stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from aqueduct_core.intake.aqueduct.rows import AqueductRowFormat
from aqueduct_core.intake.storage.batches import BatchSlice
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.pending import PendingEvent, Receipt
from tests.core.intake.bench import Peer, bench
from tests.core.intake.storage.test_group_commit import NOW, offer, source


class FaultyRows(AqueductRowFormat):
    """Cannot make rows of some payloads."""

    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        if any(b"unstorable" in each.batch.payload for each in slices):
            raise KeyError("unstorable")
        return super().columns(slices)


def test_a_group_that_a_protocol_cannot_make_rows_of_stops_the_intake(tmp_path: Path) -> None:
    """Else what comes behind it would be acked, and itself be neither stored nor refused."""
    peer = Peer()
    with bench(tmp_path, rows=FaultyRows()) as b:
        b.groups.add(offer(peer, [b"unstorable"]))
        b.settle()
        assert [error.subclass for error in b.failures] == ["IO"]
        b.groups.add(offer(peer, [b"fine"], first=1))
        b.settle()
        assert (peer.acked, b.values()) == ([], [])


class FaultyPeer(Peer):
    """Fails on whatever it hears."""

    def durable(self, receipts: list[Receipt]) -> None:
        raise KeyError("durable")

    def recorded(self, channels: list[int]) -> None:
        raise KeyError("recorded")

    def resume(self) -> None:
        raise KeyError("resume")


def test_a_connection_that_fails_on_its_acks_takes_them_from_no_other(tmp_path: Path) -> None:
    faulty, peer = FaultyPeer(), Peer()
    with bench(tmp_path) as b:
        for each, producer in ((faulty, "f"), (peer, "p")):
            b.groups.add(offer(each, [b"a"], origin=source(producer=producer)))
            done = LoggedEvent("finished", NOW, "cafe", producer, "c", 8, counts={})
            b.groups.record(PendingEvent(each, done, confirms=True))
        b.settle()
        assert len(b.values()) == 2
        assert (len(peer.acked), peer.finished, peer.failures) == (1, [8], 0)
        assert faulty.failures == 2
        assert (b.groups.idle, b.failures) == (True, [])


def test_a_connection_that_fails_to_go_on_keeps_no_other_at_rest(tmp_path: Path) -> None:
    faulty, peer = FaultyPeer(), Peer()
    with bench(tmp_path) as b:
        b.groups.rest(faulty)
        b.groups.rest(peer)
        b.groups._backlog.wake()
        assert (faulty.failures, peer.resting) == (1, 0)

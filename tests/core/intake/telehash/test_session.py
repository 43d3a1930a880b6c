"""A line of an intake, with a real engine at the other end: what is stored, acked and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.intake.storage.event_summaries import MAX_REJECTED
from aqueduct_core.intake.telehash.channels import LONGEST_TYPE
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.telehash.events import CloseReason
from tests.core.intake.telehash.scene import LineScene, line_bench, settings
from tests.support.rules import rule

BODIES = [b"%d" % n for n in range(20)]


@rule("T-6", "T-7")
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_all_is_durable_before_its_ack(loss: float, tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, loss=loss, seed=4)
        channel = scene.open(BODIES, end=True)
        scene.run(0.5, settle=False)
        assert scene.acks == []
        assert scene.session.memory > 0
        scene.run(9.0)
        assert [row["value"] for row in b.rows()] == BODIES
        assert [row["seq"] for row in b.rows()] == list(range(20))
        assert [row["is_end"] for row in b.rows()] == [False] * 19 + [True]
        assert scene.acked(channel) == 20
        assert scene.peer.closed[channel].reason is CloseReason.ENDED
        assert scene.kinds() == ["connected", "opened", "finished"]
        [finished] = scene.events("finished")
        assert finished["counts"] == {"reliableStored": 20, "deduped": 0, "unacked": 0}
        assert scene.context.counters.finished == 1
        assert (scene.session.channels, scene.session.memory) == (0, 0)


def test_unreliable_packets_are_rows_without_a_number_and_never_acked(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        scene.open([b"a", b"b"], reliable=False, js=[{"n": 1}, None])
        scene.run()
        rows = b.rows()
        assert [(row["value"], row["seq"], row["js"]) for row in rows] == [
            (b"a", None, '{"n":1}'),
            (b"b", None, None),
        ]
        assert scene.acks == []
        assert scene.session.memory == scene.session._channels.memory


@rule("T-2")
def test_a_type_that_is_not_taken_is_failed_at_once(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a"))
        good, bad = scene.open([b"x"]), scene.open([b"y"], "_other")
        scene.run()
        closed = scene.peer.closed[bad]
        assert (closed.reason, closed.err, closed.by_peer) == (
            CloseReason.FAILED,
            "type not taken",
            True,
        )
        assert [row["value"] for row in b.rows()] == [b"x"]
        assert scene.acked(good) == 1
        [rejected] = scene.events("rejected")
        assert rejected["reason"] == "the type _other is not taken"
        assert (rejected["channel"], rejected["channelId"]) == ("_other", bad)


def test_without_types_all_of_applications_are_taken(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        for kind in ("_a", "_b", "seek", "_" + "x" * LONGEST_TYPE, "_a\0rows", "_\n"):
            scene.open([kind.encode()], kind)
        scene.run()
        assert [row["type"] for row in b.rows()] == ["_a", "_b"]


@rule("T-19")
def test_a_channel_that_its_peer_fails_is_cancelled_with_its_reason(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        channel = scene.open([b"a", b"b"])
        scene.run()
        scene.peer.engine.fail(channel, "because", scene.link.now)
        scene.peer.end.kick()
        scene.run()
        [cancelled] = scene.events("cancelled")
        assert cancelled["reason"] == "the peer failed it: because"
        assert cancelled["counts"] == {"reliableStored": 2, "deduped": 0, "unacked": 0}
        assert scene.context.counters.cancelled == 1
        assert scene.session.channels == 0


def test_a_lost_line_says_what_was_not_acked_and_acks_nothing_more(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        scene.open(BODIES)
        scene.run(0.2, settle=False)
        scene.link.lose("gone")
        scene.run()
        assert scene.kinds() == ["connected", "opened", "disconnected"]
        [disconnected] = scene.events("disconnected")
        assert "20 packets of 1 channels were not acked" in disconnected["reason"]
        assert disconnected["counts"]["unacked"] == 20
        assert scene.ended == [scene.session]
        assert scene.session.memory == 0
        assert scene.acks == []
        assert [row["value"] for row in b.rows()] == BODIES


def test_a_full_spool_holds_a_sender_back_and_loses_nothing(tmp_path: Path) -> None:
    bodies = [bytes([n]) * 1_000 for n in range(100)]
    with line_bench(tmp_path, max_bytes=40_000, segment_bytes=8_000) as b:
        scene = LineScene(b)
        channel = scene.open(bodies[:1])
        found: list[bytes] = []
        sent = 1
        for _ in range(200):
            count = min(scene.peer.engine.room(channel), 100 - sent)
            scene.send(channel, bodies[sent : sent + count], end=sent + count == 100)
            sent += count
            scene.run(0.1)
            found += [row["value"] for row in b.rows() if row["value"] not in found]
            b.pass_all()
            b.spool.trim()
            if channel in scene.peer.closed:
                break
        assert found == bodies
        assert scene.peer.closed[channel].reason is CloseReason.ENDED
        assert b.groups.counters.rows == 100


def test_while_it_rests_nothing_is_taken_and_all_comes_again(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        channel = scene.open(BODIES[:5])
        scene.run()
        scene.session.pause()
        scene.send(channel, BODIES[5:])
        scene.run(3.0)
        assert scene.acked(channel) == 5
        scene.session.resume()
        scene.run(5.0)
        assert scene.acked(channel) == 20
        assert [row["value"] for row in b.rows()] == BODIES


@rule("T-5")
def test_a_flood_of_openings_has_few_events_and_every_packet_its_row(tmp_path: Path) -> None:
    """10,000 of them, each failed by who opened it: the events of 50 are written."""
    with line_bench(tmp_path) as b:
        scene = LineScene(b, budget=EventBudget(50, 0.0))
        for _ in range(100):
            for _ in range(100):
                channel = scene.open([b"x"])
                scene.peer.engine.fail(channel, "no", scene.link.now)
            scene.run(0.05)
        scene.run()
        assert len(b.rows()) <= 10_000
        kinds = scene.kinds()
        assert kinds.count("opened") <= 50
        assert kinds.count("cancelled") <= 50
        assert scene.session.channels == 0
        scene.link.lose("gone")
        scene.run()
        [disconnected] = scene.events("disconnected")
        assert "more channels were opened, without events of their own" in disconnected["reason"]


def test_types_that_are_refused_in_a_flood_are_counted(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a"))
        for _ in range(20):
            for _ in range(100):
                scene.open([b"x"], "_other")
            scene.run(0.05, settle=False)
        b.settle()
        scene.run()
        refused = scene.events("rejected")
        assert len(refused) == MAX_REJECTED + 1
        assert "1984 more were refused" in refused[-1]["reason"]
        assert b.rows() == []
        assert scene.session.channels == 0

"""With ackLevel=committed an ack waits for every query, and peers that do not wait are told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.intake.control.stalls import LATE_SECONDS, commit_stalls
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.events import CloseReason
from tests.core.intake.telehash.scene import LineScene, line_bench, mark, settings
from tests.support.rules import rule

BODIES = [b"%d" % n for n in range(10)]
COMMITTED = settings(ack_level="committed")


@rule("T-6")
def test_an_ack_waits_for_the_commit_and_goes_no_higher(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        channel = scene.open(BODIES)
        scene.run(2.0)
        assert scene.kinds() == ["connected", "opened"]
        assert len(b.rows()) == 10
        assert scene.acks == []
        scene.commit(ends=[4])
        scene.run(0.5)
        # groups are committed whole: the first one held all packets that came together
        assert scene.acked(channel) in range(5)
        scene.commit()
        scene.run(0.5)
        assert scene.acked(channel) == 10


def test_the_slower_of_two_queries_decides(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        b.spool.commit("slow", [0, None])
        channel = scene.open(BODIES[:5])
        scene.run(0.5)
        scene.commit("fast")
        scene.run(1.5)
        assert scene.acks == []
        scene.commit("slow")
        scene.run(0.5)
        assert scene.acked(channel) == 5
        scene.send(channel, BODIES[5:], end=True)
        scene.run(0.5)
        scene.commit("slow")
        scene.run(1.5)
        assert scene.acked(channel) == 5
        b.spool.drop("slow")  # given up for good
        scene.commit("fast")
        scene.run(0.5)
        assert scene.acked(channel) == 10
        assert scene.peer.closed[channel].reason is CloseReason.ENDED
        assert scene.context.counters.finished == 1


def test_a_query_that_does_not_read_messages_keeps_nobody_waiting(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        b.spool.commit("events", [None, 0])
        channel = scene.open(BODIES)
        scene.run(0.5)
        scene.commit()
        scene.run(0.5)
        assert scene.acked(channel) == 10


def test_short_triggers_go_on_for_minutes(tmp_path: Path) -> None:
    """Of 2 seconds, for 5 minutes, with a window of 32."""
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        channel = scene.open([b"first"])
        sent = 1
        for _ in range(150):
            room = scene.peer.engine.room(channel)
            scene.send(channel, [b"more"] * room)
            sent += room
            scene.run(1.9)
            scene.commit()
            scene.run(0.1)
        assert scene.acked(channel) == sent > 4_000
        assert not scene.peer.closed
        assert scene.context.late_commits.channels == 0


@pytest.mark.parametrize("end", [False, True])
def test_a_peer_that_does_not_wait_is_told_of_with_the_remedy(end: bool, tmp_path: Path) -> None:
    """Triggers of 20 seconds: it fails the channel after 10, as it must (T16)."""
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        channel = scene.open(BODIES, end=end)
        scene.run(20.0)
        assert scene.peer.closed[channel].reason is CloseReason.TIMED_OUT
        scene.commit()
        scene.run()
        assert scene.acks == []
        [cancelled] = scene.events("cancelled")
        assert cancelled["reason"] == (
            "the peer failed it: timeout; 10 packets waited for their commit; make triggers "
            "shorter, or set ackLevel=stored"
        )
        assert cancelled["counts"]["unacked"] == 10
        told(scene)
        assert len(b.rows()) == 10


def test_one_that_says_nothing_is_known_by_its_silence(tmp_path: Path) -> None:
    """As telehash-js gives a channel up."""
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        scene.open(BODIES)
        scene.run(8.0)
        scene.link.loss = 1.0
        scene.run(2.0)
        assert not scene.events("timeout")
        scene.run(6.0)
        [timeout] = scene.events("timeout")
        assert timeout["reason"].startswith("the peer is silent, and has given it up: 10 packets")
        assert timeout["reason"].endswith("or set ackLevel=stored")
        assert scene.session.channels == 0
        told(scene)
        scene.link.loss = 0.0
        scene.commit()
        scene.run()
        assert scene.acks == []


def test_one_that_goes_on_waiting_is_waited_for(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        scene.peer.engine._config = scene.peer.engine._context.config = TelehashConfig(
            channel_timeout=100.0
        )
        channel = scene.open(BODIES)
        scene.run(40.0)
        scene.commit()
        scene.run(1.0)
        assert scene.acked(channel) == 10
        assert scene.context.late_commits.channels == 0


def test_packets_that_could_not_be_stored_are_no_fault_of_queries(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, COMMITTED)
        scene.open(BODIES)
        scene.run(15.0, settle=False)
        b.settle()
        scene.run()
        [cancelled] = scene.events("cancelled")
        assert cancelled["reason"].endswith("timeout; 10 packets waited to be stored")
        assert scene.context.late_commits.channels == 0


def test_a_marked_packet_that_comes_again_is_acked_when_its_first_copy_is_committed(
    tmp_path: Path,
) -> None:
    """Wherever that lies: channels of other lines are on other partitions."""
    with line_bench(tmp_path, partitions=7) as b:
        marks = [mark(row) for row in range(10)]
        first = LineScene(b, COMMITTED)
        first.open(BODIES, js=marks)
        first.run(0.5)
        [partition] = {row["partition"] for row in b.rows()}
        first.link.lose("gone")
        first.run()
        for _ in range(3):
            again = LineScene(b, COMMITTED)
            channel = again.open(BODIES, js=marks)
            again.run(0.5)
            again.commit("query", [n if at != partition else 9 for at, n in enumerate(ends(b))])
            again.run(1.5)
            assert again.acks == []
            again.link.lose("gone")
            again.run()
        again = LineScene(b, COMMITTED)
        channel = again.open(BODIES, js=marks)
        again.run(0.5)
        again.commit()
        again.run(0.5)
        assert again.acked(channel) == 10
        assert len(b.rows()) == 10


def ends(b: Any) -> list[int]:
    return list(b.spool.ends()[:-1])


def told(scene: LineScene) -> None:
    """In the status and the log, while it is new."""
    late = scene.context.late_commits
    assert late.channels == 1
    [stall] = commit_stalls("intake-0", late.channels, scene.link.now - late.last_at)
    assert "1 channels" in str(stall)
    assert "ackLevel=stored" in str(stall)
    assert not [*commit_stalls("intake-0", late.channels, LATE_SECONDS)]

"""A line that we have dialled: a channel of each type, to its end, and again on the next line."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.telehash.events import ChannelOpened, CloseReason
from tests.core.intake.telehash.scene import LineScene, line_bench, settings
from tests.support.rules import rule


def answer(scene: LineScene, kind: str, bodies: list[bytes], *, end: bool = True) -> int:
    """Have the peer send on the channel that we have opened."""
    channel: int
    [channel] = [each.channel for each in scene.peer.of(ChannelOpened) if each.type == kind]
    scene.send(channel, bodies, end=end)
    return channel


@rule("P-3", "T-1")
def test_each_type_is_opened_and_read_to_its_end(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a", "_b", dials=True))
        scene.run(0.5)
        opened = scene.peer.of(ChannelOpened)
        assert [(each.channel, each.type, each.reliable) for each in opened] == [
            (1, "_a", True),
            (3, "_b", True),
        ]
        one = answer(scene, "_a", [b"1", b"2"])
        scene.run()
        assert scene.requests is not None
        assert (scene.requests.finished, scene.requests.open) == (1, 1)
        assert not scene.session.idle  # type: ignore[attr-defined]
        assert scene.acked(one) == 2
        answer(scene, "_b", [b"3"])
        scene.run()
        assert b.values() == [b"1", b"2", b"3"]
        assert scene.session.idle  # type: ignore[attr-defined]
        assert scene.session.left  # type: ignore[attr-defined]
        assert scene.kinds().count("finished") == 2
        assert scene.report.told == ["opened"]


def test_what_was_open_is_opened_on_the_next_line(tmp_path: Path) -> None:
    given = settings("_a", "_b", dials=True)
    assert given.connect is not None
    with line_bench(tmp_path) as b:
        requests = EndpointRequests(given.connect, given.types, {})
        scene = LineScene(b, given, requests=requests)
        scene.run(0.5)
        answer(scene, "_a", [b"1"])
        answer(scene, "_b", [b"2"], end=False)
        scene.run()
        scene.link.lose("gone")
        scene.run()
        assert requests.open == 0
        again = LineScene(b, given, requests=requests, start=scene.link.now)
        again.run(0.5)
        assert [each.type for each in again.peer.of(ChannelOpened)] == ["_b"]
        answer(again, "_b", [b"3"])
        again.run()
        assert requests.settled
        assert b.values() == [b"1", b"2", b"3"]


def test_one_that_the_peer_fails_is_opened_again_after_a_while(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a", dials=True))
        scene.run(0.1)
        scene.peer.engine.fail(1, "not now", scene.link.now)
        scene.peer.end.kick()
        scene.run(2.0)
        assert [each.channel for each in scene.peer.of(ChannelOpened)] == [1, 3]
        [cancelled] = scene.events("cancelled")
        assert cancelled["reason"] == "the peer failed it: not now"


def test_a_read_that_ends_says_what_it_has_not_whole(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a", dials=True, bounded=True))
        scene.run(0.1)
        scene.peer.engine.fail(1, "not now", scene.link.now)
        scene.peer.end.kick()
        scene.run(2.0)
        assert scene.requests is not None
        assert scene.requests.settled
        [failure] = scene.requests.failed
        assert (failure.channel, failure.end) == ("_a", "cancelled")
        assert failure.reason == "the peer failed it: not now"


@rule("T-16")
def test_a_peer_that_acks_nothing_is_given_up_and_asked_again(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a", dials=True, channel_timeout=2.0), loss=1.0)
        scene.run(3.0)
        [timeout] = scene.events("timeout")
        assert timeout["reason"] == "the peer has acked nothing for 2 s"
        scene.link.loss = 0.0
        scene.run(2.0)
        answer(scene, "_a", [b"1"])
        scene.run()
        assert scene.requests is not None
        assert scene.requests.settled


def test_channels_that_the_peer_opens_are_taken_too_if_of_our_types(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings("_a", dials=True))
        scene.run(0.1)
        good, bad = scene.open([b"x"], end=True), scene.open([b"y"], "_other")
        scene.run()
        assert b.values() == [b"x"]
        assert scene.acked(good) == 1
        assert scene.peer.closed[bad].reason is CloseReason.FAILED
        assert scene.requests is not None
        assert (scene.requests.open, scene.requests.finished) == (1, 0)


def test_with_commits_a_channel_has_finished_when_its_end_is_acked(tmp_path: Path) -> None:
    for bounded in (False, True):
        given = settings("_a", dials=True, bounded=bounded, ack_level="committed")
        with line_bench(tmp_path / str(bounded)) as b:
            scene = LineScene(b, given)
            scene.run(0.1)
            channel = answer(scene, "_a", [b"1", b"2"])
            scene.run()
            assert scene.requests is not None
            assert scene.requests.settled is bounded  # such a read commits when it has ended
            scene.commit()
            scene.run()
            assert scene.acked(channel) == 2
            assert scene.requests.settled

"""A connection that brings media, over a link in memory: what is stored, told, confirmed and
given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.engine.inputs import StreamBytes
from aqueduct_core.quicr.events import EndReason, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from tests.core.intake.quicr.scene import MediaScene, media_bench, post, settings
from tests.core.quicr.ends import Objects, media
from tests.support.rules import rule


@rule("Q-18")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
@pytest.mark.parametrize("order", ["media", "arrival"])
def test_all_is_durable_before_our_end(delivery: str, order: str, tmp_path: Path) -> None:
    objects = media(4, 6, 2, size=2_000)
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(delivery=delivery, order=order), loss=0.05, seed=3)
        stream = post(scene, objects)
        scene.run(5.0)
        assert scene.objects() == objects
        assert scene.peer.of(stream).ended == TransactionEnded(stream, EndReason.COMPLETE)
        assert scene.kinds() == ["connected", "opened", "finished"]
        if order == "media":
            assert list(scene.objects()) == list(objects)
        assert scene.session.channels == 0
        assert scene.session.memory == 0


@rule("Q-6", "Q-7", "Q-18")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_a_post_with_an_object_that_is_too_large_is_cancelled(
    delivery: str, tmp_path: Path
) -> None:
    """Though its publisher has sent all of it by then; what came before is stored, and others are
    taken."""
    objects = media(3) | {Position(0, 3): (0, bytes(5_001))}
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(delivery=delivery, largest=5_000))
        bad, good = post(scene, objects, b"bad"), post(scene, media(3))
        scene.run(2.0)
        ends = [scene.peer.of(stream).ended for stream in (bad, good)]
        assert ends == [
            TransactionEnded(bad, EndReason.CANCELLED, by_peer=True),
            TransactionEnded(good, EndReason.COMPLETE),
        ]
        assert scene.objects("bad") == scene.objects() == media(3)
        [event] = scene.events("cancelled")
        assert "object (0, 3) has more than 5000 bytes (maxMessageBytes)" in event["reason"]
        assert scene.session.channels == scene.session.memory == 0


def test_nothing_is_confirmed_that_is_not_durable(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings())
        stream = post(scene, media(3))
        scene.link.run_for(2.0)  # no group becomes durable
        assert scene.peer.of(stream).ended is None
        assert scene.session.channels == 1
        scene.run()
        assert scene.peer.of(stream).ended == TransactionEnded(stream, EndReason.COMPLETE)


def test_what_comes_is_consumed_however_large(tmp_path: Path) -> None:
    """A stream has more bytes than its window; an object alone is larger than it."""
    objects = {Position(0, n): (0, bytes([n]) * 200_000) for n in range(4)}
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(), stream_window=70_000, connection_window=70_000)
        stream = post(scene, objects)
        scene.run(8.0)
        assert scene.objects() == objects
        assert scene.peer.of(stream).ended is not None


def test_a_full_spool_holds_a_publisher_back_and_loses_nothing(tmp_path: Path) -> None:
    objects = {Position(0, n): (0, bytes([n]) * 9_000) for n in range(40)}
    with media_bench(tmp_path, max_bytes=64_000) as b:
        scene = MediaScene(b, settings(), stream_window=30_000, connection_window=30_000)
        stream = post(scene, objects)
        found: Objects = {}
        for _ in range(20):
            scene.run(0.3)
            found |= scene.objects()
            b.pass_all()
            b.spool.trim()
        assert found == objects
        assert scene.peer.of(stream).ended == TransactionEnded(stream, EndReason.COMPLETE)


def test_a_publisher_that_gives_up_is_told_of(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(delivery="datagram"))
        stream = post(scene, media(3), finished=False)
        scene.run()
        scene.peer.engine.cancel(stream, scene.link.now)
        scene.peer.end.kick()
        scene.run()
        [cancelled] = scene.events("cancelled")
        assert "its sender gave it up" in cancelled["reason"]
        assert cancelled["counts"]["reliableStored"] == 3
        assert scene.objects() == media(3)
        assert scene.session.memory == 0


def test_a_lost_connection_ends_what_is_open_and_acks_nothing_more(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings())
        post(scene, media(3), finished=False)
        scene.run()
        scene.link.lose("gone")
        scene.run()
        assert scene.kinds() == ["connected", "opened", "disconnected"]
        assert scene.ended == [scene.session]
        assert scene.session.memory == 0
        again = MediaScene(b, settings())
        post(again, media(3, 1))
        again.run()
        assert again.objects() == media(3, 1)
        assert len(b.rows()) == 4
        [finished] = again.events("finished")
        assert finished["counts"] == {"reliableStored": 1, "holes": 0, "deduped": 3}


@rule("Q-14")
def test_who_asks_an_intake_waits_as_for_an_unknown_url(tmp_path: Path) -> None:
    """Nothing is answered; the connection stays."""
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings())
        now = scene.link.now
        asked = scene.peer.engine.request(b"u", datagram=False, now=now)
        scene.peer.engine.subscribe(b"", now)
        scene.peer.end.kick()
        scene.run()
        stream = post(scene, media(2))
        scene.run()
        assert scene.peer.of(stream).ended is not None
        assert asked not in {event.stream for event in scene.peer.told(TransactionEnded)}
        assert scene.kinds() == ["connected", "opened", "finished"]


def test_a_fault_of_the_peer_ends_its_connection_alone(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene, other = MediaScene(b, settings()), MediaScene(b, settings())
        good = post(other, media(2), finished=False)
        post(scene, media(2), finished=False)
        scene.run()
        scene.session._engine.handle(StreamBytes(40, b"\0\1\x3f", False), scene.link.now)
        scene.link.kick()
        scene.run()
        assert scene.context.counters.violations == 1
        assert scene.ended
        assert not other.ended
        assert other.peer.of(good).ended is None

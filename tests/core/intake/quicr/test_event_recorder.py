"""What events say of media: what is missing, and what came with other content."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.intake.quicr.event_recorder import MAX_CONFLICTS, MAX_MISSING
from aqueduct_core.quicr.events import Fragments
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position
from tests.core.intake.quicr.scene import MediaScene, media_bench, post, settings
from tests.core.quicr.ends import media, queue_of


def test_a_hole_that_stays_is_told_and_what_is_behind_it_comes(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(delivery="datagram", hole_timeout=1.0))
        stream = post(scene, {Position(0, 0): (0, b"a")}, finished=False)
        scene.run(0.2)
        session = scene.session
        session.handle([Fragments(stream, [Fragment(0, 2, 0, b"c", True)], 0)])
        scene.run(0.5)
        assert [*scene.objects()] == [(0, 0)]
        scene.run(1.0)
        assert [*scene.objects()] == [(0, 0), (0, 2)]
        [gap] = scene.events("gap")
        assert (gap["first"], gap["last"]) == (1, 1)
        assert gap["reason"].startswith("objects (0, 1) to (0, 1) ")
        assert gap["channel"] == "u"


def test_many_conflicts_are_few_events(tmp_path: Path) -> None:
    objects = media(60)
    other = {at: (flags, payload + b"!") for at, (flags, payload) in objects.items()}
    every = {at: other[at] if at.object % 2 else objects[at] for at in objects}
    with media_bench(tmp_path) as b:
        for come in (objects, every):
            scene = MediaScene(b, settings())
            post(scene, come)
            scene.run()
        assert scene.objects() == objects
        told = scene.events("conflict")
        assert len(told) == MAX_CONFLICTS + 1
        assert [each["first"] for each in told[:3]] == [1, 3, 5]
        assert told[-1]["reason"].startswith(f"{30 - MAX_CONFLICTS} more objects")


def test_a_hole_is_no_other_content(tmp_path: Path) -> None:
    """An object that one hop gave up, and another did not, is in no conflict; the first that came
    stays."""
    with media_bench(tmp_path) as b:
        whole, holed = media(3), media(3)
        holed[Position(0, 1)] = (0xFF, b"")
        for come in (whole, holed):
            scene = MediaScene(b, settings())
            queue = queue_of(whole, now=0.0)
            if come is holed:
                fragment = queue._waiting[1].fragment
                assert fragment.position == (0, 1)
                gone = fragment._replace(data=b"", flags=0xFF)
                queue._waiting[1] = queue._waiting[1]._replace(fragment=gone)
            scene.peer.engine.post(b"u", queue, datagram=False, now=scene.link.now)
            scene.peer.end.kick()
            scene.run()
            assert len(scene.events("finished")) == 1 + (come is holed)
        assert scene.objects() == whole
        assert not scene.events("conflict")


def test_many_gaps_at_once_are_few_events(tmp_path: Path) -> None:
    """As of a publisher that scatters its objects."""
    count = 500
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(delivery="datagram", hole_timeout=1.0))
        stream = post(scene, {Position(0, 0): (0, b"a")}, finished=False)
        scene.run(0.2)
        scattered = [Fragment(0, 2 * n, 0, b"x", True) for n in range(1, count)]
        scene.session.handle([Fragments(stream, scattered, 0)])
        scene.run(2.0)
        assert len(scene.objects()) == count
        gaps = scene.events("gap")
        assert len(gaps) == MAX_MISSING + 1
        assert [(gap["first"], gap["last"]) for gap in gaps[:2]] == [(1, 1), (3, 3)]
        more = count - 1 - MAX_MISSING
        assert gaps[-1]["reason"].startswith(f"{more} more stretches of objects from (0, 129)")
        assert gaps[-1]["last"] == 2 * count - 3

"""A media from a publisher's queue over a bad link into a `Reception`."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Posted,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.reception import Conflict, Gap, ObjectOrder, Reception
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.quicr.ends import media, queue_of
from tests.support.rules import rule

GROUPS = (7, 1, 12)


class Taker:
    """Takes one POST. ``objects``: what it got."""

    def __init__(self, engine: QuicrEngine, order: ObjectOrder, *, datagram: bool) -> None:
        self.engine = engine
        self.reception = Reception(order=order, hole_timeout=60.0)
        self.objects: list[MediaObject] = []
        self.gaps: list[Gap] = []
        self.conflicts: list[Conflict] = []
        self.ended: TransactionEnded | None = None
        self.link: MemoryLink
        self._datagram = datagram

    def hear(self, events: list[Any]) -> None:
        engine, reception, now = self.engine, self.reception, self.link.now
        for event in events:
            match event:
                case Posted(stream, _, _):
                    engine.accept(stream, datagram=self._datagram, now=now)
                case StartPoint(_, start):
                    reception.start_at(start, now)
                case Fragments(stream, fragments, size):
                    reception.handle(fragments, now)
                    engine.consumed(stream, size, now)
                case FinalPoint(stream, final, _):
                    reception.finish(final, now)
                case TransactionEnded():
                    self.ended = event
            if reception.complete and self.ended is None:
                engine.confirm(event.stream, now)
        self.objects += reception.take()
        self.gaps += reception.gaps()
        self.conflicts += reception.conflicts()
        self.link.server.kick()


def carried(taker: Taker, publisher: QuicrEngine, **path: Any) -> MemoryLink:
    options = {"stream_progress": True, "datagram_outcomes": True, "max_streams_bidi": 1}
    link = MemoryLink(publisher, taker.engine, on_server_events=taker.hear, **(options | path))
    taker.link = link
    link.kick()
    return link


@rule("Q-9", "Q-12", "Q-18", "Q-31", "Q-33")
@pytest.mark.parametrize("order", ["media", "arrival"])
@pytest.mark.parametrize("datagram", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_all_objects_come_over_a_bad_path(order: ObjectOrder, datagram: bool, seed: int) -> None:
    """Loss, reordering, duplicates; objects of several datagrams each; nothing is given up."""
    objects = media(*GROUPS, size=1_500 * seed + 1)
    publisher = QuicrEngine(client=True, config=QuicrConfig(dropping=None))
    taker = Taker(QuicrEngine(client=False), order, datagram=datagram)
    link = carried(taker, publisher, seed=seed, loss=0.2, jitter=0.05, duplicate=0.1)
    publisher.post(b"m", queue_of(objects), datagram=True, now=link.now)
    link.kick()
    link.run_until(lambda: taker.ended is not None, 600.0)
    assert taker.ended is not None
    assert taker.ended.reason is EndReason.COMPLETE
    found = {each.position: (each.flags, each.payload) for each in taker.objects}
    assert found == objects
    assert len(taker.objects) == len(objects)
    assert not taker.gaps
    assert not taker.conflicts
    if order == "media":
        assert list(found) == sorted(found)


@rule("Q-34", "Q-36")
@pytest.mark.parametrize("datagram", [False, True])
def test_what_a_publisher_gives_up_comes_as_holes(datagram: bool) -> None:
    """Behind a slow path; in their place, and nothing else is missing."""
    objects = media(6, 6, 6, 6, size=6_000, flags=0x81)
    dropping = DropSettings(threshold=0.02, interval=0.02)
    publisher = QuicrEngine(client=True, config=QuicrConfig(dropping=dropping))
    taker = Taker(QuicrEngine(client=False), "media", datagram=datagram)
    link = carried(taker, publisher, rate=30_000.0)
    publisher.post(b"m", queue_of(objects, now=link.now), datagram=True, now=link.now)
    link.kick()
    link.run_until(lambda: taker.ended is not None, 600.0)
    assert [each.position for each in taker.objects] == sorted(objects)
    assert not taker.gaps
    holes = [each for each in taker.objects if each.payload is None]
    assert 0 < len(holes) < len(objects)
    for each in taker.objects:
        assert each.payload in (None, objects[each.position][1])

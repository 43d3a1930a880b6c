"""More media than a path can carry: what is given up, in which order, and how late the rest is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.events import Fragments, Pressure
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from tests.core.quicr.ends import Pair, media, queue_of
from tests.support.rules import rule

WAYS = pytest.mark.parametrize("datagram", [False, True], ids=["stream", "datagram"])
RATE = 125_000
"""Bytes a second: 1 Mbit/s."""
FRAMES = 30
"""A second."""
LAYERS = {0x00: 1_250, 0x81: 3_750, 0x83: 3_750, 0x85: 3_750}
"""Bytes of each frame's objects, by their flags: 3 Mbit/s together."""


class Arrival(NamedTuple):
    flags: int
    delay: float
    is_hole: bool


class Overload:
    """Some media, together three times as much as the path carries, for so many seconds."""

    def __init__(self, *, datagram: bool, seconds: int, media: int = 1) -> None:
        self.pair = pair = Pair(rate=RATE, queue=24_000, delay=0.02, seed=1)
        self.longest_queue = 0
        self._arrived: dict[tuple[int, Position], tuple[float, bool]] = {}
        self._published: dict[tuple[int, Position], tuple[float, int]] = {}
        self._sources: dict[int, ObjectQueue] = {}
        pair.link.client.on_events = self._hear
        for number in range(media):
            url, source = f"m{number}".encode(), ObjectQueue()
            pair.server.serves[url] = source
            self._sources[pair.client.engine.request(url, datagram=datagram, now=0)] = source
        pair.link.run_for(0.1)
        begun = pair.now
        for frame in range(seconds * FRAMES):
            self._publish(frame)
            pair.link.run_for(begun + (frame + 1) / FRAMES - pair.now)
        for stream, source in self._sources.items():
            source.finish()
            pair.server.engine.wake(stream, pair.now)
        pair.finish(*self._sources)

    def arrivals(self) -> Iterator[Arrival]:
        """Of all objects that were published."""
        for key, (published, flags) in self._published.items():
            arrived, is_hole = self._arrived[key]
            yield Arrival(flags, arrived - published, is_hole)

    def whole(self, flags: int) -> list[float]:
        """The delays of objects that came."""
        return sorted(a.delay for a in self.arrivals() if a.flags == flags and not a.is_hole)

    def _publish(self, frame: int) -> None:
        group, number = divmod(frame, FRAMES)
        for stream, source in self._sources.items():
            for layer, (flags, size) in enumerate(LAYERS.items()):
                position = Position(group, number * len(LAYERS) + layer)
                payload = bytes(size // len(self._sources))
                source.append(position, payload, flags, self.pair.now)
                self._published[stream, position] = self.pair.now, flags
            self.pair.server.engine.wake(stream, self.pair.now)
        queued = sum(source.size for source in self._sources.values())
        self.longest_queue = max(self.longest_queue, queued)

    def _hear(self, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, Fragments):
                for fragment in event.fragments:
                    if fragment.last:
                        key = event.stream, fragment.position
                        self._arrived.setdefault(key, (self.pair.now, fragment.is_hole))
        self.pair.client.hear(events)


@WAYS
@pytest.mark.parametrize("media", [1, 3])
@rule("Q-34", "Q-36")
def test_three_times_what_the_path_carries(datagram: bool, media: int) -> None:
    run = Overload(datagram=datagram, seconds=10, media=media)
    frames = 10 * FRAMES * media
    came = {flags: run.whole(flags) for flags in LAYERS}
    assert len(came[0x00]) == frames  # what must not be dropped is all there
    assert frames > len(came[0x81]) > len(came[0x83]) > len(came[0x85])
    carried = sum(LAYERS[flags] // media * len(delays) for flags, delays in came.items())
    assert carried > 0.8 * RATE * 10  # no more is given up than has to be
    for delays in came.values():
        late = [delay for delay in delays if delay >= 0.5]
        assert len(late) <= len(delays) / 100
    assert run.longest_queue < 1.5 * sum(LAYERS.values()) * FRAMES
    holes = sum(arrival.is_hole for arrival in run.arrivals())
    assert holes == len(run.pair.server.dropped) == 4 * frames - sum(map(len, came.values()))


@WAYS
@rule("Q-34")
def test_where_there_is_room_nothing_is_given_up(datagram: bool) -> None:
    pair = Pair(rate=10 * RATE)
    objects = media(30, 30, size=2_000, flags=0x81)
    source = ObjectQueue()
    pair.server.serves[b"m"] = source
    stream = pair.client.engine.request(b"m", datagram=datagram, now=0)
    pair.link.run_for(0.1)
    for position, (flags, payload) in objects.items():
        source.append(position, payload, flags, pair.now)
        pair.server.engine.wake(stream, pair.now)
        pair.link.run_for(1 / FRAMES)
    source.finish()
    pair.server.engine.wake(stream, pair.now)
    pair.finish(stream)
    assert pair.client.of(stream).objects == objects
    assert pair.server.told(Pressure) == []


@WAYS
@rule("Q-34")
def test_a_sender_that_gives_nothing_up_is_late_instead(datagram: bool) -> None:
    pair = Pair(rate=RATE, config=QuicrConfig(dropping=None))
    objects = media(100, size=2_000, flags=0x85)
    pair.server.serves[b"m"] = queue_of(objects)
    stream = pair.client.engine.request(b"m", datagram=datagram, now=0)
    pair.finish(stream)
    assert pair.client.of(stream).objects == objects
    assert pair.now > 1.5


@rule("Q-34")
def test_a_publisher_hears_of_the_pressure() -> None:
    pair = Pair(rate=RATE, config=QuicrConfig(dropping=DropSettings(threshold=0.05)))
    objects = media(100, size=4_000, flags=0x83)
    pair.client.engine.post(b"m", queue_of(objects), datagram=False, now=0)
    pair.link.run_for(5)
    told = pair.client.told(Pressure)
    assert told[0].level == 0x41
    assert told[0].delay > 0.05
    assert told[0].queued == 1
    assert told[-1].level is None


@rule("Q-34")
def test_more_urgent_media_overtake_others_of_the_connection() -> None:
    pair = Pair(rate=RATE, config=QuicrConfig(dropping=None))
    engine = pair.client.engine
    bulk = engine.post(b"bulk", queue_of(media(60, size=5_000)), datagram=False, now=0)
    pair.link.run_for(0.5)
    live = engine.post(b"live", queue_of(media(5, size=500), now=0.5), datagram=False, now=0.5)
    pair.link.run_until(lambda: pair.server.of(live).ended is not None)
    assert pair.server.of(bulk).ended is None


@rule("Q-34")
def test_a_reader_that_does_not_read_leaves_room_to_others() -> None:
    pair = Pair(rate=RATE, stream_window=8_000, connection_window=1 << 20)
    pair.client.credit = False
    engine = pair.client.engine
    pair.server.serves = {f"m{n}".encode(): queue_of(media(40, size=2_000)) for n in range(4)}
    stopped = [engine.request(f"m{n}".encode(), datagram=False, now=0) for n in range(3)]
    pair.link.run_for(5)
    for stream in stopped:
        assert pair.client.of(stream).fragments < 10
    pair.client.credit = True
    moving = engine.request(b"m3", datagram=False, now=pair.now)
    began = pair.now
    pair.finish(moving)
    assert pair.client.of(moving).objects == media(40, size=2_000)
    assert pair.now - began < 3 * 40 * 2_140 / RATE

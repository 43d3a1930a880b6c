"""What happens in a seed: a tree of relays, who posts and reads where and when, and what breaks."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from aqueduct_core.quicr.media.position import Position
from tests.core.quicr.ends import Objects

FLAGS = (0x00, 0x81, 0x83)
LONGEST = 20.0
"""Seconds in which all begins."""


class StationPlan(NamedTuple):
    """``upstream``: which of the stations before; None: the origin, the first one."""

    upstream: int | None
    datagram: bool
    eager: bool
    link: dict[str, Any]


class PostPlan(NamedTuple):
    """``breaks_at``: the publisher is gone then, and another one posts all of it again
    ``again_after`` seconds later, elsewhere; None: never."""

    url: bytes
    station: int
    begins: float
    interval: float
    datagram: bool
    objects: Objects
    breaks_at: float | None
    again_after: float | None
    again_at: int
    link: dict[str, Any]


class ReadPlan(NamedTuple):
    """``stops``: from when to when it takes nothing in."""

    url: bytes
    station: int
    begins: float
    datagram: bool
    stops: tuple[float, float] | None
    link: dict[str, Any]


class CutPlan(NamedTuple):
    """The connection of a relay to its upstream breaks, and there is none for ``away`` seconds."""

    station: int
    at: float
    away: float


class Scenario(NamedTuple):
    """``calm``: nothing is too slow, too small or away for too long, so there is no hole."""

    seed: int
    memory: int
    calm: bool
    stations: list[StationPlan]
    posts: list[PostPlan]
    reads: list[ReadPlan]
    cuts: list[CutPlan]


def scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    loss = rng.choice([0.0, 0.0, 0.02, 0.2])
    narrow = rng.random() < 0.25
    small = rng.random() < 0.15

    def link(*, client: bool = False) -> dict[str, Any]:
        made: dict[str, Any] = {
            "seed": rng.randrange(1 << 30),
            "delay": rng.choice([0.001, 0.02, 0.1]),
            "loss": loss,
            "duplicate": loss,
            "jitter": rng.choice([0.0, 0.05]),
            "cut": rng.choice([0.0, 0.3]),
        }
        if narrow and client and rng.random() < 0.5:
            made |= {"rate": rng.choice([4_000.0, 10_000.0]), "queue": 10_000}
        if rng.random() < 0.2:
            made["stream_window"] = (1_500, 20_000, 66_000)[made["seed"] % 3]
        if not loss and "rate" not in made and rng.random() < 0.1:
            made["datagram_outcomes"] = False
        return made

    stations = [StationPlan(None, False, False, {})]
    for number in range(1, rng.choice([1, 2, 3, 4])):
        upstream = rng.randrange(number)
        stations.append(StationPlan(upstream, rng.random() < 0.5, rng.random() < 0.2, link()))
    places = range(len(stations))
    posts = []
    for number in range(rng.choice([1, 1, 2, 3])):
        breaks = rng.uniform(0.0, LONGEST) if rng.random() < 0.3 else None
        posts.append(
            PostPlan(
                b"media/%d" % number,
                rng.choice(places),
                rng.uniform(0.0, LONGEST / 2),
                rng.choice([0.0, 0.01, 0.3]),
                rng.random() < 0.5,
                _objects(rng),
                breaks,
                rng.choice([None, 1.0, 20.0]) if breaks is not None else None,
                rng.choice(places),
                link(),
            )
        )
    reads = [
        ReadPlan(
            rng.choice(posts).url,
            rng.choice(places),
            rng.uniform(0.0, LONGEST),
            rng.random() < 0.5,
            (rng.uniform(0, LONGEST), rng.uniform(LONGEST, 4 * LONGEST))
            if rng.random() < 0.1
            else None,
            link(client=True),
        )
        for _ in range(rng.randint(1, 5))
    ]
    cuts = [
        CutPlan(rng.choice(places[1:]), rng.uniform(0.0, 2 * LONGEST), rng.choice([0.0, 5.0, 60.0]))
        for _ in range(rng.choice([0, 0, 1, 3]))
        if len(places) > 1
    ]
    calm = not (
        narrow
        or small
        or any(post.breaks_at is not None for post in posts)
        or any(cut.away > 5.0 for cut in cuts)
    )
    return Scenario(seed, 40_000 if small else 64 << 20, calm, stations, posts, reads, cuts)


def _objects(rng: random.Random) -> Objects:
    objects: Objects = {}
    largest = rng.choice([50, 300, 3_000])
    for group in range(rng.randint(1, 6)):
        for number in range(rng.randint(1, 8)):
            flags = FLAGS[0] if not number else rng.choice(FLAGS)
            objects[Position(group, number)] = flags, rng.randbytes(rng.randint(1, largest))
    return objects

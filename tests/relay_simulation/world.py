"""Runs a scenario, and judges what readers got."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import NamedTuple

from aqueduct_core.quicr.events import EndReason
from aqueduct_core.quicr.media.fragment import HOLE
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.quicr.ends import Objects, Received
from tests.core.quicr.relay.stations import Client, Station
from tests.relay_simulation.scenario import PostPlan, ReadPlan, Scenario, scenario

PATIENT = 400.0
"""Seconds after which everybody has what there will ever be."""
REST = 300.0
"""Seconds after which nothing is left anywhere."""


class BrokenMedia(AssertionError):
    """A promise that does not hold."""


class Run(NamedTuple):
    """What a seed came to: objects that readers had, and holes."""

    objects: int
    holes: int
    steps: int


class _Read:
    def __init__(self, plan: ReadPlan, client: Client, stream: int) -> None:
        self.plan = plan
        self.client = client
        self.streams = [stream]


class RelayWorld:
    """All stations and clients of a scenario on one clock."""

    def __init__(self, drawn: Scenario) -> None:
        self.scenario = drawn
        self.network = MemoryNetwork()
        self.stations: list[Station] = []
        for number, plan in enumerate(drawn.stations):
            config = RelayConfig(
                memory=max(1 << 16, drawn.memory),
                upstream_datagram=plan.datagram,
                eager=plan.eager,
            )
            upstream = None if plan.upstream is None else self.stations[plan.upstream]
            self.stations.append(
                Station(self.network, config, upstream=upstream, number=number, **plan.link)
            )
        self.media: dict[bytes, Objects] = {post.url: post.objects for post in drawn.posts}
        self.reads: list[_Read] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def run(self) -> Run:
        drawn = self.scenario
        for post in drawn.posts:
            self._plan_post(post)
        for read in drawn.reads:
            self.at(read.begins, lambda read=read: self._read(read))  # type: ignore[misc]
        for cut in drawn.cuts:
            self.at(cut.at, lambda cut=cut: self._cut(cut.station, cut.away))  # type: ignore[misc]
        steps = 0
        while self._due:
            when, _, act = heapq.heappop(self._due)
            self.network.run_for(max(0.0, when - self.network.now))
            act()
            self.network.kick()
            steps += 1
        self.network.run_for(PATIENT)
        totals = [self._judge(read) for read in self.reads]
        for read in self.reads:
            for stream in read.streams:
                read.client.cancel(stream)
        self.network.run_for(REST)
        self._judge_rest()
        objects, holes = (sum(each) for each in zip(*totals, strict=True))
        return Run(objects, holes, steps)

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._count), act))

    def _plan_post(self, plan: PostPlan) -> None:
        stop = plan.breaks_at

        def begin() -> None:
            if stop is not None and stop <= plan.begins:
                return
            client = self.stations[plan.station].client(**plan.link)
            stream = client.post(plan.url, {}, datagram=plan.datagram, finished=False)
            self._append(plan, client, stream, stop)
            if stop is not None:
                self.at(stop, client.link.lose)

        def again() -> None:
            client = self.stations[plan.again_at].client(**plan.link)
            client.post(plan.url, plan.objects, datagram=plan.datagram)

        self.at(plan.begins, begin)
        if stop is not None and plan.again_after is not None:
            self.at(max(stop, plan.begins) + plan.again_after, again)

    def _append(self, plan: PostPlan, client: Client, stream: int, stop: float | None) -> None:
        when = self.network.now
        for position, (flags, payload) in plan.objects.items():
            if stop is not None and when >= stop:
                return
            self.at(
                when,
                lambda p=position, d=payload, f=flags: client.append(stream, p, d, f),  # type: ignore[misc]
            )
            when += plan.interval
        if stop is None or when < stop:
            self.at(when, lambda: client.finish(stream))

    def _read(self, plan: ReadPlan) -> None:
        client = self.stations[plan.station].client(**plan.link)
        read = _Read(plan, client, client.get(plan.url, datagram=plan.datagram))
        self.reads.append(read)
        if plan.stops is not None:
            begin, end = plan.stops
            self.at(max(begin, self.network.now), lambda: self._stop(client))
            self.at(end, lambda: self._go_on(client))

    def _stop(self, client: Client) -> None:
        client.credit = False

    def _go_on(self, client: Client) -> None:
        client.credit = True
        for stream in client.received:
            client.engine.consumed(stream, 1 << 20, client.now)
        client.end.kick()

    def _cut(self, number: int, away: float) -> None:
        station = self.stations[number]
        if station.line is not None and station.line.client.lost is None:
            station.cut()
        if away:
            station.reachable = False
            self.at(self.network.now + away, lambda: self._reachable(station))

    def _reachable(self, station: Station) -> None:
        station.reachable = True

    # judgement

    def _judge(self, read: _Read) -> tuple[int, int]:
        """Objects and holes that a reader had."""
        drawn, client, (stream,) = self.scenario, read.client, read.streams
        received, truth = client.got(stream), self.media[read.plan.url]
        who = f"seed {drawn.seed}: reader of {read.plan.url!r} at {read.plan.station}"
        if client.engine.closed is not None:
            raise BrokenMedia(f"{who}: connection closed: {client.engine.closed}")
        whole = {p: o for p, o in received.objects.items() if o[0] != HOLE or o[1]}
        holes = set(received.objects) - set(whole)
        for position, object in whole.items():
            if truth.get(position) != object:
                raise BrokenMedia(f"{who}: object {position} is not what was published")
        ended = received.ended
        if ended is None:
            # who comes when it has gone waits for another one
            first = min(post.begins for post in drawn.posts if post.url == read.plan.url)
            if received.objects or (drawn.calm and read.plan.begins < first):
                raise BrokenMedia(f"{who}: not at its end, with {len(received.objects)} objects")
            return 0, 0
        if ended.reason is EndReason.CANCELLED and not drawn.calm:
            return len(whole), len(holes)  # in the middle of what never came whole
        if ended.reason is not EndReason.COMPLETE:
            raise BrokenMedia(f"{who}: {ended}")
        start = received.start or (0, 0)
        missing = [p for p in truth if p >= start and not _told(p, received)]
        if missing:
            raise BrokenMedia(f"{who}: {missing[:5]} are missing, and nobody said so")
        if drawn.calm and (holes or received.start is not None or set(whole) != set(truth)):
            raise BrokenMedia(f"{who}: holes {sorted(holes)[:5]}, start {received.start}")
        if drawn.calm and received.final != max(truth).following:
            raise BrokenMedia(f"{who}: final point {received.final}")
        return len(whole), len(holes)

    def _judge_rest(self) -> None:
        """Nothing is left at any relay of what nobody posts or reads."""
        for number, station in enumerate(self.stations):
            counts = station.relay.counts()
            if counts or station.relay.memory:
                raise BrokenMedia(
                    f"seed {self.scenario.seed}: station {number} still has {counts}, "
                    f"{station.relay.memory} bytes"
                )


def _told(position: Position, received: Received) -> bool:
    """Whether a reader has an object, or a hole for it. A hole that is the last of its group stands
    for all behind it, too: the hop that dropped it need not know how many there were (Q36). Before
    the final point of a media that broke off it stands for all that would have followed (Q30)."""
    if position in received.objects:
        return True
    assert received.final is not None
    if position >= received.final:
        last = max(received.objects, default=position)
    else:
        last = max((p for p in received.objects if p.group == position.group), default=position)
        if position.group == received.final.group:
            return False
    return last < position and received.objects[last] == (HOLE, b"")


def run_relay_seed(seed: int) -> Run:
    """BrokenMedia, or what it came to."""
    return RelayWorld(scenario(seed)).run()

"""One run, and what has to hold of it whatever happened."""

from __future__ import annotations

import heapq
import json
import random
from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple, cast

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import Datagram, Input, LinkLost
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    ChannelWritable,
    CloseReason,
    PacketBatch,
    PacketsAcked,
)
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.telehash.pacing import Recorded, breaches
from tests.core.telehash.peers import PeerLikeC, PeerLikeJs, ScriptedPeer
from tests.telehash_simulation.scenario import ChannelPlan, LineScenario, scenario

LIMIT = 400.0
"""Seconds of the virtual clock after which all has to be over."""
QUIET = 130.0
"""Seconds without anything to do after which nothing may be kept any more."""


class RunTotals(NamedTuple):
    packets: int
    closed: int
    lines_lost: int


class RecordedEngine(TelehashEngine):
    """Writes down what goes in and out."""

    def __init__(self, *, odd: bool, config: TelehashConfig) -> None:
        super().__init__(odd=odd, config=config)
        self.trace: list[Recorded] = []

    def handle(self, input: Input, now: float) -> None:
        if isinstance(input, Datagram):
            self.trace.append(Recorded(now, False, head_of(input.data)))
        super().handle(input, now)

    def actions(self) -> list[Action]:
        taken = super().actions()
        for each in taken:
            if isinstance(each, SendDatagram):
                assert len(each.data) <= self.limit, "a packet that does not fit"
                self.trace.append(Recorded(self._now, True, head_of(each.data)))
        return taken


def head_of(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data[2 : 2 + int.from_bytes(data[:2])])
    return found


class Sending(NamedTuple):
    """What an end has yet to send on a channel."""

    packets: list[bytes]
    ending: str


class SimulatedApplication:
    """One end of ours and what it does; checks what it is told."""

    def __init__(self, world: LineWorld, engine: RecordedEngine, chance: random.Random) -> None:
        self.world = world
        self.engine = engine
        self.chance = chance
        self.plans: dict[int, ChannelPlan] = {}
        self.sending: dict[int, Sending] = {}
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.got: dict[int, list[bytes]] = defaultdict(list)
        self.done: dict[int, int] = defaultdict(int)
        self.acked: dict[int, int] = defaultdict(int)
        self.closed: dict[int, ChannelClosed] = {}
        self.ended: set[int] = set()
        self.reliable: dict[int, bool] = {}
        self.lost: LinkLost | None = None
        self.closed_at = 0.0

    def open(self, plan: ChannelPlan) -> None:
        if self.engine.closed is not None:
            return
        bodies = [f"{plan.packets}:{number}".encode() for number in range(plan.packets)]
        only = plan.packets == 1 and plan.ending == "end"
        channel = self.engine.open(
            "_sim", reliable=plan.reliable, body=bodies[0], end=only, now=self.world.now
        )
        self.plans[channel] = self.world.plans[channel] = plan
        self.reliable[channel] = plan.reliable
        self.sent[channel].append(bodies[0])
        self.sending[channel] = Sending(bodies[1:], "" if only else plan.ending)
        self.send(channel)

    def send(self, channel: int) -> None:
        engine, now = self.engine, self.world.now
        packets, ending = self.sending.get(channel, ([], ""))
        if channel in self.closed or engine.closed is not None or channel not in self.sending:
            return
        while packets and engine.room(channel):
            last = len(packets) == 1 and ending == "end"
            engine.send(channel, body=packets[0], end=last, now=now)
            self.sent[channel].append(packets.pop(0))
        if packets:
            return
        if ending == "end alone":
            if not engine.room(channel):
                return
            engine.send(channel, end=True, now=now)
            self.sent[channel].append(b"")
        elif ending == "err":
            engine.fail(channel, "simulated", now)
        del self.sending[channel]

    def hear(self, events: list[Any]) -> None:
        for event in events:
            assert self.lost is None, "an event behind the end of the line"
            match event:
                case ChannelOpened(channel, _, reliable):
                    assert channel not in self.reliable, "opened twice"
                    self.reliable[channel] = reliable
                case PacketBatch():
                    self._take(event)
                case PacketsAcked(channel, upto):
                    assert self.acked[channel] < upto <= len(self.sent[channel]), "acks"
                    self.acked[channel] = upto
                    done = self.world.processed(self, channel)
                    assert done is None or upto <= done, "an ack above what was processed"
                case ChannelWritable(channel):
                    assert channel not in self.closed
                    self.world.later(0.0, partial(self.send, channel))
                case ChannelClosed(channel):
                    assert channel not in self.closed, "closed twice"
                    self.closed[channel] = event
                    self.closed_at = self.world.now
                case LinkLost():
                    self.lost = event
                    assert self.reliable.keys() == self.closed.keys(), "channels without an end"

    def _take(self, batch: PacketBatch) -> None:
        channel = batch.channel
        assert channel not in self.closed, "packets behind the end of a channel"
        assert channel not in self.ended, "packets behind the end of the peer"
        got = self.got[channel]
        assert batch.first == len(got), "a run that does not follow the one before"
        got += [item.payload for item in batch.messages()]
        if batch.end:
            self.ended.add(channel)
        plan = self.world.plans.get(channel)
        if plan is None:
            self._done(channel, len(got))
            return
        if channel not in self.plans and not self.sent[channel] and plan.answers:
            answers = [f"answer {number}".encode() for number in range(plan.answers)]
            self.sent[channel] = []
            self.sending[channel] = Sending(answers, "")
            self.send(channel)
        pause = plan.pause * self.chance.random()
        upto = len(got)
        self.world.later(pause, lambda: self._done(channel, upto))

    def _done(self, channel: int, upto: int) -> None:
        if self.reliable.get(channel) and channel not in self.closed:
            self.done[channel] = max(self.done[channel], upto)
        self.engine.done(channel, upto, self.world.now)


class LineWorld:
    def __init__(self, given: LineScenario) -> None:
        self.given = given
        self.plans: dict[int, ChannelPlan] = {}
        chance = random.Random(given.seed)
        self.ours = SimulatedApplication(
            self, RecordedEngine(odd=True, config=given.config), chance
        )
        self.theirs: SimulatedApplication | None = None
        self.script: ScriptedPeer | None = None
        if given.peer == "ours":
            engine = RecordedEngine(odd=False, config=given.peer_config)
            self.theirs = SimulatedApplication(self, engine, chance)
        else:
            self.script = PeerLikeJs() if given.peer == "js" else PeerLikeC()
        self.link = MemoryLink(
            self.ours.engine,
            self.theirs.engine if self.theirs is not None else cast(Engine[Any], self.script),
            seed=given.seed,
            delay=given.delay,
            jitter=given.jitter,
            loss=given.loss,
            duplicate=given.duplicate,
            rate=given.rate,
            on_client_events=self.ours.hear,
            on_server_events=self.theirs.hear if self.theirs is not None else None,
        )
        self._later: list[tuple[float, int, Any]] = []
        self._count = 0

    @property
    def now(self) -> float:
        return self.link.now

    def later(self, seconds: float, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._later, (self.now + seconds, self._count, what))

    def processed(self, sender: SimulatedApplication, channel: int) -> int | None:
        """What the other end has processed of a channel; None: it is not ours to know."""
        if self.script is not None:
            return len(self.script.got[channel])
        assert self.theirs is not None
        return (self.theirs if sender is self.ours else self.ours).done[channel]

    def run(self) -> None:
        for plan in self.given.channels:
            by = self.ours if plan.by_client or self.theirs is None else self.theirs
            self.later(plan.at, partial(by.open, plan))
        if isinstance(self.script, PeerLikeJs):
            for number in range(self.given.seed % 30):
                at = 0.1 * number
                self.later(at, partial(self._js_says, number))
        if self.given.lost_at is not None:
            self.later(self.given.lost_at, self.link.lose)
        self.link.kick()
        self._until(LIMIT)
        self._check()
        self._until(self.now + 2 * QUIET)
        for each in self._ends():
            if each.reliable.keys() == each.closed.keys() and each.closed_at < self.now - QUIET:
                assert each.engine.footprint.size == 0, "something is kept for nothing"

    def _js_says(self, number: int) -> None:
        assert isinstance(self.script, PeerLikeJs)
        if self.link.server.lost is None and 2 not in self.script.failed:
            self.script.say(2, b"js %d" % number, self.now)

    def _ends(self) -> list[SimulatedApplication]:
        return [self.ours] if self.theirs is None else [self.ours, self.theirs]

    def _until(self, end: float) -> None:
        """Have the link and the applications go on in the order of time."""
        while True:
            self.link.kick()  # what that brings about may have something to do before time goes on
            due = self.link.next_at
            mine = self._later[0][0] if self._later else None
            if mine is not None and (due is None or mine <= due):
                if mine > end:
                    return
                self.link.run_for(max(0.0, mine - self.now))
                heapq.heappop(self._later)[2]()
                for side in self.link.ends:
                    side.kick()
            elif due is None or due > end:
                return
            else:
                self.link.step()

    def _check(self) -> None:
        for each in self._ends():
            config = self.given.config if each is self.ours else self.given.peer_config
            found = breaches(each.engine.trace, window=config.window, until=self._lost_at())
            assert not found, found[:3]
            for channel, reliable in each.reliable.items():
                self._check_channel(each, channel, reliable)
        if self.script is not None:
            for channel, got in self.script.got.items():
                assert got == self.ours.sent[channel][: len(got)], f"content of {channel}"
            assert not self.script.problems, self.script.problems[:3]

    def _lost_at(self) -> float:
        """When the line ended; else, when the run did."""
        lost_at = self.given.lost_at
        return self.now if lost_at is None else min(self.now, lost_at)

    def _check_channel(self, each: SimulatedApplication, channel: int, reliable: bool) -> None:
        if self.theirs is None:
            if channel == 2:
                got = each.got[2]
                assert got == [b"js %d" % number for number in range(len(got))], "content of 2"
            return
        other = self.theirs if each is self.ours else self.ours
        got, sent = each.got[channel], other.sent[channel]
        if reliable:
            assert got == sent[: len(got)], f"content of {channel}"
        else:
            assert set(got) <= set(sent), f"content of {channel}"
        closed = each.closed.get(channel)
        if closed is None:
            return
        if closed.reason is CloseReason.ENDED and reliable:
            assert other.got[channel] == each.sent[channel], f"{channel} ended, and is not there"
            assert each.acked[channel] == len(each.sent[channel])
        if closed.reason is CloseReason.PEER_ENDED and reliable:
            assert got == sent, f"the peer ended {channel}, and not all came"


def run_line_seed(seed: int) -> RunTotals:
    """Raises AssertionError for what does not hold."""
    world = LineWorld(scenario(seed))
    world.run()
    ends = world._ends()
    return RunTotals(
        sum(len(got) for each in ends for got in each.got.values()),
        sum(len(each.closed) for each in ends),
        world.ours.lost is not None,
    )

"""A peer, a link in memory, and a session that stores, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.intake.storage.commit_tracker import CommitTrackers
from aqueduct_core.intake.telehash.channels import ChannelIntake
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.intake.telehash.roles import OpeningSession, engine_config
from aqueduct_core.intake.telehash.rows import ROWS
from aqueduct_core.intake.telehash.session import LineSession
from aqueduct_core.intake.telehash.settings import TelehashConnect, TelehashIntake
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket, decode
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.intake.bench import Bench, bench
from tests.core.intake.doubles import Report, Turns
from tests.core.telehash.ends import Application

NOW = 1_800_000_000_000_000


def settings(
    *types: str, dials: bool = False, bounded: bool = False, **channels: Any
) -> TelehashIntake:
    connect = TelehashConnect(("peer:1",), bounded=bounded, first_wait=0.2)
    return TelehashIntake(
        spool="/spool",
        credentials=Credentials("", b""),
        listen=None if dials else "127.0.0.1:0",
        connect=connect if dials else None,
        types=types,
        channels=ChannelIntake(**channels),
    )


class Traced(TelehashEngine):
    """An engine whose packets are looked at when they leave."""

    leaves: Callable[[ChannelPacket], None] | None = None

    def actions(self) -> list[Action]:
        found = super().actions()
        if self.leaves is not None:
            for action in found:
                if isinstance(action, SendDatagram):
                    self.leaves(decode(action.data))
        return found


class LineScene:
    """``peer`` is the other end, which has dialled unless we do."""

    def __init__(
        self,
        b: Bench,
        given: TelehashIntake | None = None,
        *,
        commits: CommitTrackers | None = None,
        budget: EventBudget | None = None,
        requests: EndpointRequests | None = None,
        leaves: Callable[[ChannelPacket], None] | None = None,
        **link: Any,
    ) -> None:
        given = given or settings()
        self.bench = b
        self.requests = requests
        dials = given.connect is not None
        self.ours = Traced(odd=dials, config=engine_config(given, dials=dials))
        self.ours.leaves = self._leaves
        self.acks: list[tuple[float, int, int]] = []
        """Time, channel and number of all acks that left."""
        self._more = leaves
        self.peer = Application(TelehashEngine(odd=not dials))
        self.ended: list[LineSession] = []
        self.report = Report()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        engines = (self.ours, self.peer.engine) if dials else (self.peer.engine, self.ours)
        hear = (self._hear, self.peer.hear) if dials else (self.peer.hear, self._hear)
        self.link = MemoryLink(*engines, on_client_events=hear[0], on_server_events=hear[1], **link)
        ends = self.link.ends
        own, self.peer.end = ends if dials else ends[::-1]
        self.peer.link = self.link
        self._turns = Turns(own.kick)
        self.context = SessionContext(
            groups=b.groups,
            clock=lambda: self.link.now,
            wall_microseconds=lambda: NOW + int(self.link.now * 1_000_000),
            ended=self.ended.append,
            owners=b.owners,
            refusals=b.refusals,
            commits=commits or CommitTrackers(b.spool.partitions - 1, b.spool.cursors()),
        )
        shared: dict[str, Any] = {"budget": budget or EventBudget(), "later": self._later}
        self.session: LineSession
        if given.connect is not None:
            self.requests = requests or EndpointRequests(given.connect, given.types, {})
            self.session = OpeningSession(
                "peer:1", self.ours, self.context, given, self.requests, self.report, **shared
            )
        else:
            self.session = LineSession("peer:1", self.ours, self.context, given, **shared)
        self.link.kick()

    def open(
        self,
        bodies: Sequence[bytes] = (b"",),
        kind: str = "_a",
        *,
        js: Sequence[dict[str, Any] | None] | None = None,
        end: bool = False,
        reliable: bool = True,
    ) -> int:
        """Have the peer open a channel with these packets; its number."""
        js = js or [None] * len(bodies)
        channel = self.peer.engine.open(
            kind,
            reliable=reliable,
            js=js[0],
            body=bodies[0],
            end=end and len(bodies) == 1,
            now=self.link.now,
        )
        self.send(channel, bodies[1:], js=js[1:], end=end)
        return channel

    def send(
        self,
        channel: int,
        bodies: Sequence[bytes],
        *,
        js: Sequence[dict[str, Any] | None] | None = None,
        end: bool = False,
    ) -> None:
        js = js or [None] * len(bodies)
        for at, (body, each) in enumerate(zip(bodies, js, strict=True)):
            last = end and at == len(bodies) - 1
            self.peer.engine.send(channel, js=each, body=body, end=last, now=self.link.now)
        self.peer.end.kick()
        self.link.kick()

    def run(self, seconds: float = 1.0, *, settle: bool = True) -> None:
        """Let time pass, with groups that become durable."""
        for _ in range(round(seconds / 0.05)):
            self.link.run_for(0.05)
            due = [call for at, call in self._timers if at <= self.link.now]
            self._timers = [each for each in self._timers if each[0] > self.link.now]
            for call in due:
                call()
            if settle:
                self.bench.settle()
            self.link.kick()

    def commit(self, cursor: str = "query", ends: Sequence[int] | None = None) -> None:
        """A query has all that is durable in its commit log, or what is below ``ends``."""
        spool = self.bench.spool
        spool.commit(cursor, [*(ends or spool.ends()[:-1]), None])
        self.context.commits.move(spool.cursors())

    def acked(self, channel: int) -> int:
        """Packets of a channel that the peer knows to be acked."""
        return self.peer.acked.get(channel, 0)

    def kinds(self) -> list[str]:
        """Of the events that are durable."""
        return [event["kind"] for event in self.bench.events()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.bench.events() if event["kind"] == kind]

    def _leaves(self, packet: ChannelPacket) -> None:
        if packet.ack is not None:
            self.acks.append((self.link.now, packet.channel, packet.ack))
        if self._more is not None:
            self._more(packet)

    def _hear(self, events: list[Any]) -> None:
        self.session.on_events(self._turns, events)  # type: ignore[arg-type]

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((self.link.now + seconds, call))


@contextmanager
def line_bench(directory: Path, **given: Any) -> Iterator[Bench]:
    with bench(directory, rows=ROWS, **given) as b:
        yield b


def mark(row: int, *, query: str = "q", batch: int = 0, partition: int = 0) -> dict[str, Any]:
    return {"q": query, "e": batch, "p": partition, "i": row}

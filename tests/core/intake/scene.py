"""A client engine, a link with chances, and a session that stores, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Mode, Side
from aqueduct_core.aqueduct.events import Closed, Delivered, End, Ended, Event
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.intake.aqueduct.server_role import ServerRole
from aqueduct_core.intake.aqueduct.session import AqueductSession
from aqueduct_core.intake.sessions.context import SessionContext
from tests.core.intake.bench import Bench
from tests.support.pair import LinkShape, Pair

NOW = 1_800_000_000_000_000
STORED = Config(ack_mode=AckMode.ON_STORED, confirm_finish=True)


class Turns:
    """Stands in for the driver: every turn of the scene carries all orders out anyway."""

    unsent = 0

    def kick(self) -> None:
        pass


class Scene:
    """A client engine, a link, and a session that stores on ``b``."""

    def __init__(
        self,
        b: Bench,
        *,
        headers: Headers = (),
        shape: LinkShape | None = None,
        seed: int = 0,
        refusal: Callable[[str | None], str | None] = lambda _: None,
    ) -> None:
        self.bench = b
        self.pair = Pair(seed, shape, server=STORED, headers=headers)
        self.told: list[Event] = []
        self.ended: list[AqueductSession] = []
        self.context = SessionContext(
            groups=b.groups,
            clock=lambda: self.pair.now,
            wall_microseconds=lambda: NOW + int(self.pair.now * 1_000_000),
            ended=self.ended.append,
            owners=b.owners,
            refusals=b.refusals,
        )
        role = ServerRole(self.pair.server, refusal, self.context.clock)
        self.session = AqueductSession("peer", self.pair.server, self.context, role)

    @property
    def client(self) -> AqueductEngine:
        return self.pair.client

    def step(self, seconds: float = 0.05) -> None:
        """A piece of time, then the events, then a group."""
        self.pair.run(seconds)
        events = self.pair.events(Side.SERVER)
        if events:
            self.session.on_events(Turns(), events)  # type: ignore[arg-type]
        self.bench.settle()
        self.told += self.pair.events(Side.CLIENT)

    def take(self, seconds: float = 0.05) -> None:
        """A piece of time, then the events; the group stays open."""
        self.pair.run(seconds)
        events = self.pair.events(Side.SERVER)
        if events:
            self.session.on_events(Turns(), events)  # type: ignore[arg-type]

    def rest(self, seconds: float = 4.0) -> None:
        for _ in range(int(seconds / 0.05)):
            self.step()

    def attach(self, *headers: Headers, sends: bool = True, carrier: bytes = b"") -> list[int]:
        attaches = [Attach(sends, headers=each) for each in headers]
        return list(self.client.send(0, carrier, now=self.pair.now, attach=attaches).attached)

    def send(self, channel: int, *payloads: bytes, mode: Mode = Mode.ORDERED) -> None:
        for payload in payloads:
            self.client.send(channel, payload, now=self.pair.now, mode=mode)

    def end_of(self, channel: int) -> End | None:
        ends = [n.end for n in self.told if isinstance(n, Ended) and n.channel == channel]
        return ends[0] if ends else None

    def delivered(self, channel: int, acked: bool) -> list[int]:
        return sorted(
            number
            for event in self.told
            if isinstance(event, Delivered) and event.channel == channel and event.acked is acked
            for number in range(event.first, event.stop)
        )

    @property
    def closed(self) -> Closed | None:
        return next((event for event in self.told if isinstance(event, Closed)), None)


def of(b: Bench, channel: str) -> list[dict[str, Any]]:
    return [row for row in b.rows() if row["channel"] == channel]

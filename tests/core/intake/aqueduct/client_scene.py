"""An intake's session that asks, against a server engine, on a virtual clock."""

from __future__ import annotations

from typing import Any

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Mode, Side
from aqueduct_core.aqueduct.events import Closed, End, Ended, Event, Opened
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from aqueduct_core.intake.aqueduct.client_role import ClientRole
from aqueduct_core.intake.aqueduct.session import AqueductSession
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from aqueduct_core.intake.aqueduct.subscriptions import Subscriptions
from aqueduct_core.intake.sessions.context import SessionContext
from tests.core.intake.bench import Bench
from tests.support.pair import Pair

STORED = Config(ack_mode=AckMode.ON_STORED, confirm_finish=True)
NOW = 1_800_000_000_000_000


class Turns:
    """Stands in for the driver: every turn of the scene carries all orders out anyway."""

    unsent = 0

    def kick(self) -> None:
        pass


def settings(*names: str, **given: Any) -> AqueductConnect:
    return AqueductConnect(
        endpoints=("remote:4433",),
        subscriptions=tuple(map(Subscription, names)) or (Subscription(),),
        **given,
    )


class AskingScene:
    """One connection of ``subscriptions``; the test plays the remote with the server engine.

    ``asked`` holds, for each name, the channels on which the remote may send, in the order in
    which they were asked for. ``now`` is when it begins, for one connection after another.
    """

    def __init__(
        self,
        b: Bench,
        subscriptions: Subscriptions,
        *,
        headers: Headers = (),
        server: Config | None = None,
        now: float = 0.0,
    ) -> None:
        self.bench = b
        self.subscriptions = subscriptions
        self.pair = Pair(client=STORED, server=server or Config())
        self.pair.now = now
        self.timers: list[tuple[float, Any]] = []
        self.over: list[Closed] = []
        self.told: list[Event] = []
        self.requests: list[tuple[bytes, Headers, Headers]] = []
        self.asked: dict[str, list[int]] = {}
        self._headers = headers
        self.context = SessionContext(
            groups=b.groups,
            clock=lambda: self.pair.now,
            wall_microseconds=lambda: NOW + int(self.pair.now * 1_000_000),
            ended=lambda _: None,
            owners=b.owners,
            refusals=b.refusals,
        )
        self.asking = ClientRole(
            self.pair.client,
            subscriptions,
            clock=self.context.clock,
            later=lambda seconds, call: self.timers.append((self.pair.now + seconds, call)),
            events=self,
        )
        self.session = AqueductSession("remote", self.pair.client, self.context, self.asking)

    def opened(self) -> None:
        """Nobody waits for it."""

    def changed(self) -> None:
        """The same."""

    def closed(self, end: Closed) -> None:
        self.over.append(end)

    @property
    def server(self) -> AqueductEngine:
        return self.pair.server

    def step(self, seconds: float = 0.05) -> None:
        """A piece of time, then the events, then a group, then what is due."""
        self.hear(seconds)
        self.bench.settle()
        due = [timer for timer in self.timers if timer[0] <= self.pair.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.pair.now]
        for _, call in due:
            call()

    def hear(self, seconds: float = 0.05) -> None:
        """A piece of time and the events of it; nothing becomes durable."""
        self.pair.run(seconds)
        for item in self.pair.events(Side.SERVER):
            self.told.append(item)
            if isinstance(item, Opened):
                self.server.accept(self._headers, self.pair.now)
            elif isinstance(item, MessageBatch):
                self._requested(item)
        events = self.pair.events(Side.CLIENT)
        if events:
            self.session.on_events(Turns(), events)  # type: ignore[arg-type]

    def rest(self, seconds: float = 1.0) -> None:
        for _ in range(round(seconds / 0.05)):
            self.step()

    def send(self, channel: int, *payloads: bytes) -> None:
        for payload in payloads:
            self.server.send(channel, payload, now=self.pair.now)

    def attach(self, channel: int, headers: Headers = (), *, sends: bool = True) -> int:
        sent = self.server.send(
            channel,
            b"with a channel",
            now=self.pair.now,
            mode=Mode.ORDERED,
            attach=[Attach(sends, headers=headers)],
        )
        return sent.attached[0]

    def finish(self, channel: int) -> None:
        self.server.finish(channel, self.pair.now)

    def end_of(self, channel: int) -> End | None:
        ends = [n.end for n in self.told if isinstance(n, Ended) and n.channel == channel]
        return ends[0] if ends else None

    def _requested(self, run: MessageBatch) -> None:
        for single in run.messages():
            for channel, headers in single.attachments:
                name = dict(headers).get(b"name", b"").decode()
                self.asked.setdefault(name, []).append(channel)
                self.requests.append((single.payload, single.headers, headers))
        self.server.consumed(run.channel, run.size, self.pair.now)

"""Two engines on real links, a narrow path between them, and a virtual clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.aqueduct.events import Event
from aqueduct_core.engine.inputs import Input
from aqueduct_core.transport.aioquic.factory import client_link, server_link
from aqueduct_core.transport.link import Address, Link
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.ends import ALPN
from tests.core.transport.wire import CLIENT, SERVER, STACK
from tests.support.event_loop import client_tls, server_tls

N = TypeVar("N")


@dataclass
class End:
    """``events``: each with its time. ``free_at``: when the path has carried what this end sent;
    ``carried``: bytes of that; ``dropped``: UDP datagrams that the path did not take."""

    link: Link
    engine: AqueductEngine
    events: list[tuple[float, Event]] = field(default_factory=list)
    inbox: list[tuple[float, int, bytes]] = field(default_factory=list)
    free_at: float = 0.0
    carried: int = 0
    dropped: int = 0


class NarrowPath:
    """A client and, once it has been heard of, a server.

    Args:
        rate: bytes per second in each direction.
        queue: bytes that wait for the path in each direction; what comes on top is dropped.
        delay: seconds from one end to the other, apart from the queue.
        loss: share of the UDP datagrams that are lost besides.
        mtu: bytes of the largest UDP datagram that passes; those above it vanish uncounted.
    """

    def __init__(
        self,
        *,
        rate: float,
        queue: int,
        delay: float,
        loss: float = 0.0,
        mtu: int = 1_472,
        client: Config | None = None,
        server: Config | None = None,
    ) -> None:
        self.now = 100.0
        self.rate, self.queue, self.delay, self.loss = rate, queue, delay, loss
        self.mtu = mtu
        self._random = random.Random(1)
        self._serial = 0
        self._agenda: list[tuple[float, int, Callable[[], Any]]] = []
        self._settings = LinkSettings()
        self._server_config = server or Config(auto_accept=True)
        link = client_link(ALPN, self._settings, client_tls(), "127.0.0.1", SERVER, self.now)
        self.client = End(link, AqueductEngine(Side.CLIENT, (), client or Config(), now=self.now))
        self.server: End | None = None

    @property
    def ends(self) -> list[End]:
        return [self.client] if self.server is None else [self.client, self.server]

    def told(self, end: End, kind: type[N], channel: int | None = None, since: int = 0) -> list[N]:
        """Events of one kind, of one channel where it is given, from the event ``since`` on."""
        return [
            events
            for _, events in end.events[since:]
            if isinstance(events, kind) and channel in (None, getattr(events, "channel", None))
        ]

    def wait_for(self, end: End, kind: type[N], channel: int | None = None) -> N:
        """Move time until there are such events; the first of them."""
        seen = 0

        def there() -> bool:
            nonlocal seen
            since, seen = seen, len(end.events)
            return bool(self.told(end, kind, channel, since))

        self.run(there)
        return self.told(end, kind, channel)[0]

    def at(self, when: float, act: Callable[[], Any]) -> None:
        """Have an application do something then."""
        self._serial += 1
        heapq.heappush(self._agenda, (when, self._serial, act))

    def run(self, condition: Callable[[], bool], limit: float = 120.0) -> None:
        """Move time until the condition holds; AssertionError after ``limit`` seconds of it."""
        stop = self.now + limit
        self._turns()
        while not condition():
            due = [when for when, *_ in self._agenda[:1]]
            for end in self.ends:
                due += [when for when, *_ in end.inbox[:1]]
                due += [at for at in (end.link.timer, end.engine.wake_at) if at is not None]
            assert due, "nothing will ever happen again"
            self.now = max(self.now + 1e-6, min(due))
            assert self.now < stop, "the condition did not come about in time"
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
            self._turns()

    def _turns(self) -> None:
        for end in self.ends:
            self._turn(end)

    def _turn(self, end: End) -> None:
        """As ``Driver`` does it."""
        link, engine, now = end.link, end.engine, self.now
        burst = []
        while end.inbox and end.inbox[0][0] <= now:
            burst.append((heapq.heappop(end.inbox)[2], SERVER if end is self.client else CLIENT))
        if burst:
            link.receive(burst, now)
        self._handle(end, link.inputs())
        if link.timer is not None and now >= link.timer:
            link.fire(now)
            self._handle(end, link.inputs())
        if link.ready and engine.wake_at is not None and now >= engine.wake_at:
            engine.tick(now)
        while True:
            if link.ready:
                link.apply(engine.actions(), now)
                self._handle(end, link.inputs())
            out = link.transmit(now)
            self._carry(end, out)
            inputs = link.inputs()
            self._handle(end, inputs)
            if not inputs or link.backlogged:
                break
        end.events += [(now, event) for event in engine.events()]

    def _handle(self, end: End, inputs: list[Input]) -> None:
        for input in inputs:
            end.engine.handle(input, self.now)

    def _carry(self, end: End, datagrams: Sequence[tuple[bytes, Address]]) -> None:
        for data, _ in datagrams:
            other = self._other(end, data)
            if len(data) > self.mtu:
                continue
            waits = max(0.0, end.free_at - self.now) * self.rate
            if waits + len(data) > self.queue or self._random.random() < self.loss:
                end.dropped += 1
                continue
            end.carried += len(data)
            end.free_at = max(end.free_at, self.now) + len(data) / self.rate
            self._serial += 1
            heapq.heappush(other.inbox, (end.free_at + self.delay, self._serial, data))

    def _other(self, end: End, data: bytes) -> End:
        if end is not self.client:
            return self.client
        if self.server is None:
            hello = STACK.hello(data)
            assert hello is not None
            link = server_link({ALPN: self._settings}, server_tls().identity, hello)
            self.server = End(
                link, AqueductEngine(Side.SERVER, (), self._server_config, now=self.now)
            )
        return self.server

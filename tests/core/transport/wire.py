"""Two links on a virtual clock with a bad network between them: no socket, no real time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from aqueduct_core.transport.aioquic.factory import client_link, server_link
from aqueduct_core.transport.aioquic.link import AioquicLink
from aqueduct_core.transport.aioquic.stack import AioquicStack
from aqueduct_core.transport.link import AcceptTerms, Address, Resumption
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.ends import ALPN
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, server_tls

CLIENT: Address = ("127.0.0.1", 1111)
SERVER: Address = ("127.0.0.1", 2222)
STACK = AioquicStack()


@dataclass
class End:
    link: AioquicLink
    probe: Probe
    inbox: list[tuple[float, int, bytes]] = field(default_factory=list)


class Wire:
    """A client and a server end; ``run`` moves time until a condition holds."""

    def __init__(
        self,
        *,
        seed: int = 1,
        loss: float = 0.0,
        delay: float = 0.005,
        jitter: float = 0.0,
        settings: LinkSettings | None = None,
        server_consumes: bool = True,
        server_echoes: bool = False,
        server_settings: LinkSettings | None = None,
        resumption: Resumption | None = None,
        terms: AcceptTerms | None = None,
        alpn: str = ALPN,
        protocols: Mapping[str, LinkSettings] | None = None,
    ) -> None:
        self.now = 100.0
        self.loss = loss
        self.delay = delay
        self.jitter = jitter
        self.mangle: Callable[[bytes], list[bytes]] = lambda data: [data]
        self.client_address = CLIENT
        self._random = random.Random(seed)
        self._count = 0
        settings = settings or LinkSettings()
        self._protocols = protocols or {alpn: server_settings or settings}
        self._terms = terms
        self.client = End(
            client_link(alpn, settings, client_tls(), "127.0.0.1", SERVER, self.now, resumption),
            Probe(client=True),
        )
        self.server: End
        self._server_consumes = server_consumes
        self._server_echoes = server_echoes
        self._started = False

    def connect(self) -> None:
        self.run(
            lambda: self._started and bool(self.client.probe.ready and self.server.probe.ready)
        )

    def run(self, condition: Callable[[], bool], limit: float = 120.0) -> None:
        stop = self.now + limit
        self.pump()
        while not condition():
            due = [end.inbox[0][0] for end in self.ends if end.inbox]
            due += [end.link.timer for end in self.ends if end.link.timer is not None]
            assert due, "nothing will ever happen again"
            # At least a microsecond: a loss timer computed as a sum of floats can be due one
            # rounding error before the difference of the same floats says so.
            self.now = max(self.now + 1e-6, min(due))
            assert self.now < stop, "the condition did not come about in time"
            self.pump()

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        stop = self.now + seconds
        self.run(lambda: self.now >= stop or not self._due_before(stop), limit=seconds + 1)
        self.now = max(self.now, stop)

    @property
    def ends(self) -> list[End]:
        return [self.client, self.server] if self._started else [self.client]

    def pump(self) -> None:
        """One turn of each end, as the driver does it."""
        for end in self.ends:
            self._turn(end)

    def _due_before(self, stop: float) -> bool:
        times = [end.inbox[0][0] for end in self.ends if end.inbox]
        times += [end.link.timer for end in self.ends if end.link.timer is not None]
        return any(t < stop for t in times)

    def _turn(self, end: End) -> None:
        link, probe = end.link, end.probe
        burst = []
        peer = SERVER if end is self.client else self.client_address
        while end.inbox and end.inbox[0][0] <= self.now:
            burst.append((heapq.heappop(end.inbox)[2], peer))
        if burst:
            link.receive(burst, self.now)
        if link.timer is not None and self.now >= link.timer:
            link.fire(self.now)
        for _ in range(10):
            inputs = link.inputs()
            for input in inputs:
                probe.handle(input, self.now)
            link.apply(probe.actions(), self.now)
            if not inputs:
                break
        for data, _ in link.transmit(self.now):
            self._carry(end, data)
        for input in link.inputs():
            probe.handle(input, self.now)

    def _carry(self, sender: End, data: bytes) -> None:
        if not self._started:
            hello = STACK.hello(data)
            assert hello is not None
            self.server = End(
                server_link(self._protocols, server_tls().identity, hello, self._terms),
                Probe(client=False, consumes=self._server_consumes, echoes=self._server_echoes),
            )
            self._started = True
        if self._random.random() < self.loss:
            return
        at = self.now + self.delay + self._random.random() * self.jitter
        other = self.server if sender is self.client else self.client
        for piece in self.mangle(data):
            self._count += 1
            heapq.heappush(other.inbox, (at, self._count, piece))


def stock_client(settings: LinkSettings) -> tuple[QuicConnection, AioquicLink, list[bytes]]:
    """A client end that is the library's own, a server end of ours, and the client's first
    datagrams."""
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=[ALPN], cadata=server_tls().cert_pem
    )
    configuration.server_name = "localhost"
    peer = QuicConnection(configuration=configuration)
    peer.connect(SERVER, now=1.0)
    out = [data for data, _ in peer.datagrams_to_send(1.0)]
    hello = STACK.hello(out[0])
    assert hello is not None
    return peer, server_link({ALPN: settings}, server_tls().identity, hello), out

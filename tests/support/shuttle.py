"""Two engines joined without delay, loss or order of their own: for cost and for counting state."""

from __future__ import annotations

from aqueduct_core.aqueduct.chanid import Side
from aqueduct_core.aqueduct.connection import Config, Connection
from aqueduct_core.aqueduct.news import News
from aqueduct_core.engine.contract import (
    Admit,
    Consumed,
    Datagram,
    LinkReady,
    ResetStream,
    SendDatagram,
    StreamBytes,
    StreamReset,
    WriteStream,
)
from tests.support.turns import proceed


class Shuttle:
    """``turn`` carries everything over and gives the news of both sides."""

    def __init__(self, client: Config | None = None, server: Config | None = None) -> None:
        self.now = 0.0
        self.client = Connection(Side.CLIENT, (), client or Config())
        self.server = Connection(Side.SERVER, (), server or Config(auto_accept=True))
        for engine in (self.client, self.server):
            engine.absorb(LinkReady(1150), self.now)
        self.turn()

    def turn(self) -> tuple[list[News], list[News]]:
        """Carry orders over until neither side has any; the news of client and server."""
        busy = True
        while busy:
            busy = self._carry(self.client, self.server)
            busy = self._carry(self.server, self.client) or busy
        return self.client.news(), self.server.news()

    def _carry(self, engine: Connection, peer: Connection) -> bool:
        orders = engine.orders()
        for order in orders:
            if isinstance(order, WriteStream):
                peer.absorb(StreamBytes(*order), self.now)
            elif isinstance(order, SendDatagram):
                peer.absorb(Datagram(order.data), self.now)
            elif isinstance(order, ResetStream):
                peer.absorb(StreamReset(*order), self.now)
            else:
                assert isinstance(order, (Admit, Consumed)), order
        proceed(peer, self.now)
        return bool(orders)

    def wait(self, seconds: float) -> None:
        """Let time pass, and fire what is due on the way."""
        until = self.now + seconds
        self.turn()
        while True:
            wakes = [e.wake_at for e in (self.client, self.server) if e.wake_at is not None]
            if not wakes or min(wakes) > until:
                break
            self.now = max(self.now, min(wakes))
            for engine in (self.client, self.server):
                engine.tick(self.now)
            self.turn()
        self.now = until

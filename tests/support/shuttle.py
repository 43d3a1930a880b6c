"""Two engines joined without delay, loss or order of their own: for cost and for counting state."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import AqueductEngine, Config
from aqueduct_core.aqueduct.events import Event
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import Admit, Consumed, ResetStream, SendDatagram, WriteStream
from aqueduct_core.engine.inputs import Datagram, LinkReady, StreamBytes, StreamReset
from tests.support.turns import proceed


class Shuttle:
    """``turn`` carries everything over and gives the events of both sides."""

    def __init__(self, client: Config | None = None, server: Config | None = None) -> None:
        self.now = 0.0
        self.client = AqueductEngine(Side.CLIENT, (), client or Config())
        self.server = AqueductEngine(Side.SERVER, (), server or Config(auto_accept=True))
        for engine in (self.client, self.server):
            engine.handle(LinkReady(1150), self.now)
        self.turn()

    def turn(self) -> tuple[list[Event], list[Event]]:
        """Carry actions over until neither side has any; the events of client and server."""
        busy = True
        while busy:
            busy = self._carry(self.client, self.server)
            busy = self._carry(self.server, self.client) or busy
        return self.client.events(), self.server.events()

    def _carry(self, engine: AqueductEngine, peer: AqueductEngine) -> bool:
        actions = engine.actions()
        for action in actions:
            if isinstance(action, WriteStream):
                peer.handle(StreamBytes(action.stream_id, action.data, action.end), self.now)
            elif isinstance(action, SendDatagram):
                peer.handle(Datagram(action.data), self.now)
            elif isinstance(action, ResetStream):
                peer.handle(StreamReset(*action), self.now)
            else:
                assert isinstance(action, (Admit, Consumed)), action
        proceed(peer, self.now)
        return bool(actions)

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

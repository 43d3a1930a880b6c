"""A link in memory whose client writes before the handshake is complete (0-RTT)."""

from __future__ import annotations

from typing import Any

from aqueduct_core.engine.actions import Action, CloseLink, ResetStream, SendDatagram, WriteStream
from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramOutcome,
    EarlyReady,
    EarlyRejected,
    Input,
    LinkReady,
)
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink


class EarlyMemoryLink(MemoryLink):
    """A ``MemoryLink`` with the times of a QUIC handshake.

    The client is ready after one round trip, the server after one and a half, and it sees nothing
    before that (AQ-0RTT-3).

    Args:
        accepts: the server takes early data; else the link repeats streams, and loses datagrams.
        Others: see ``MemoryLink``.

    ``early_actions`` is what the client had carried out before it was ready.
    """

    def __init__(
        self, client: Engine[Any], server: Engine[Any], *, accepts: bool, **options: Any
    ) -> None:
        super().__init__(client, server, **options)
        self.early_actions: list[Action] = []
        self._accepts = accepts
        self._client_ready_at = self.now + 2 * self.delay
        self._server_ready_at = self.now + 3 * self.delay
        size = self.max_datagram_size
        self.client.at_once = [EarlyReady(size)]
        self.server.at_once = []
        ready = LinkReady(size, self.datagram_outcomes, self.stream_progress)
        if not accepts:
            self._post(self.client, EarlyRejected(0), self._client_ready_at)
        self._post(self.client, ready, self._client_ready_at)
        self._post(self.server, ready, self._server_ready_at)

    def _carry(self, end: MemoryEnd, action: Action) -> None:
        early = end is self.client and self.now < self._client_ready_at
        if early and not isinstance(action, CloseLink):
            self.early_actions.append(action)
            if not self._accepts:
                if isinstance(action, SendDatagram):
                    self._lose_datagram(end, action.token)
                    end.at_once += (
                        [DatagramOutcome(action.token, DatagramFate.LEFT)]
                        if end.path is not None
                        else []
                    )
                return
        super()._carry(end, action)

    def _arrived(self, end: MemoryEnd, input: Input) -> None:
        if isinstance(input, EarlyRejected):
            for action in self.early_actions:
                if isinstance(action, WriteStream | ResetStream):
                    super()._carry(end, action)
        super()._arrived(end, input)

    def _post(self, end: MemoryEnd, input: Input, at: float) -> None:
        if end is self.server:
            at = max(at, self._server_ready_at)
        super()._post(end, input, at)

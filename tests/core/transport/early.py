"""A first connection that leaves a session, and a second one that writes before its handshake."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkRoom,
    StreamBytes,
    StreamReset,
)
from aqueduct_core.transport.link import AcceptTerms, Resumption
from aqueduct_core.transport.sessions import SessionTable, TlsSession
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import Wire


def early_terms(**other: object) -> AcceptTerms:
    return AcceptTerms(sessions=SessionTable(16), early_data=True, **other)  # type: ignore[arg-type]


def session_of(
    terms: AcceptTerms, settings: LinkSettings | None = None, **options: object
) -> TlsSession:
    """What a whole connection on these terms leaves behind."""
    kept: list[TlsSession] = []
    wire = Wire(
        settings=settings,
        terms=terms,
        resumption=Resumption(keep_session=kept.append),
        **options,  # type: ignore[arg-type]
    )
    wire.connect()
    wire.rest(1.0)
    wire.client.probe.close(0, "")
    wire.rest(1.0)
    (session,) = kept
    return session


@dataclass
class Second:
    """The second connection, and the inputs of both of its ends as they came."""

    wire: Wire
    client_inputs: list[Input] = field(default_factory=list)
    """What the client learns, but for what waits in the link."""
    server_inputs: list[Input] = field(default_factory=list)
    sent: dict[int, bytes] = field(default_factory=dict)

    def client_input(self, input: Input) -> None:
        left = isinstance(input, DatagramOutcome) and input.outcome is DatagramFate.LEFT
        if not left and not isinstance(input, LinkRoom):
            self.client_inputs.append(input)

    def write(self, data: bytes, *, end: bool = True) -> int:
        probe = self.wire.client.probe
        stream = probe.open()
        probe.write(stream, data, end)
        self.sent[stream] = data
        return stream

    def run_until_all_is_there(self) -> None:
        """Every stream arrives whole and once."""
        self.wire.run(lambda: set(self.sent) <= self._server_ended())
        server = self.wire.server.probe
        for stream, data in self.sent.items():
            assert server.streams[stream] == len(data), stream
            assert server.digests[stream].digest() == hashlib.sha256(data).digest(), stream
        assert set(server.streams) == set(self.sent)

    def _server_ended(self) -> set[int]:
        return self.wire.server.probe.ended if len(self.wire.ends) == 2 else set()


def second(
    session: TlsSession,
    terms: AcceptTerms | None,
    *,
    token: bytes = b"",
    **options: object,
) -> Second:
    wire = Wire(
        resumption=Resumption(session, early=True, token=token),
        terms=terms,
        **options,  # type: ignore[arg-type]
    )
    it = Second(wire)
    wire.client.probe.on_input = it.client_input
    return it


def watch_server(it: Second) -> None:
    """Call after the first flight left: the server's end is there then."""
    it.wire.server.probe.on_input = it.server_inputs.append


def carried(inputs: list[Input]) -> list[Input]:
    return [f for f in inputs if isinstance(f, StreamBytes | StreamReset | Datagram)]

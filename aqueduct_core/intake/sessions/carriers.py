"""What the connections of an intake come over: QUIC (`sessions.quic`), or plain UDP
(`sessions.plain`). Frontends know no other side of it than this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from aqueduct_core.engine.engine import Engine, StorageEngine
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.datagram_server import DatagramServer
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.settings import ListenLimits

BeginSession: TypeAlias = Callable[[Address, float], tuple[StorageEngine[Any], OnEvents]]
"""Called for each connection that is ready, with its peer and the time of the engine."""


class ListenCarrier(Protocol):
    """How connections come to a listener. Made before the spool is opened."""

    @property
    def fingerprint(self) -> str | None:
        """Of the certificate that peers are shown; None where none is."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What those who run the intake should know of it, wherever it listens."""

    async def listen(
        self, where: HostPort, begin: BeginSession, *, limits: ListenLimits, spool_id: str
    ) -> DatagramServer:
        """Raises: an error of the address."""

    def look(self) -> None:
        """Look whether what it goes by has changed, such as its files. About once a second."""


class DialEndpoint(Protocol):
    """One attempt to reach an endpoint: a driver that is ready, or an error that says why not.

    ``on_server`` is called before ``make_engine``, with the SHA-256 of the certificate that the
    endpoint has shown, where it has.
    """

    async def __call__(
        self,
        *,
        make_engine: Callable[[float], Engine[Any]],
        on_events: OnEvents,
        on_server: Callable[[str | None], None],
    ) -> Driver: ...


class DialCarrier(Protocol):
    """How endpoints are reached."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """As of `ListenCarrier`."""

    def to(self, where: HostPort) -> DialEndpoint:
        """How one of them is dialled; called when the spool is open."""

"""What a protocol is to an intake that dials: what it wants of an endpoint, its side of a
connection there, and what the end of one means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from aqueduct_core.engine.close_codes import ConnectionEnd
from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.subscription_status import Failure
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.session import Session


class Requests(Protocol):
    """What is asked for at one endpoint, over all connections to it: for the status
    (`SubscriptionStatus` says what each of the numbers counts)."""

    @property
    def requested(self) -> int: ...

    @property
    def open(self) -> int: ...

    @property
    def finished(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def failed(self) -> Sequence[Failure]:
        """The newest failures."""

    @property
    def finished_requests(self) -> Mapping[str, str]:
        """Those that have finished, by name, each with a digest of its request; it only grows."""

    @property
    def settled(self) -> bool:
        """Nothing will be asked for any more, and nothing is open: no connection is wanted."""


class ConnectionEvents(Protocol):
    """What a dialled session reports to the one who dialled."""

    @property
    def shown(self) -> str | None:
        """The SHA-256 of the certificate that the endpoint has shown, where it has."""

    def opened(self) -> None:
        """The remote has accepted the connection."""

    def changed(self) -> None:
        """Something came, or ended: there may be nothing to do here any more."""

    def closed(self, end: ConnectionEnd) -> None:
        """The connection is over. Once."""


class DialledClient(Protocol):
    """How one connection stands."""

    @property
    def idle(self) -> bool:
        """Nothing is open, and nothing can be asked for on this connection any more."""

    @property
    def progress(self) -> bool:
        """Messages came: the next attempt need not wait for long."""

    def leave(self) -> None:
        """Say that no more requests come. The connection is closed when ``left`` holds."""

    @property
    def left(self) -> bool:
        """The remote has taken that, or there is nothing to take."""


class Dialled(NamedTuple):
    """One connection that was dialled."""

    engine: StorageEngine[Any]
    session: Session[Any]
    client: DialledClient


DialSession: TypeAlias = Callable[[SessionContext, ConnectionEvents, float], Dialled]
"""Called when a handshake is complete, with what all sessions share, whom to report to, and the
time of the engine."""


class Remote(Protocol):
    """One endpoint."""

    @property
    def requests(self) -> Requests: ...

    def prepare(self, token: str | None) -> DialSession:
        """For one attempt, with the bearer token, if there is one. Raises: AuthFailed."""

    def why(self, end: ConnectionEnd, *, accepted: bool) -> AqueductError:
        """The end of a connection as an error, by whose class it is known whether another attempt
        will cure it (`endpoint_connection.REFUSALS`).

        Args:
            accepted: `ConnectionEvents.opened` was called before.
        """


MakeRemote: TypeAlias = Callable[[str, Mapping[str, str | None]], Remote]
"""Called once for each endpoint, with its ``host:port`` and what has finished there in an earlier
life of the intake: by name, with the digest of the request, where one is known."""

"""The side of an intake that faces the protocol: it listens for producers, or dials endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.flight.subscription_status import SubscriptionStatus
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.session import Session


class Accepted(NamedTuple):
    """One connection of a listener."""

    engine: StorageEngine[Any]
    session: Session[Any]


AcceptSession: TypeAlias = Callable[[str, SessionContext, float], Accepted]
"""Called with the peer's ``host:port``, what all sessions share, and the time of the engine."""


class Frontend(Protocol):
    """Begins connections and hands their sessions on.

    Made before the spool is opened, so that a wrong certificate or token file costs nothing.
    Life: `open`, then `refuse` when the intake begins to end, then `close`.
    """

    @property
    def address(self) -> str:
        """``host:port`` where producers come, as bound; "" where none come."""

    @property
    def fingerprint(self) -> str | None:
        """Of the certificate that producers are shown."""

    @property
    def subscriptions(self) -> SubscriptionStatus | None:
        """What was asked for and what became of it; None where nothing is asked for."""

    @property
    def counters(self) -> Mapping[str, int]:
        """Totals of what never came to be a session, for the status."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What those who run the intake should know of its settings, once it is open; for log and
        status."""

    @property
    def complete(self) -> bool:
        """Everything that was asked for has come to its end in good order, and no connection is
        left: no message and no event will come any more."""

    async def open(self, context: SessionContext, joined: Callable[[Session[Any]], None]) -> None:
        """Begin; ``joined`` is called with each session. Raises: an error of the address."""

    def refuse(self) -> None:
        """Begin no connection any more; those that are there stay."""

    async def close(self, code: int, reason: str) -> None:
        """End all connections and free the sockets."""

"""What a transfer needs of its connection."""

from __future__ import annotations

from typing import Protocol

from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.transport.driver import Driver


class TransferConnection(Protocol):
    """A connection of a client, as its transfers see it."""

    where: HostPort
    engine: QuicrEngine
    driver: Driver

    def forget(self, stream: int) -> None:
        """A transfer is over: it hears nothing more."""

    def kick(self) -> None:
        """Have what commands brought about carried out."""

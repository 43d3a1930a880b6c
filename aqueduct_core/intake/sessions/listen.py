"""The frontend of an intake that producers dial."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.intake.sessions.authentication import Authentication
from aqueduct_core.intake.sessions.carriers import ListenCarrier
from aqueduct_core.intake.sessions.context import MODERATION, SessionContext
from aqueduct_core.intake.sessions.frontend import AcceptSession
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.host_port import HostPort, is_loopback
from aqueduct_core.transport.datagram_server import DatagramServer
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.settings import LEAST_WINDOW, ListenLimits

SHARED_WINDOW = 128 << 20
"""Bytes. While the spool is full each producer may fill its window, and all of that is in memory:
8 producers have the full window each, 500 have about 650 MB in all, and those above
``limits.memory`` are held back. Never more than a part of that limit."""

WINDOW_PART = 4
"""One in so many bytes of ``limits.memory`` are shared out as windows."""

OUTGOING = 32 << 20
"""Bytes that may wait for one producer: acks, receipts and answers, with the streams of 65,536
channels that were attached at once in part. An intake sends nothing else."""

LOOK_SECONDS = 1.0
"""Between two looks of a carrier at its files: a certificate is renewed days before it expires."""


class ListenFrontend:
    """A `Frontend` that listens on a carrier. Certificate files that are replaced are shown to
    those who come from then on. Raises where it is made: InvalidOption (token file); where it is
    opened: ConnectFailed (the address)."""

    subscriptions = None
    complete = False

    def __init__(
        self,
        settings: IntakeSettings,
        where: str,
        *,
        carrier: ListenCarrier,
        has_tokens: bool,
        accepts: Callable[[Callable[[str | None], str | None]], AcceptSession],
    ) -> None:
        self._settings = settings
        self._where = where
        self._carrier = carrier
        self._looking: asyncio.TimerHandle | None = None
        self._has_tokens = has_tokens
        self._accept = accepts(Authentication(settings.auth).refusal)
        self._listener: DatagramServer
        self._context: SessionContext
        self._joined: Callable[[Session[Any]], None]

    @property
    def address(self) -> str:
        return str(HostPort(*self._listener.address))

    @property
    def fingerprint(self) -> str | None:
        return self._carrier.fingerprint

    @property
    def counters(self) -> Mapping[str, int]:
        """``connections_refused``: the first packets that found a limit reached (a client repeats
        them); ``garbage_packets``: those that belong to no connection and open none; and
        ``stateless_resets``: how many of these were answered so, as they may be of connections
        that were here before a restart. ``datagrams_dropped``: what came while the kernel's buffer
        was full, or beyond what there is time for (QUIC sends it again). ``connections_evicted``:
        those that were closed for want of memory; ``connections_held_back``: how often one was
        given no credit for it; and ``connections_memory``: the bytes that they take now, of
        ``limits.memory``."""
        counts, memory = self._listener.counts, self._listener.memory_counts
        return {
            "connections_refused": counts.refused,
            "garbage_packets": counts.garbage + counts.unknown_version,
            "stateless_resets": counts.resets,
            "datagrams_dropped": self._listener.dropped,
            "connections_evicted": memory.evicted,
            "connections_held_back": memory.held_back,
            "connections_memory": self._listener.memory,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        if self._settings.auth.required or is_loopback(self._listener.address[0]):
            return self._carrier.warnings
        token = "demands no token (auth.tokenFile)"
        if not self._has_tokens:
            token = "its protocol has no tokens: let only those reach the port who may"
        return (
            f"everybody who reaches {self.address} may store messages here: the listener is not "
            f"on loopback and {token}",
            *self._carrier.warnings,
        )

    async def open(self, context: SessionContext, joined: Callable[[Session[Any]], None]) -> None:
        self._context = context
        self._joined = joined
        self._listener = await self._carrier.listen(
            HostPort.parse(self._where),
            self._begin,
            limits=listen_limits(self._settings),
            spool_id=context.spool_id,
        )
        self._look_later()

    def refuse(self) -> None:
        self._listener.refuse()

    async def close(self, code: int, reason: str) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self._listener.close(code, reason)

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._carrier.look()
        self._look_later()

    def _begin(self, peer: Address, now: float) -> tuple[StorageEngine[Any], OnEvents]:
        engine, session = self._accept(str(HostPort(*peer[:2])), self._context, now)
        self._joined(session)
        return engine, session.on_events


def listen_limits(settings: IntakeSettings) -> ListenLimits:
    limits = settings.limits
    part = limits.memory // WINDOW_PART
    return ListenLimits(
        connections=limits.connections,
        connections_per_address=limits.connections_per_address,
        handshakes=limits.handshakes,
        handshakes_per_network=limits.handshakes_per_network,
        retry=limits.retry,
        memory=limits.memory,
        connection_share=limits.connection_share,
        shared_window=max(LEAST_WINDOW, min(SHARED_WINDOW, part)),
        outgoing=max(LEAST_WINDOW, min(OUTGOING, part)),
        early_data=settings.early_data,
        moderation=MODERATION,
    )

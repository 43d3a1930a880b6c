"""Plain UDP as the carrier of an intake: no certificate, no encryption; this machine alone, unless
the network is said to be trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqueduct_core.engine.engine import Engine
from aqueduct_core.intake.sessions.carriers import BeginSession, DialEndpoint
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.plain_udp.endpoints import PlainListener, dial, listen
from aqueduct_core.transport.plain_udp.link import PlainSettings
from aqueduct_core.transport.plain_udp.reach import reach_warning
from aqueduct_core.transport.settings import ListenLimits


class PlainListen:
    """A `ListenCarrier`. Where it is opened: InvalidOption for an address that is not loopback,
    unless its network is trusted."""

    fingerprint = None

    def __init__(self, settings: PlainSettings) -> None:
        self._settings = settings
        self._listener: PlainListener | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        warning = None if self._listener is None else self._listener.warning
        return () if warning is None else (warning,)

    async def listen(
        self, where: HostPort, begin: BeginSession, *, limits: ListenLimits, spool_id: str
    ) -> PlainListener:
        self._listener = await listen(
            where.host, where.port, make_engine=begin, settings=self._settings, limits=limits
        )
        return self._listener

    def look(self) -> None:
        """It goes by nothing that could change."""


class PlainDial:
    """A `DialCarrier`; an attempt refuses an address as `PlainListen` does."""

    def __init__(self, settings: PlainSettings, connect: ConnectSettings) -> None:
        self._settings = settings
        places = [HostPort.parse(each) for each in connect.endpoints]
        found = [reach_warning(place) for place in places if not place.loopback]
        self.warnings = tuple(warning for warning in found if warning is not None)

    def to(self, where: HostPort) -> DialEndpoint:
        async def attempt(
            *,
            make_engine: Callable[[float], Engine[Any]],
            on_events: OnEvents,
            on_server: Callable[[str | None], None],
        ) -> Driver:
            on_server(None)
            return await dial(
                *where, make_engine=make_engine, on_events=on_events, settings=self._settings
            )

        return attempt

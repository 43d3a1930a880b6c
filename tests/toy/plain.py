"""Packets without QUIC: each is a number and a payload; the answer is how many are stored.

A protocol with a carrier of its own: what `Adapter.frontend` is for. Who sends sends again what was
not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aqueduct_core.engine.actions import Action, Admit, CloseLink, SendDatagram
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import Datagram, Input, LinkLost
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.frontend import Frontend
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.cursor import Cursor
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.endpoints import PlainListener, listen
from tests.toy.adapter import ToyAdapter, ToySession
from tests.toy.engine import TopicOpened, ToyEvent

CHANNEL = 0


class Packets:
    """A `StorageEngine` that takes packets in order; the others are left to come again."""

    def __init__(self) -> None:
        self.closed: LinkLost | None = None
        self.wake_at: float | None = None
        self.footprint = Footprint(0)
        self._actions: list[Action] = [Admit()]
        self._events: list[ToyEvent] = [TopicOpened(CHANNEL, "packets")]
        self._next = self._stored = self._tokens = 0
        self._paused = False

    def handle(self, input: Input, now: float) -> None:
        match input:
            case LinkLost():
                self.closed = input
                self._events.append(input)
            case Datagram(data) if not self._paused:
                cursor = Cursor(data)
                if cursor.varint() == self._next:
                    self._give(data[cursor.pos :])
                self._answer()

    def tick(self, now: float) -> None:
        """Nothing here has a deadline."""

    def actions(self) -> list[Action]:
        taken, self._actions = self._actions, []
        return taken

    def events(self) -> list[ToyEvent]:
        taken, self._events = self._events, []
        return taken

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        self._stored = stop
        self._answer()

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """There are no datagram messages."""

    def consumed(self, channel: int, size: int, now: float) -> None:
        """There is no credit."""

    def confirm(self, channel: int, now: float) -> None:
        """There is no end."""

    def pause(self) -> None:
        self._paused = True

    def resume(self, now: float) -> None:
        self._paused = False

    def shutdown(self, code: int, reason: str, now: float) -> None:
        self._actions.append(CloseLink(code, reason))
        self.handle(LinkLost(code, reason, by_peer=False), now)

    def _give(self, payload: bytes) -> None:
        ends = np.array([0, len(payload)], np.int64)
        batch = MessageBatch(CHANNEL, True, self._next, 1, payload, ends, len(payload))
        self._events.append(batch)
        self._next += 1

    def _answer(self) -> None:
        self._tokens += 1
        self._actions.append(SendDatagram(varint.encode(self._stored), self._tokens))


class PlainFrontend(Frontend):
    fingerprint = None
    subscriptions = None
    counters: Mapping[str, int] = {}
    warnings = ("everybody on the path reads along, and may store messages",)
    complete = False

    def __init__(self, where: str) -> None:
        self._where = HostPort.parse(where)
        self._listener: PlainListener
        self._context: SessionContext
        self._joined: Callable[[Session[Any]], None]

    @property
    def address(self) -> str:
        return str(HostPort(*self._listener.address))

    async def open(self, context: SessionContext, joined: Callable[[Session[Any]], None]) -> None:
        self._context, self._joined = context, joined
        self._listener = await listen(*self._where, make_engine=self._begin)

    def refuse(self) -> None:
        self._listener.refuse()

    async def close(self, code: int, reason: str) -> None:
        await self._listener.close(code, reason)

    def _begin(self, peer: Address, now: float) -> tuple[Packets, OnEvents]:
        engine = Packets()
        session = ToySession(str(HostPort(*peer[:2])), engine, self._context)  # type: ignore[arg-type]
        self._joined(session)
        return engine, session.on_events


class PlainAdapter(ToyAdapter):
    name = "plain toy"

    def frontend(self, settings: IntakeSettings) -> Frontend:
        assert settings.listen is not None
        return PlainFrontend(settings.listen)


ADAPTER = PlainAdapter()

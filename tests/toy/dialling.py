"""A toy that dials: who is dialled opens a topic, and sends its messages to who came for them."""

from __future__ import annotations

from aqueduct_core.engine.close_codes import ConnectionEnd, how_lost
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.engine.streams import first_stream
from aqueduct_core.errors import AqueductError, ConnectFailed
from aqueduct_core.flight.subscription_status import Failure
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import (
    ConnectionEvents,
    Dialled,
    DialSession,
    MakeRemote,
)
from aqueduct_core.intake.settings.intake import IntakeSettings
from tests.toy.adapter import ToyAdapter, ToySession
from tests.toy.engine import TopicOpened, Toy, ToyEvent

BUSY = 2
"""Code of a close: come again."""


class ToySource(Toy):
    """Who is dialled: sends as a client does, on streams of a server."""

    def __init__(self) -> None:
        super().__init__(client=True)
        self._next = first_stream(client=False, bidirectional=True)


class OneTopic:
    """What is wanted of an endpoint: one topic, to its end."""

    requested = 1
    failures = 0
    failed: tuple[Failure, ...] = ()

    def __init__(self, finished: dict[str, str]) -> None:
        self.finished_requests = finished
        self.open = 0

    @property
    def finished(self) -> int:
        return len(self.finished_requests)

    @property
    def settled(self) -> bool:
        return bool(self.finished)


class ReadingSession(ToySession):
    """Its own client: there is nothing to ask for, and nothing to take leave of."""

    progress = False
    left = True

    def __init__(
        self,
        peer: str,
        engine: Toy,
        context: SessionContext,
        requests: OneTopic,
        report: ConnectionEvents,
    ) -> None:
        super().__init__(peer, engine, context)
        self._requests = requests
        self._report = report

    @property
    def idle(self) -> bool:
        return self._requests.settled

    def leave(self) -> None:
        pass

    def handle(self, events: list[ToyEvent]) -> None:
        super().handle(events)
        for event in events:
            match event:
                case TopicOpened():
                    self._requests.open = 1
                    self._report.opened()
                case LinkLost():
                    self._requests.open = 0
                    self._report.closed(event)

    def recorded(self, channels: list[int]) -> None:
        super().recorded(channels)
        self._requests.open = 0
        self._requests.finished_requests["topic"] = ""
        self._report.changed()


class ToyRemote:
    def __init__(self, where: str, finished: dict[str, str]) -> None:
        self.requests = OneTopic(finished)
        self._where = where

    def prepare(self, token: str | None) -> DialSession:
        def begin(context: SessionContext, events: ConnectionEvents, now: float) -> Dialled:
            engine = Toy(client=False)
            session = ReadingSession(self._where, engine, context, self.requests, events)
            return Dialled(engine, session, session)

        return begin

    def why(self, end: ConnectionEnd, *, accepted: bool) -> AqueductError:
        reason = end.reason if end.code == BUSY else how_lost(end)
        return ConnectFailed("NO_REPLY", f"{self._where} ended: {reason}", "It is dialled again")


class DiallingToy(ToyAdapter):
    def dials(self, settings: IntakeSettings) -> MakeRemote:
        return lambda where, finished: ToyRemote(where, dict.fromkeys(finished, ""))


ADAPTER = DiallingToy()

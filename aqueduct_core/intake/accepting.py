"""The role of the server: producers dial us, and their entrypoint flows to us."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.aqueduct.connection import Connection
from aqueduct_core.aqueduct.conventions import (
    BY_SEQUENCE,
    BY_SOURCE,
    DEDUPLICATES,
    POSITIONS,
    TELLS,
    BadHeader,
    read_connection,
)
from aqueduct_core.aqueduct.news import Closed, Ended, Headers, News
from aqueduct_core.dedupe.questions import question_header
from aqueduct_core.intake.session import Channel, Session

SERVER_HEADERS: Headers = (
    (DEDUPLICATES, BY_SEQUENCE),
    (DEDUPLICATES, BY_SOURCE),
    (TELLS, POSITIONS),
    question_header(),
)
"""A sink whose rows are numbered, or name their source, need not say who it is with each row, and
may ask what is stored of them; a producer may ask where its channels stand. Nothing else of the
intake is the producer's business."""

ENTRYPOINT_NAME = "0"


class Accepting:
    """Admits a connection whose token is right (``refusal`` says why another one is not)."""

    def __init__(
        self,
        engine: Connection,
        refusal: Callable[[str | None], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._refusal = refusal
        self._clock = clock

    def opened(self, session: Session, headers: Headers) -> None:
        try:
            claims = read_connection(headers)
            refusal = self._refusal(claims.token)
        except BadHeader as error:
            refusal = str(error)
        if refusal is not None:
            session.refuse(refusal)
            return
        self._engine.accept(SERVER_HEADERS, self._clock())
        session.admit(headers, claims.producer, claims.run)
        session.read(Connection.ENTRYPOINT, ENTRYPOINT_NAME, claims.sequence_start)

    def received(self, channel: Channel) -> None:
        pass

    def told(self, news: News) -> None:
        pass

    def recorded(self, channels: list[int]) -> None:
        pass

    def attached(self, channel: Channel) -> None:
        pass

    def unread(self, parent: Channel, path: str, reason: str) -> None:
        pass

    def ended(self, ended: Ended, channel: Channel | None) -> None:
        pass

    def closed(self, session: Session, closed: Closed) -> None:
        pass

"""The role of the server: producers dial us, and their entrypoint flows to us."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.aqueduct.conventions.dedupe.questions import question_header
from aqueduct_core.aqueduct.conventions.headers import (
    BY_SEQUENCE,
    BY_SOURCE,
    DEDUPLICATES,
    POSITIONS,
    TELLS,
    BadHeader,
    read_connection,
)
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.intake.aqueduct.session import AqueductSession, Role

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


class ServerRole(Role):
    """Admits a connection whose token is right (``refusal`` says why another one is not)."""

    def __init__(
        self,
        engine: AqueductEngine,
        refusal: Callable[[str | None], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._refusal = refusal
        self._clock = clock

    def opened(self, session: AqueductSession, headers: Headers) -> None:
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
        session.read(AqueductEngine.ENTRYPOINT, ENTRYPOINT_NAME, claims.sequence_start)

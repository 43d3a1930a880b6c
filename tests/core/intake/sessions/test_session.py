"""What a protocol's session fails on ends its own connection, and nothing of it stays."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.logs.refusals import RefusalLog
from tests.toy.engine import Toy


class FaultySession(Session[Toy]):
    channels = 1

    def handle(self, events: list[Any]) -> None:
        raise KeyError("the session")

    def is_open(self, channel: int) -> bool:
        return True

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None: ...


class Failing:
    """A driver, as far as a session knows it."""

    held: object = None

    def __init__(self) -> None:
        self.failures: list[str] = []

    def fail(self, what: str) -> None:
        self.failures.append(what)


def session(over: list[object]) -> tuple[FaultySession, Toy]:
    nothing: Any = None
    context = SessionContext(
        groups=nothing,
        clock=lambda: 0.0,
        wall_microseconds=lambda: 0,
        ended=over.append,
        owners=nothing,
        refusals=RefusalLog(logging.getLogger(__name__), lambda seconds, call: None),
    )
    engine = Toy(client=False)
    return FaultySession("127.0.0.1:1", engine, context), engine


def test_one_that_fails_at_its_end_is_over_all_the_same() -> None:
    over: list[object] = []
    made, engine = session(over)
    driver: Any = Failing()
    with pytest.raises(KeyError):
        made.on_events(driver, [])
    assert over == []
    engine.handle(LinkLost(10, "internal error", by_peer=False), 0.0)
    with pytest.raises(KeyError):
        made.on_events(driver, engine.events())
    assert over == [made]


def test_one_that_fails_on_what_was_stored_has_its_connection_closed() -> None:
    made, _ = session([])
    made.failed()  # nothing was heard of it yet
    driver: Any = Failing()
    with pytest.raises(KeyError):
        made.on_events(driver, [])
    made.failed()
    assert len(driver.failures) == 1

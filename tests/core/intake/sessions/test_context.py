"""How the ends of connections are counted and logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aqueduct_core.intake.sessions.context import Fault, SessionContext
from aqueduct_core.logs.refusals import RefusalLog

log = logging.getLogger(__name__)


@pytest.fixture
def context() -> SessionContext:
    nothing: Any = None
    return SessionContext(
        groups=nothing,
        clock=lambda: 0.0,
        wall_microseconds=lambda: 0,
        ended=lambda _: None,
        owners=nothing,
        refusals=RefusalLog(log, lambda seconds, call: None),
    )


def test_what_a_peer_did_is_counted_by_its_kind(context: SessionContext) -> None:
    for fault in (Fault.OVER_LIMITS, Fault.VIOLATION, Fault.VIOLATION, None):
        context.note_end("a session", "closed", admitted=True, fault=fault)
    assert (context.counters.over_limits, context.counters.violations) == (1, 2)


def test_only_what_was_admitted_has_a_line_for_each_end(
    context: SessionContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for end in range(20):
        context.note_end("a stranger", f"closed\n{end}", admitted=False)
    strangers = len(caplog.records)
    assert strangers < 20
    for end in range(20):
        context.note_end("a session", f"closed\n{end}", admitted=True)
    assert len(caplog.records) == strangers + 20
    assert not any("\n" in record.getMessage() for record in caplog.records)

"""Waiting for queries: until they have everything, and for what they say of an intake."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import IntakeStatus
from tests.faults.ledger import Entry, reconcile
from tests.support.waiting import LONG, wait_until

PATIENCE = LONG
"""Seconds for anything that is bound to happen in Spark, on a machine with much else to do."""


def drained(query: Any, table: Callable[[], pa.Table], entries: Sequence[Entry]) -> pa.Table:
    """The table once everything is there that these producers call acked; the query must run."""

    def complete() -> bool:
        assert query is None or query.exception() is None, query.exception()
        verdicts = reconcile(table(), entries)
        return not any(verdict.lost_after_ack for verdict in verdicts)

    wait_until(complete, PATIENCE, "rows of all that was acked")
    return table()


def intake_says(spool: Path, index: int = 0) -> IntakeStatus:
    """The status of the intake that runs, or ran last, in a spool directory."""
    address = json.loads((spool / f"intake-{index}" / "status.json").read_text())["flight"]
    with IntakeClient(address, Credentials.for_spool(spool).for_clients()) as client:
        return client.status()


def committed(spool: Path, cursor: str = "query") -> tuple[int, ...]:
    """How far a cursor is committed at the intake; its starts when it never was."""
    status = intake_says(spool)
    return status.committed.get(cursor, status.starts)

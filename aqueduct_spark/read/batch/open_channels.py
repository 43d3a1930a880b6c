"""Which channels have not come to an end, as the log of events tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.storage.event_rows import expand_events
from aqueduct_spark.read.gaps import stored_rows

if TYPE_CHECKING:
    from aqueduct_core.flight.client import IntakeClient
    from aqueduct_core.flight.status import IntakeStatus

ENDS = frozenset({"finished", "cancelled", "closed", "lost"})


def open_channels(client: IntakeClient, status: IntakeStatus, asked: Sequence[str]) -> list[str]:
    """Names of channels that were asked for or opened and have not ended, in that order.

    For an error that should name them: where the events cannot be read, those asked for.
    """
    finished: set[str] = set()
    opened: dict[tuple[str, int], str] = {}
    start, end = status.events
    try:
        for at, batch in stored_rows(client, Ticket(status.id, len(status.ends), start, end)):
            for event in expand_events(batch, at).to_pylist():
                key = (event["connectionId"], event["channelId"])
                if event["kind"] == "opened":
                    opened[key] = event["channel"]
                elif event["kind"] in ENDS:
                    opened.pop(key, None)
                    if event["kind"] == "finished":
                        finished.add(event["channel"])
    except AqueductError:
        return list(asked)
    waiting = [name for name in asked if name not in finished]
    return list(dict.fromkeys([*waiting, *(name for name in opened.values() if name)]))

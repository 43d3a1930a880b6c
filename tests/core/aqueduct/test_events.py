"""What an application learns beside messages."""

from __future__ import annotations

from aqueduct_core.aqueduct import events
from aqueduct_core.aqueduct.events import Event, Opened


def test_the_values_of_headers_are_in_no_log() -> None:
    assert repr(Opened(((b"authorization", b"Bearer x"),))) == "Opened(headers=[b'authorization'])"


def test_every_event_that_is_defined_is_one_that_may_come() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type)}
    defined = {kind for kind in kinds if kind.__module__ == events.__name__}
    assert defined - set(Event.__args__) == {events.End, events.Counts}

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from aqueduct_core.intake.storage.event_log import (
    MAX_REASON,
    EventCounts,
    LoggedEvent,
    to_event_batch,
)
from aqueduct_core.intake.storage.event_rows import EVENT_SCHEMA, expand_events
from aqueduct_core.intake.storage.schema import SPOOL_SCHEMA, newest_timestamp, oldest_timestamp

NOW = 1_800_000_000_000_000
COUNTS = EventCounts(7, 5, 10, 6, 4, 1, 2)
EVENTS = [
    LoggedEvent("connected", NOW, "s-1-1", "p"),
    LoggedEvent("opened", NOW + 1, "s-1-1", "p", "c", 8, 0, 3),
    LoggedEvent("finished", NOW + 2, "s-1-1", "p", "c", 8, 0, 3, counts=COUNTS),
    LoggedEvent("nacked", NOW + 2, "s-1-1", "p", "u", 16, first=5, last=9),
    LoggedEvent("rejected", NOW + 3, "s-1-2", reason="no token"),
]


def test_rows_come_back_as_users_see_them() -> None:
    batch = to_event_batch(EVENTS, 2)
    assert batch.schema.equals(SPOOL_SCHEMA)
    rows = expand_events(batch, 40)
    assert rows.schema.equals(EVENT_SCHEMA)
    found = rows.to_pylist()
    assert [row["kind"] for row in found] == [event.kind for event in EVENTS]
    assert [row["offset"] for row in found] == [40, 41, 42, 43, 44]
    assert {row["partition"] for row in found} == {2}
    assert [row["timestamp"].timestamp() * 1e6 for row in found] == [
        event.timestamp for event in EVENTS
    ]
    assert found[2]["counts"] == {
        "reliableSent": 7, "reliableStored": 5, "unreliableSent": 10,
        "acked": 6, "nacked": 4, "late": 1, "deduped": 2,
    }  # fmt: skip
    assert (found[2]["channel"], found[2]["channelId"], found[2]["producer"]) == ("c", 8, "p")
    assert (found[3]["first"], found[3]["last"]) == (5, 9)
    assert found[4] | {"timestamp": None} == dict.fromkeys(EVENT_SCHEMA.names) | {
        "kind": "rejected", "connectionId": "s-1-2", "reason": "no token",
        "partition": 2, "offset": 44,
    }  # fmt: skip
    assert (oldest_timestamp(batch), newest_timestamp(batch)) == (NOW, NOW + 3)


def test_a_slice_has_its_own_rows() -> None:
    batch = to_event_batch(EVENTS, 2).slice(1, 2)
    assert [row["kind"] for row in expand_events(batch, 41).to_pylist()] == ["opened", "finished"]
    assert expand_events(batch.slice(0, 0), 41).num_rows == 0


def test_the_stored_value_is_compact_and_holds_what_applies() -> None:
    assert EVENTS[0].value() == b'{"kind":"connected"}'
    assert json.loads(EVENTS[3].value()) == {"kind": "nacked", "first": 5, "last": 9}


def test_a_reason_of_a_peer_is_bounded_and_need_not_be_text() -> None:
    event = LoggedEvent("disconnected", NOW, "s", reason="\udcff" + "x" * 10_000)
    reason = json.loads(event.value())["reason"]
    assert len(reason) < MAX_REASON + 10
    (row,) = expand_events(to_event_batch([event], 1), 0).to_pylist()
    assert row["reason"] == reason


def test_counts_that_are_not_known_are_null() -> None:
    event = LoggedEvent("cancelled", NOW, "s", counts=EventCounts())
    (row,) = expand_events(to_event_batch([event], 1), 0).to_pylist()
    assert row["counts"]["reliableSent"] is None
    assert row["counts"]["reliableStored"] == 0


def test_keys_of_a_later_release_are_left_aside() -> None:
    batch = to_event_batch(EVENTS[:1], 1)
    value = pa.array([b'{"kind":"invented","counts":{"acked":1,"extra":2},"new":[]}'], pa.binary())
    (row,) = expand_events(batch.set_column(0, batch.schema.field(0), value), 0).to_pylist()
    assert row["kind"] == "invented"
    assert row["counts"]["acked"] == 1


def test_rows_that_are_no_events_are_refused() -> None:
    batch = to_event_batch(EVENTS[:1], 1)
    for value in (b"\xff", b"text"):
        column = pa.array([value], pa.binary())
        with pytest.raises(ValueError):
            expand_events(batch.set_column(0, batch.schema.field(0), column), 0)

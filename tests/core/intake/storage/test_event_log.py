"""Events as rows: in columns of their own, and in spools of earlier releases as JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from aqueduct_core.intake.aqueduct.rows import EARLIER_ROWS, EVENTS, ROWS
from aqueduct_core.intake.storage.event_log import MAX_REASON, EventSchema, LoggedEvent
from aqueduct_core.intake.storage.rows import RowFormat

NOW = 1_800_000_000_000_000


COUNTS: dict[str, int | None] = {
    "reliableSent": 7, "reliableStored": 5, "unreliableSent": 10,
    "acked": 6, "nacked": 4, "late": 1, "deduped": 2,
}  # fmt: skip


LOGGED = [
    LoggedEvent("connected", NOW, "s-1-1", "p"),
    LoggedEvent("opened", NOW + 1, "s-1-1", "p", "c", 8, 0, 3),
    LoggedEvent("finished", NOW + 2, "s-1-1", "p", "c", 8, 0, 3, counts=COUNTS),
    LoggedEvent("nacked", NOW + 2, "s-1-1", "p", "u", 16, first=5, last=9),
    LoggedEvent("rejected", NOW + 3, "s-1-2", reason="no token"),
]


both = pytest.mark.parametrize("written", [ROWS, EARLIER_ROWS], ids=["present", "earlier"])


@both
def test_rows_come_back_as_users_see_them(written: RowFormat) -> None:
    batch = written.to_events(LOGGED, 2)
    batch.validate(full=True)
    assert batch.schema.equals(written.schema)
    rows = ROWS.expand_events(batch, 2, 40)
    assert rows.schema.equals(EVENTS.rows)
    found = rows.to_pylist()
    assert [row["kind"] for row in found] == [event.kind for event in LOGGED]
    assert [row["offset"] for row in found] == [40, 41, 42, 43, 44]
    assert {row["partition"] for row in found} == {2}
    assert [row["timestamp"].timestamp() * 1e6 for row in found] == [
        event.timestamp for event in LOGGED
    ]
    assert found[2]["counts"] == COUNTS
    assert (found[2]["channel"], found[2]["channelId"], found[2]["producer"]) == ("c", 8, "p")
    assert (found[3]["first"], found[3]["last"]) == (5, 9)
    assert found[4] | {"timestamp": None} == dict.fromkeys(EVENTS.rows.names) | {
        "kind": "rejected", "connectionId": "s-1-2", "reason": "no token",
        "partition": 2, "offset": 44,
    }  # fmt: skip
    assert (ROWS.oldest_timestamp(batch), ROWS.newest_timestamp(batch)) == (NOW, NOW + 3)


@both
def test_a_slice_has_its_own_rows(written: RowFormat) -> None:
    batch = written.to_events(LOGGED, 2).slice(1, 2)
    rows = ROWS.expand_events(batch, 2, 41).to_pylist()
    assert [row["kind"] for row in rows] == ["opened", "finished"]
    assert ROWS.newest_timestamp(batch) == NOW + 2
    assert ROWS.expand_events(batch.slice(0, 0), 2, 41).num_rows == 0


@both
def test_small_batches_may_be_joined(written: RowFormat) -> None:
    parts = [written.to_events([event], 2) for event in LOGGED]
    rows = ROWS.expand_events(pa.concat_batches(parts), 2, 0).to_pylist()
    assert [row["kind"] for row in rows] == [event.kind for event in LOGGED]


@both
def test_a_reason_of_a_peer_is_bounded_and_need_not_be_text(written: RowFormat) -> None:
    event = LoggedEvent("disconnected", NOW, "s", reason="\udcff" + "x" * 10_000)
    (row,) = ROWS.expand_events(written.to_events([event], 1), 1, 0).to_pylist()
    assert row["reason"] == event.short_reason
    assert len(row["reason"]) < MAX_REASON + 10


@both
def test_what_was_not_counted_is_zero_and_what_is_not_known_null(written: RowFormat) -> None:
    event = LoggedEvent("cancelled", NOW, "s", counts={})
    (row,) = ROWS.expand_events(written.to_events([event], 1), 1, 0).to_pylist()
    assert row["counts"]["reliableSent"] is None
    assert row["counts"]["reliableStored"] == 0


def test_kinds_and_counts_are_those_of_the_protocol() -> None:
    own = EventSchema(("evicted",), {"seen": 0, "left": None})
    (row,) = own.to_array([LoggedEvent("evicted", NOW, "s", counts={"seen": 3})]).to_pylist()
    assert row["counts"] == {"seen": 3, "left": None}
    with pytest.raises(ValueError, match="cancelled"):
        own.to_array([LoggedEvent("cancelled", NOW, "s")])


def test_the_earlier_value_is_compact_json_of_what_applies() -> None:
    values = EARLIER_ROWS.to_events(LOGGED, 2).column("value").to_pylist()
    assert values[0] == b'{"kind":"connected"}'
    assert json.loads(values[3]) == {"kind": "nacked", "first": 5, "last": 9}


def test_keys_of_a_later_release_are_left_aside() -> None:
    batch = EARLIER_ROWS.to_events(LOGGED[:1], 1)
    value = pa.array([b'{"kind":"invented","counts":{"acked":1,"extra":2},"new":[]}'], pa.binary())
    changed = batch.set_column(0, batch.schema.field(0), value)
    (row,) = ROWS.expand_events(changed, 1, 0).to_pylist()
    assert row["kind"] == "invented"
    assert row["counts"]["acked"] == 1


@pytest.mark.parametrize("value", [b"no json", b"\xff"])
def test_earlier_rows_that_are_no_events_are_refused(value: bytes) -> None:
    batch = EARLIER_ROWS.to_events(LOGGED[:1], 1)
    column = pa.array([value], pa.binary())
    with pytest.raises(ValueError):
        ROWS.expand_events(batch.set_column(0, batch.schema.field(0), column), 1, 0)

"""Groups in flight: order, window, retries, and when an owner is fenced."""

from __future__ import annotations

import pytest

from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.spool.objects.group import GroupDraft, LogFence, fence_data
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.store import (
    CreateObject,
    GetObject,
    ObjectExists,
    ObjectFound,
    ObjectMissing,
    ObjectStored,
    StoreDenied,
    StoreUnavailable,
)
from aqueduct_core.spool.objects.writing import LogWriter
from tests.support.objects.model_owner import CODEC, group_row

NAMES = ObjectNames("s/")
STORED = ObjectStored("t")
SILENT = StoreUnavailable("503")


def data(sequence: int, life: str = "a") -> bytes:
    draft = GroupDraft(CODEC, sequence, life, 0)
    draft.add(0, group_row(life, sequence), 0)
    return draft.data()


def writer(window: int = 3, groups: int = 3) -> LogWriter:
    made = LogWriter(NAMES, "a", 5, window, lambda: Backoff(1.0, 4.0, lambda: 1.0))
    for i in range(groups):
        assert made.begin(data(5 + i), 0.0) == 5 + i
    return made


def test_groups_are_reported_in_order_whatever_is_stored_first() -> None:
    log = writer()
    assert [number for number, _ in log.operations(0.0)] == [5, 6, 7]
    assert not log.operations(0.0)
    reported = []
    for number in (7, 6, 5):
        log.handle(number, STORED, 0.0)
        reported.append(log.reported)
    assert reported == [4, 4, 7]
    assert log.in_flight == log.buffered == 0


def test_the_window_slides_with_what_is_reported() -> None:
    log = writer(window=2, groups=2)
    log.operations(0.0)
    assert not log.room
    with pytest.raises(ValueError, match="no room"):
        log.begin(data(7), 0.0)
    log.handle(6, STORED, 0.0)
    assert not log.room
    log.handle(5, STORED, 0.0)
    assert log.room


@pytest.mark.parametrize("outcome", [SILENT, StoreDenied("403")])
def test_what_fails_is_tried_again_later_and_later(outcome: StoreUnavailable | StoreDenied) -> None:
    log = writer(groups=1)
    now, waits = 0.0, []
    for _ in range(4):
        assert len(log.operations(now)) == 1
        log.handle(5, outcome, now)
        assert log.silence == outcome.reason
        due = log.wake_at()
        assert due is not None
        assert not log.operations(due - 0.01)
        waits.append(due - now)
        now = due
    assert waits == [1.0, 2.0, 4.0, 4.0]
    assert log.waited(now) == now
    assert log.operations(now)
    log.handle(5, STORED, now)
    assert log.reported == 5
    assert not log.silence
    assert log.wake_at() is None


def test_a_group_whose_answer_was_lost_is_known_again() -> None:
    log = writer(groups=1)
    log.operations(0.0)
    log.handle(5, ObjectExists(), 0.0)
    assert log.operations(0.0) == [(5, GetObject(NAMES.group(5)))]
    log.handle(5, SILENT, 0.0)
    assert log.operations(1.0) == [(5, GetObject(NAMES.group(5)))]
    log.handle(5, ObjectFound(data(5), "t"), 1.0)
    assert log.reported == 5


@pytest.mark.parametrize(
    "there",
    [data(5, "b"), fence_data(CODEC, 5, "b", LogFence(2, 1, 8)), b"no group at all"],
    ids=["group", "fence", "damage"],
)
def test_what_is_not_ours_fences(there: bytes) -> None:
    log = writer()
    log.operations(0.0)
    log.handle(6, STORED, 0.0)
    log.handle(5, ObjectExists(), 0.0)
    log.operations(0.0)
    log.handle(5, ObjectFound(there, "t"), 0.0)
    assert log.fenced
    log.handle(7, STORED, 0.0)
    assert log.reported == 4
    assert not log.room
    assert not log.operations(9.0)
    assert log.wake_at() is None


def test_a_name_that_was_taken_and_is_free_is_tried_again() -> None:
    log = writer(groups=1)
    log.operations(0.0)
    log.handle(5, ObjectExists(), 0.0)
    log.operations(0.0)
    log.handle(5, ObjectMissing(), 0.0)
    ((_, again),) = log.operations(1.0)
    assert isinstance(again, CreateObject)
    log.handle(5, STORED, 1.0)
    assert log.reported == 5

"""The gateway says what the port says, and a spool on it keeps its promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aqueduct_core.spool.objects.store import ListObjects, ObjectsListed
from tests.core.spool.objects import test_spool as promises
from tests.core.spool.objects.test_spool import Opening, open_objects
from tests.support.objects.gateway import Gateway
from tests.support.objects.store_contract import check_contract

pytestmark = pytest.mark.gateway


@pytest.fixture
def opening(gateway: Gateway, prefix: str) -> Iterator[Opening]:
    """Opens the same spool each time."""
    place = gateway.store(prefix)
    opened: list[Any] = []

    def open_here(**given: Any) -> Any:
        opened.append(open_objects(place, **given))
        return opened[-1]

    yield open_here
    for each in opened:
        if not each.failed:
            each.close()


def test_what_a_store_promises(gateway: Gateway, prefix: str) -> None:
    each = gateway.store(prefix)
    check_contract(each, "")
    listed = each.carry_out(ListObjects(""))
    assert isinstance(listed, ObjectsListed)
    assert len(listed.keys) == 15


test_groups = promises.test_a_group_is_reported_when_it_is_durable_and_once
test_ranges = promises.test_every_range_of_every_partition
test_reopening = promises.test_reopening_goes_on_with_the_next_offset_under_a_higher_epoch
test_cursors = promises.test_cursors_are_there_after_a_reopening
test_trimming = promises.test_what_every_cursor_has_passed_goes_and_nothing_else
test_identity = promises.test_another_spool_is_not_taken_for_this_one

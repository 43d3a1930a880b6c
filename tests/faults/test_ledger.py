"""The ledger of the fault tests finds what it is there to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.faults.ledger import Entry, balance, payload, reconcile
from tests.faults.tables import SCHEMA

SENT = 10
ENTRY = Entry("readings", "ordered", "p", SENT, acked=((0, SENT),))


def table(
    numbers: Sequence[int], *, mode: str = "ordered", partitions: Sequence[int] = ()
) -> pa.Table:
    count = len(numbers)
    return pa.table(
        {
            "value": [payload(number, 20) for number in numbers],
            "channel": ["readings"] * count,
            "producer": ["p"] * count,
            "messageNum": list(numbers),
            "reliable": [mode != "unreliable"] * count,
            "partition": list(partitions) or [0] * count,
            "offset": list(range(count)),
        },
        schema=SCHEMA,
    )


ALL = list(range(SENT))


@pytest.mark.parametrize(
    ("numbers", "lost", "duplicates", "breaks", "strangers"),
    [
        (ALL, 0, 0, 0, 0),
        (ALL[:-1], 1, 0, 0, 0),
        (ALL[:4] + ALL[5:], 1, 0, 1, 0),
        ([*ALL, 9], 0, 1, 1, 0),
        ([1, 0, *ALL[2:]], 0, 0, 3, 0),
        ([*ALL, 10], 0, 0, 0, 1),
        (ALL[1:], 1, 0, 1, 0),
        ([], SENT, 0, 0, 0),
    ],
)
def test_each_defect_has_its_number(
    numbers: list[int], lost: int, duplicates: int, breaks: int, strangers: int
) -> None:
    [line] = reconcile(table(numbers), [ENTRY])
    found = (line.lost_after_ack, line.duplicates, line.order_breaks, line.strangers)
    assert found == (lost, duplicates, breaks, strangers)
    assert line.good is not any(found)
    if line.good:
        balance(table(numbers), [ENTRY])
    else:
        with pytest.raises(AssertionError):
            balance(table(numbers), [ENTRY])


def test_order_is_that_of_offsets_inside_one_partition() -> None:
    backwards = table(ALL).take(list(reversed(ALL)))
    assert reconcile(backwards, [ENTRY])[0].good
    moved = table(ALL, partitions=[0] * 5 + [1] * 5)
    assert reconcile(moved, [ENTRY])[0].order_breaks == 1
    shuffled = table([3, 1, 2, 0, *ALL[4:]])
    assert reconcile(shuffled, [replace(ENTRY, mode="unordered")])[0].good


def test_an_unreliable_message_is_acked_or_nacked_and_never_both() -> None:
    entry = Entry("readings", "unreliable", "p", SENT, acked=((0, 6),), nacked=((6, 8),), unknown=2)
    assert entry.settled
    assert reconcile(table(ALL[:6], mode="unreliable"), [entry])[0].good
    assert reconcile(table([*ALL[:6], 9], mode="unreliable"), [entry])[0].good
    assert reconcile(table(ALL[:7], mode="unreliable"), [entry])[0].strangers == 1
    assert reconcile(table(ALL[:5], mode="unreliable"), [entry])[0].lost_after_ack == 1


def test_a_row_under_another_number_than_its_producers_is_a_stranger() -> None:
    wrong = table(ALL).set_column(3, "messageNum", pa.array([*ALL[:-1], 42]))
    assert reconcile(wrong, [ENTRY])[0].strangers == 1


def test_others_do_not_count_and_more_may_be_on_its_way() -> None:
    other = replace(ENTRY, producer="q", sent=0, acked=())
    assert reconcile(table(ALL), [other])[0].rows == 0
    early = replace(ENTRY, sent=5, acked=((0, 5),))
    assert reconcile(table(ALL), [early], complete=False)[0].good
    assert not reconcile(table(ALL), [early])[0].good


def test_payloads_without_a_number_belong_to_nobody() -> None:
    rows = table(ALL).set_column(
        0, "value", pa.array([b"x", b"", *([payload(1)] * 8)], pa.binary())
    )
    [line] = reconcile(rows, [ENTRY])
    assert line.strangers
    assert line.lost_after_ack == SENT - 1

"""The ledger of a bridge finds what it is there to find, in whatever pieces rows come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.faults.bridged import SPACE_BITS, Received
from tests.faults.ledger import Entry, payload

SIZE = 20
SENT = 10
ALL = list(range(SENT))
ENTRY = Entry("a", "ordered", "p", SENT, acked=((0, SENT),))
DUE = [
    (batch << SPACE_BITS) + row for batch, row in [(0, 0), (0, 1), (0, 2), *((7, n) for n in ALL)]
]


def rows(numbers: Sequence[int], logical: Sequence[int], partition: int = 0) -> pa.Table:
    count = len(numbers)
    return pa.table(
        {
            "value": pa.array([payload(number, SIZE) for number in numbers], pa.binary()),
            "channel": ["a"] * count,
            "producer": ["sink"] * count,
            "messageNum": pa.array(logical, pa.int64()),
            "partition": pa.array([partition] * count, pa.int32()),
        }
    )


def received(*parts: pa.Table) -> Received:
    found = Received(Path("/nowhere"), {"a": SIZE})
    for part in parts:
        found.book(part)
    return found


@pytest.mark.parametrize("cut", range(SENT + 2))
@pytest.mark.parametrize(
    ("numbers", "lost", "duplicates", "breaks", "strangers"),
    [
        (ALL, 0, 0, 0, 0),
        (ALL[:-1], 1, 0, 0, 0),
        (ALL[:4] + ALL[5:], 1, 0, 0, 0),
        ([*ALL, 9], 0, 1, 1, 0),
        ([1, 0, *ALL[2:]], 0, 0, 1, 0),
        ([*ALL, 10], 0, 0, 0, 1),
        ([], SENT, 0, 0, 0),
    ],
)
def test_each_defect_has_its_number(
    cut: int, numbers: list[int], lost: int, duplicates: int, breaks: int, strangers: int
) -> None:
    due = DUE[: len(numbers)]
    found = received(rows(numbers[:cut], due[:cut]), rows(numbers[cut:], due[cut:]))
    [line] = found.verdicts([ENTRY])
    assert (line.lost_after_ack, line.duplicates, line.order_breaks, line.strangers) == (
        lost, duplicates, breaks, strangers,
    )  # fmt: skip
    assert line.rows == len(numbers)


@pytest.mark.parametrize("cut", range(SENT + 1))
@pytest.mark.parametrize(
    ("at", "number", "wrong"),
    [(0, 1, 1), (2, 3, 1), (2, (9 << SPACE_BITS), 1), (9, (7 << SPACE_BITS) + 99, 1)],
)
def test_each_logical_number_is_the_one_due(cut: int, at: int, number: int, wrong: int) -> None:
    logical = DUE[:SENT]
    logical[at] = number
    found = received(rows(ALL[:cut], logical[:cut]), rows(ALL[cut:], logical[cut:]))
    assert found.verdicts([ENTRY])[0].strangers >= wrong
    assert not found.verdicts([ENTRY])[0].good


def test_other_ways_of_being_wrong() -> None:
    half = SENT // 2
    moved = received(rows(ALL[:half], DUE[:half]), rows(ALL[half:], DUE[half:SENT], partition=1))
    assert moved.verdicts([ENTRY])[0].order_breaks == 1
    broken = rows(ALL, DUE[:SENT]).set_column(
        0, "value", pa.array([payload(n, SIZE - (n == 3)) for n in ALL], pa.binary())
    )
    line = received(broken).verdicts([ENTRY])[0]
    assert (line.strangers, line.lost_after_ack, line.duplicates) == (1, 1, 0)
    nacked = replace(ENTRY, mode="unreliable", acked=((0, 9),), nacked=((9, 10),))
    assert received(rows(ALL, DUE[:SENT])).verdicts([nacked])[0].strangers == 1
    early = replace(ENTRY, sent=5, acked=((0, 5),))
    assert received(rows(ALL, DUE[:SENT])).verdicts([early], complete=False)[0].good
    assert not received(rows(ALL, DUE[:SENT])).verdicts([early])[0].good
    assert received().verdicts([ENTRY])[0].lost_after_ack == SENT

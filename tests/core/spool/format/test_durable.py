"""What is durable, as several releases wrote it."""

from __future__ import annotations

import json

import pytest

from aqueduct_core.spool.format import durable
from aqueduct_core.spool.format.durable import NOTHING, Durable, state_with_partitions


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([0, 0, []], NOTHING),
        ([3, 8, [5, 1]], Durable(3, 8, (5, 1, 0))),
        ([3, 8, [5, 1], "stamp"], Durable(3, 8, (5, 1, 0), "stamp")),
        ([3, 8, [5, 1, 2], "stamp", "boot"], Durable(3, 8, (5, 1, 2), "stamp", "boot")),
        ([3, 8, [5, 1, 2], "stamp", "boot", "later"], Durable(3, 8, (5, 1, 2), "stamp", "boot")),
    ],
)
def test_it_is_read_as_it_was_written(written: list[object], expected: Durable) -> None:
    found = Durable.from_json(written, 3)
    assert found == expected
    assert Durable.from_json(json.loads(json.dumps(found)), 3) == expected


def test_only_the_kernel_that_was_told_knows_that_nothing_is_newer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable, "boot_id", lambda: "this")
    assert Durable(boot="this").of_this_boot
    assert not Durable(boot="another").of_this_boot
    assert not NOTHING.of_this_boot


def test_a_state_of_fewer_partitions() -> None:
    state = {"partitions": 1, "ends": [4], "cursors": {"q": [2]}, "marks": []}
    wide = state_with_partitions(state, 2)
    assert wide == state | {"partitions": 2, "ends": [4, 0], "cursors": {"q": [2, None]}}
    assert state_with_partitions(wide, 1) is wide

"""Every transition of a hold: who asks, when, and what becomes of it."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.control.cursor_leases import FENCED, CursorLeases

Step = tuple[str, float, str, str]
"""What is asked, at which second, by whom, and ``ok`` or the text of the refusal."""

HELD = "CURSOR_IN_USE] cursor 'c' is held by another"
FENCED_OFF = "CURSOR_IN_USE] cursor 'c' was taken over by another"

CASES: dict[str, list[Step]] = {
    "a free cursor is anybody's": [("hold", 0, "a", "ok")],
    "an owner renews": [
        ("hold", 0, "a", "ok"),
        ("hold", 4, "a", "ok"),
        ("hold", 8, "b", HELD),
        ("hold", 9, "b", "ok"),
    ],
    "another one waits for the end": [
        ("hold", 0, "a", "ok"),
        ("hold", 4.9, "b", HELD),
        ("hold", 5, "b", "ok"),
    ],
    "a release frees it at once": [
        ("hold", 0, "a", "ok"),
        ("release", 1, "a", "ok"),
        ("hold", 1, "b", "ok"),
    ],
    "only the owner releases": [
        ("hold", 0, "a", "ok"),
        ("release", 1, "b", "ok"),
        ("hold", 1, "b", HELD),
    ],
    "who released may come back": [
        ("hold", 0, "a", "ok"),
        ("release", 1, "a", "ok"),
        ("commit", 1, "a", "ok"),
        ("hold", 2, "a", "ok"),
    ],
    "a hold that ran out is taken again": [
        ("hold", 0, "a", "ok"),
        ("commit", 60, "a", "ok"),
        ("hold", 60, "a", "ok"),
        ("hold", 61, "b", HELD),
    ],
    "who was taken over is fenced": [
        ("hold", 0, "a", "ok"),
        ("hold", 5, "b", "ok"),
        ("commit", 5, "a", FENCED_OFF),
        ("hold", 5, "a", FENCED_OFF),
    ],
    "and stays so when the successor is gone": [
        ("hold", 0, "a", "ok"),
        ("hold", 5, "b", "ok"),
        ("hold", 60, "a", FENCED_OFF),
        ("commit", 60, "a", FENCED_OFF),
        ("hold", 60, "c", "ok"),
        ("hold", 99, "b", FENCED_OFF),
    ],
    "a fenced one stays out after a release": [
        ("hold", 0, "a", "ok"),
        ("hold", 5, "b", "ok"),
        ("release", 6, "b", "ok"),
        ("hold", 6, "a", FENCED_OFF),
    ],
    "the owner commits": [("hold", 0, "a", "ok"), ("commit", 1, "a", "ok")],
    "a commit takes no hold": [("commit", 0, "a", "ok"), ("hold", 0, "b", "ok")],
    "nobody else commits, also when the hold ran out": [
        ("hold", 0, "a", "ok"),
        ("commit", 1, "b", FENCED_OFF),
        ("commit", 60, "b", FENCED_OFF),
    ],
    "who holds nothing commits while nobody holds": [
        ("commit", 0, "", "ok"),
        ("hold", 0, "a", "ok"),
        ("commit", 1, "", HELD),
        ("commit", 5, "", "ok"),
    ],
    "a cursor in use is not dropped": [
        ("hold", 0, "a", "ok"),
        ("drop", 4, "", HELD),
        ("drop", 5, "", "ok"),
        ("hold", 5, "b", "ok"),
    ],
    "a released one is, and nobody is fenced any more": [
        ("hold", 0, "a", "ok"),
        ("hold", 5, "b", "ok"),
        ("release", 5, "b", "ok"),
        ("drop", 5, "", "ok"),
        ("hold", 5, "a", "ok"),
    ],
    "one that nobody knows is dropped": [("drop", 0, "", "ok")],
}


@pytest.mark.parametrize("case", CASES)
def test_a_hold(case: str) -> None:
    holds = CursorLeases()
    for what, now, who, outcome in CASES[case]:
        refusal = "ok"
        try:
            match what:
                case "hold":
                    holds.hold("c", who, 5.0, now)
                case "release":
                    holds.release("c", who)
                case "commit":
                    holds.check("c", who or None, now)
                case _:
                    holds.forget("c", now)
        except SpoolFailed as error:
            refusal = str(error)
        assert outcome in refusal, f"{what} by {who} at {now}: {refusal}"


def test_cursors_do_not_meddle_with_each_other() -> None:
    holds = CursorLeases()
    holds.hold("one", "a", 5.0, 0.0)
    holds.hold("two", "b", 5.0, 0.0)
    holds.release("one", "a")
    holds.check("two", "b", 1.0)
    holds.forget("one", 1.0)
    with pytest.raises(SpoolFailed):
        holds.hold("two", "a", 5.0, 1.0)


def test_what_is_remembered_of_a_cursor_is_bounded() -> None:
    holds = CursorLeases()
    for number in range(FENCED + 10):
        holds.hold("c", f"owner {number}", 1.0, float(number))
    (claim,) = holds._claims.values()
    assert len(claim.fenced) == FENCED


def test_the_owner_is_not_told_to_others() -> None:
    holds = CursorLeases()
    holds.hold("c", "a random owner", 5.0, 0.0)
    with pytest.raises(SpoolFailed) as caught:
        holds.hold("c", "b", 5.0, 0.0)
    assert "a random owner" not in str(caught.value)

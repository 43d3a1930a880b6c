"""Where a log ends: a table of what may be found after a crash.

A log is written as text, one item a word: ``H<group>`` a head, ``<group>.<part>`` a record, with
``!`` when it ends its group, ``x`` a damaged stretch, ``|`` the next segment. Each item fills ten
bytes.
"""

from __future__ import annotations

import pytest

from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import Scan
from aqueduct_core.spool.tail import Tail, find_tail


def log(text: str) -> list[Scan]:
    scans = []
    for number, segment in enumerate(text.split("|"), start=1):
        scan = Scan(number, 10 * len(segment.split()))
        for i, word in enumerate(segment.split()):
            at, end = 10 * i, 10 * i + 10
            if word == "x":
                scan.damage.append((at, end))
            elif word[0] == "H":
                scan.records.append(Record(at, end, int(word[1:]), 0, False, state={}))
            else:
                group, part = word.rstrip("!").split(".")
                scan.records.append(
                    Record(at, end, int(group), 0, word.endswith("!"), part=int(part))
                )
        scans.append(scan)
    return scans


@pytest.mark.parametrize(
    ("text", "durable", "group", "cut"),
    [
        # nothing is wrong
        ("", 0, 0, None),
        ("H0", 0, 0, None),
        ("H0 1.0 1.1! 2.0!", 0, 2, None),
        ("H0 1.0 1.1! 2.0!", 1, 2, None),
        ("H0 1.0! 2.0! | H2 3.0!", 2, 3, None),
        # the last group is not whole
        ("H0 1.0 1.1! 2.0", 0, 1, (1, 30)),
        ("H0 1.0 1.1! 2.0", 1, 1, (1, 30)),
        ("H0 1.0 1.1! x", 1, 1, (1, 30)),
        ("H0 1.0", 0, 0, (1, 10)),
        ("x", 0, 0, (1, 0)),
        ("H0 1.0! | x", 1, 1, (2, 0)),
        ("H0 1.0! | H1 2.0 x", 1, 1, (2, 10)),
        # an unreported group is lost, a later one is whole
        ("H0 1.0! x 3.0!", 1, 1, (1, 20)),
        ("H0 1.0! 2.0 x 3.0!", 1, 1, (1, 20)),
        ("H0 1.0! 3.0!", 1, 1, (1, 20)),
        ("H0 1.0! 2.1!", 1, 1, (1, 20)),
        ("H0 1.0! x | H2 3.0!", 1, 1, (1, 20)),
        # durable groups are damaged: a hole, and the log goes on
        ("H0 x 2.0!", 1, 2, None),
        ("H0 x 2.0!", 2, 2, None),
        ("H0 1.0! x 3.0! 4.0!", 3, 4, None),
        ("H0 1.0! x 3.0!", 2, 3, None),
        ("H0 1.0 x 2.0! 3.0", 2, 2, (1, 40)),
        ("x 1.0! x 3.0!", 3, 3, None),
        ("H0 1.0! x | H2 3.0!", 3, 3, None),
        # the end of what was durable is damaged: nobody can say more, but it is not cut
        ("H0 1.0! x", 2, 2, None),
        ("H0 1.0! 2.0 x", 2, 2, None),
        ("H0 1.0! x | H2 3.0! 4.0", 2, 3, (2, 20)),
        # durable and unreported groups are damaged together
        ("H0 1.0! x 4.0!", 2, 2, (1, 30)),
    ],
)
def test_the_tail(text: str, durable: int, group: int, cut: tuple[int, int] | None) -> None:
    assert find_tail(log(text), durable, False) == Tail(group, cut)


def test_what_was_durable_may_be_in_an_older_segment() -> None:
    assert find_tail(log("x 6.0!"), 5, True) == Tail(5, (1, 0))
    assert find_tail(log("H5 x 7.0!"), 5, False) == Tail(5, (1, 10))
    assert find_tail(log("H5 6.0! 7.0!"), 5, True) == Tail(7, None)

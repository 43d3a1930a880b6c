"""Where queries are to go on by order of an operator, on a real spool."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.status import CursorReset
from aqueduct_core.intake.control.cursor_resets import FILE, CursorResets, resets_in
from tests.core.spool.rows import open_spool, store, trim_all

NOW = 1_800_000_000.0


def test_a_cursor_falls_back_at_once_and_goes_on_by_no_old_commit(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=4)
        spool.commit("q", [12, 8])
        spool.commit("half", [6, None])
        resets = CursorResets(spool)
        reset = resets.order(spool, "q", (5, 8), NOW)
        assert reset == CursorReset(reset.id, (5, 8), NOW)
        assert resets.order(spool, "half", (2,), NOW).to == (2,)
        assert spool.cursors() == {"q": [5, 8], "half": [2, None]}
        # of a query that has not obeyed: not beyond where the first rows are wanted
        assert resets.bounded("q", "", (12, 8)) == (5, 8)
        assert resets.bounded("q", "another", (4, 9)) == (4, 8)
        # of one that has
        assert resets.bounded("q", reset.id, (12, 8)) == (12, 8)
        # of cursors that nobody reset
        assert resets.bounded("other", "", (12, 8)) == (12, 8)


def test_what_lies_before_a_reset_forward_is_kept_until_the_query_has_obeyed(
    tmp_path: Path,
) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [1, 1], groups=6)
        spool.commit("q", [2, 2])
        resets = CursorResets(spool)
        reset = resets.order(spool, "q", (6, 6), NOW)
        assert reset.to == (6, 6)
        assert trim_all(spool) == 2
        assert spool.cursors() == {"q": [2, 2]}
        spool.commit("q", resets.bounded("q", reset.id, (6, 6)))
        resets.obeyed("q", reset.id)
        assert trim_all(spool) == 3
        assert resets.all == {} == resets_in(tmp_path)


def test_offsets_that_are_not_stored_become_the_next_that_are(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [1, 1], groups=6)
        spool.commit("q", [4, 4])
        assert trim_all(spool) == 4
        resets = CursorResets(spool)
        assert resets.order(spool, "q", (0, 99), NOW).to == (4, 6)


def test_a_reset_outlives_its_intake_and_its_catalog(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=4)
        spool.commit("q", [12, 8])
        reset = CursorResets(spool).order(spool, "q", (1, 0), NOW)
    with open_spool(tmp_path) as spool:
        assert spool.cursors() == {"q": [1, 0]}
        # as after the loss of the catalog, whose place in the segments' state is older
        spool.commit("q", [12, 8])
        again = CursorResets(spool)
        assert again.all == {"q": reset}
        assert spool.cursors() == {"q": [1, 0]}
        again.forget("q")
    with open_spool(tmp_path) as spool:
        assert CursorResets(spool).all == {}


def test_an_obeyed_reset_is_over_and_another_is_not(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=1)
        spool.commit("q", [3, 2])
        resets = CursorResets(spool)
        first = resets.order(spool, "q", (0, 0), NOW)
        second = resets.order(spool, "q", (1, 1), NOW)
        assert first.id != second.id
        resets.obeyed("q", first.id)
        assert resets.all == {"q": second} == resets_in(tmp_path)
        resets.obeyed("q", second.id)
        assert resets.all == {}


def test_a_look_for_cancels_just_stands_there(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=1)
        spool.commit("q.cancels", [None, 1])
        resets = CursorResets(spool)
        for to in (0, 2, 1):
            resets.order(spool, "q.cancels", (to,), NOW)
            assert spool.cursors() == {"q.cancels": [None, to]}
        assert resets.all == {}


def test_orders_that_fit_no_cursor_change_nothing(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [3, 2], groups=1)
        spool.commit("q", [3, 2])
        resets = CursorResets(spool)
        with pytest.raises(InvalidOption, match=r"no cursor 'p'.*cursors are q"):
            resets.order(spool, "p", (0, 0), NOW)
        with pytest.raises(InvalidOption, match=r"1 offsets are given for cursor 'q'.* 2 logs"):
            resets.order(spool, "q", (0,), NOW)
        assert resets.all == {}
        assert spool.cursors() == {"q": [3, 2]}
        assert not (tmp_path / FILE).exists()


def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        (tmp_path / FILE).write_text('{"v": 1, "resets": {"q": {"to": "x"}}}')
        with pytest.raises(SpoolFailed, match=f"CORRUPT.*rm .*{FILE}"):
            CursorResets(spool)


def test_the_file_of_this_version_is_read_for_ever(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        '{"v": 1, "resets": {"query": {"id": "0b6a", "to": [12, 0], "at": 1800000000.5}}}\n'
    )
    assert resets_in(tmp_path) == {"query": CursorReset("0b6a", (12, 0), 1_800_000_000.5)}

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.layout import LAYOUT, layout_of, settle_layout
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.identity import IDENTITY


def make(directory: Path, logs: int) -> None:
    Spool.open(directory, schema=ROWS.schema, partitions=logs, sync=InlineSync).close()


def old(directory: Path, logs: int) -> None:
    """As the first release left it."""
    make(directory, logs)
    path = directory / IDENTITY
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"format": 1, "epoch": 1}))


def test_a_spool_keeps_the_partitions_that_it_was_made_with(tmp_path: Path) -> None:
    spool = tmp_path / "deep" / "spool"
    settle_layout(spool, 2)
    make(spool, 3)
    settle_layout(spool, 2)
    for other in (1, 3):
        with pytest.raises(InvalidOption, match=f"made with 2 partitions, not {other}"):
            settle_layout(spool, other)


def test_three_logs_are_two_partitions_and_not_three(tmp_path: Path) -> None:
    """The log of events must not become one of messages because a spool may be widened."""
    settle_layout(tmp_path, 2)
    make(tmp_path, 3)
    with pytest.raises(InvalidOption, match=r"OPTION\.CONFLICT"):
        settle_layout(tmp_path, 3)


def test_a_spool_from_before_there_were_events_is_taken_over(tmp_path: Path) -> None:
    old(tmp_path, 2)
    assert layout_of(tmp_path) == 2
    with pytest.raises(InvalidOption, match="made with 2 partitions, not 1"):
        settle_layout(tmp_path, 1)
    settle_layout(tmp_path, 2)
    make(tmp_path, 3)
    settle_layout(tmp_path, 2)


def test_where_the_file_is_lost_the_log_of_events_stays_one(tmp_path: Path) -> None:
    settle_layout(tmp_path, 2)
    make(tmp_path, 3)
    (tmp_path / LAYOUT).unlink()
    assert layout_of(tmp_path) == 2
    with pytest.raises(InvalidOption, match="made with 2 partitions, not 3"):
        settle_layout(tmp_path, 3)
    settle_layout(tmp_path, 2)
    assert (tmp_path / LAYOUT).exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"v": 1}', '{"v": 1, "partitions": "x"}'])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / LAYOUT).write_text(content)
    with pytest.raises(SpoolFailed, match=r"SPOOL\.CORRUPT.*intake\.json"):
        settle_layout(tmp_path, 2)


def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / LAYOUT).write_text('{"v": 2, "partitions": 2}')
    with pytest.raises(SpoolFailed, match=r"SPOOL\.VERSION"):
        settle_layout(tmp_path, 2)


def test_a_place_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
        settle_layout(tmp_path / "file" / "spool", 2)

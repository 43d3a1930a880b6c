"""Rows that a sink has marked: known on any line and in any life of the intake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_BATCH, MAX_ROWS
from aqueduct_core.intake.telehash.marks import LONGEST_QUERY, MARK, marked, runs_of
from aqueduct_core.telehash.events import CloseReason
from tests.core.intake.telehash.scene import LineScene, line_bench, mark, settings
from tests.core.intake.telehash.test_rows import batch


def cut(*js: Any, reliable: bool = True, **given: Any) -> list[tuple[Any, Any, list[bytes]]]:
    """Writer, numbers and bodies of the runs of a batch with this JSON."""
    texts = tuple(None if each is None else msgspec.json.encode(each) for each in js)
    bodies = [b"%d" % n for n in range(len(js))]
    packets = batch(*bodies, js=texts, reliable=reliable, first=7, **given)
    runs = runs_of(packets)
    assert sum(run.batch.size for run in runs) == packets.size
    assert [run.batch.end for run in runs] == [False] * (len(runs) - 1) + [packets.end]
    assert [n for run in runs for n in range(run.batch.first, run.batch.first + run.batch.count)] \
        == list(range(7, 7 + len(js)))  # fmt: skip
    return [
        (
            run.writer,
            None if run.numbers is None else run.numbers.tolist(),
            [item.payload for item in run.batch.messages()],
        )
        for run in runs
    ]


def test_neighbours_of_one_writer_are_one_run() -> None:
    found = cut(mark(0), mark(5), mark(0, partition=1), None, {"q": 1}, mark(1, batch=2), end=True)
    assert found == [
        ("q/0", [0, 5], [b"0", b"1"]),
        ("q/1", [0], [b"2"]),
        (None, None, [b"3", b"4"]),
        ("q/0", [2 * 2 * MAX_ROWS + 1], [b"5"]),
    ]


def test_without_marks_a_batch_stays_whole() -> None:
    packets = batch(b"a", b"b", js=(None, b'{"x":"\\"q\\""}'))
    assert runs_of(packets)[0].batch is packets
    assert cut(mark(0), reliable=False) == [(None, None, [b"0"])]


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"q": ""},
        {"q": "x" * (LONGEST_QUERY + 1)},
        {"q": 3},
        {"q": "a\0b"},
        {"e": -1},
        {"e": MAX_BATCH + 1},
        {"e": True},
        {"e": 1.5},
        {"p": "0"},
        {"p": 1 << 31},
        {"i": MAX_ROWS},
        {"i": None},
    ],
)
def test_what_is_no_mark_marks_nothing(other: dict[str, Any]) -> None:
    given = mark(0) | other if other else dict.fromkeys(MARK[1:], 1)
    assert cut(given) == [(None, None, [b"0"])]


def test_the_application_may_have_more_there() -> None:
    assert cut(marked("q", MAX_BATCH, 0, MAX_ROWS - 1) | {"mine": [1]})[0][0] == "q/0"


def test_what_comes_again_on_another_line_or_life_is_acked_and_no_row(tmp_path: Path) -> None:
    bodies, marks = [b"a", b"b", b"c"], [mark(row) for row in range(3)]
    for life in range(3):
        with line_bench(tmp_path, partitions=4) as b:
            for _ in range(2):
                scene = LineScene(b)
                channel = scene.open(bodies, js=marks, end=True)
                scene.run()
                assert scene.acked(channel) == 3
                scene.link.lose("gone")
                scene.run()
            assert sorted(row["value"] for row in b.rows()) == bodies
            repeated = [each for each in b.events() if each["kind"] == "repeated"]
            assert len(repeated) == 2 * life + 1
            assert repeated[-1]["counts"]["deduped"] == 3
            assert (repeated[-1]["first"], repeated[-1]["last"]) == (0, 2)


def test_of_a_part_that_comes_again_the_rest_is_stored(tmp_path: Path) -> None:
    """With holes, where other rows of a task go to other types; in any order of batches."""
    with line_bench(tmp_path, partitions=4) as b:
        for rows in ((0, 2, 4), (0, 2, 3, 4, 9), (1, 2, 3)):
            scene = LineScene(b)
            bodies = [b"%d" % row for row in rows]
            channel = scene.open(bodies, js=[mark(row, batch=3) for row in rows])
            scene.run()
            assert scene.acked(channel) == len(rows)
            scene.link.lose("gone")
        assert sorted(b.values()) == [b"0", b"1", b"2", b"3", b"4", b"9"]


def test_packets_without_marks_are_stored_as_they_come(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        for _ in range(2):
            scene = LineScene(b)
            scene.open([b"a"], js=[{"n": 1}])
            scene.run()
        assert b.values() == [b"a", b"a"]


@pytest.mark.parametrize("what", ["body", "json"])
def test_other_content_under_a_mark_is_refused_and_the_line_goes_on(
    what: str, tmp_path: Path
) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        first = scene.open([b"a", b"b"], js=[mark(0), mark(1)])
        scene.run()
        js = mark(1) | ({"more": 1} if what == "json" else {})
        body = b"x" if what == "body" else b"b"
        bad = scene.open([b"a", body], js=[mark(0), js], end=True)
        scene.run()
        closed = scene.peer.closed[bad]
        assert (closed.reason, closed.err) == (
            CloseReason.FAILED,
            "a mark comes again, and its number 1 has other content than what is stored",
        )
        assert scene.acked(bad) == 0
        [rejected] = scene.events("rejected")
        assert rejected["reason"] == "number 1 has other content than what is stored"
        assert rejected["counts"]["deduped"] == 2
        assert not scene.events("finished")
        assert scene.context.counters.not_repeatable == 1
        assert b.values() == [b"a", b"b"]
        scene.send(first, [b"c"], js=[mark(2)])
        scene.run()
        assert scene.acked(first) == 3
        assert (scene.session.channels, scene.session._unstored) == (1, 0)


def test_other_content_is_not_acked_by_a_commit(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings(ack_level="committed"))
        scene.open([b"a"], js=[mark(0)])
        scene.run(0.5)
        bad = scene.open([b"x"], js=[mark(0)])
        scene.run(0.5)
        scene.commit()
        scene.run()
        assert scene.acked(bad) == 0
        assert scene.peer.closed[bad].reason is CloseReason.FAILED

"""What a read leaves out, and that the rows that stay keep their offsets."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest

from aqueduct_core.intake.aqueduct.rows import HEADERS, ROWS, SOURCE
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_spark.formats.aqueduct.options import AqueductRead
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.read.filters import RowFilter
from aqueduct_spark.read.shaping import RowShaper

EVERYTHING = Selection()


def stored(*runs: tuple[str | None, str | None, int], size: int = 8) -> pa.RecordBatch:
    """Runs of (channel, producer, rows) as one stored batch; payloads are their row numbers."""
    rows = sum(count for _, _, count in runs)
    ends, total = [], 0
    for _, _, count in runs:
        total += count
        ends.append(total)
    sources = [
        {
            "channel": channel,
            "producer": producer,
            "reliable": True,
            "timestamp": 1_000_000 + index,
            "connectionId": "c",
            "channelId": index,
        }
        for index, (channel, producer, _) in enumerate(runs)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"%0*d" % (size, n) for n in range(rows)], pa.binary()),
            pa.array(range(rows), pa.int64()),
            pa.nulls(rows, HEADERS),
            pa.nulls(rows, ROWS.schema.field("attachments").type),
            pa.RunEndEncodedArray.from_arrays(
                pa.array(ends, pa.int32()), pa.array(sources, SOURCE)
            ),
            ROWS.no_events(rows),
        ],
        schema=ROWS.schema,
    )


def offsets(batch: pa.RecordBatch, selection: Selection, first: int = 100) -> list[int]:
    shaper = RowShaper(AqueductRows(), RowOptions(own=AqueductRead(), selection=selection))
    return [
        offset
        for rows in shaper.rows(batch, 3, first)
        for offset in rows.column("offset").to_pylist()
    ]


BATCH = stored(("a", "x", 3), ("b", "y", 2), ("a", "y", 1), (None, None, 2), ("ab", "x", 2))


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (EVERYTHING, list(range(100, 110))),
        (Selection(channels=("a",)), [100, 101, 102, 105]),
        (Selection(channels=("b", "ab")), [103, 104, 108, 109]),
        (Selection(channels=("nobody",)), []),
        (Selection(pattern="a"), [100, 101, 102, 105]),
        (Selection(pattern="a.*"), [100, 101, 102, 105, 108, 109]),
        (Selection(pattern=".*"), [100, 101, 102, 103, 104, 105, 108, 109]),
        (Selection(producers=("y",)), [103, 104, 105]),
        (Selection(channels=("a",), producers=("y",)), [105]),
        (Selection(pattern="b|ab", producers=("x",)), [108, 109]),
    ],
)
def test_offsets_of_what_stays(selection: Selection, expected: list[int]) -> None:
    assert offsets(BATCH, selection) == expected


def test_the_rows_that_stay_are_whole() -> None:
    [rows] = RowShaper(
        AqueductRows(), RowOptions(own=AqueductRead(), selection=Selection(producers=("y",)))
    ).rows(BATCH, 3, 100)
    assert rows.column("value").to_pylist() == [b"00000003", b"00000004", b"00000005"]
    assert rows.column("channel").to_pylist() == ["b", "b", "a"]
    assert rows.column("messageNum").to_pylist() == [3, 4, 5]
    assert set(rows.column("partition").to_pylist()) == {3}


def test_slices_are_filtered_by_their_own_runs() -> None:
    for start in range(10):
        for stop in range(start + 1, 11):
            piece = BATCH.slice(start, stop - start)
            assert offsets(piece, Selection(channels=("a",)), 100 + start) == [
                o for o in (100, 101, 102, 105) if 100 + start <= o < 100 + stop
            ]


def test_any_runs_give_what_a_row_by_row_filter_gives() -> None:
    chance = random.Random(7)
    for _ in range(200):
        runs = [
            (chance.choice("abcd"), chance.choice("xy"), chance.randint(1, 5))
            for _ in range(chance.randint(1, 12))
        ]
        flat = [(c, p) for c, p, count in runs for _ in range(count)]
        selection = Selection(pattern=chance.choice(["a|b", "[bcd]", "c"]), producers=("x",))
        expected = [
            100 + n
            for n, (channel, producer) in enumerate(flat)
            if re.fullmatch(selection.pattern or "", channel) and producer == "x"
        ]
        assert offsets(stored(*runs), selection) == expected


def test_events_are_chosen_by_their_own_channel() -> None:
    found = [LoggedEvent("opened", n, "c", "p", name) for n, name in enumerate("aab")]
    wanted = RowOptions(own=AqueductRead(), view="events", selection=Selection(channels=("b",)))
    [rows] = RowShaper(AqueductRows(), wanted).rows(ROWS.to_events(found, 2), 2, 7)
    assert rows.column("offset").to_pylist() == [9]


def test_no_mask_when_every_row_stays() -> None:
    assert (
        RowFilter(AqueductRows(), Selection(producers=("x", "y"))).mask(BATCH.slice(0, 6)) is None
    )
    assert RowFilter(AqueductRows(), EVERYTHING).mask(BATCH) is None


def test_selections_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="not both"):
        Selection(channels=("a",), pattern="a")
    with pytest.raises(ValueError, match="not a regular expression"):
        Selection(pattern="(")

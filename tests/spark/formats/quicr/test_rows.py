"""Rows and events of QUICR, as Spark gets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aqueduct_core.errors import ChannelEnded, DataLoss
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.rows import ROWS
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.quicr.media.position import Position
from aqueduct_spark.formats.quicr.format import QuicrFormat
from aqueduct_spark.formats.quicr.options import QuicrRead
from aqueduct_spark.formats.quicr.rows import QuicrRows
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.read.filters import RowFilter
from tests.core.intake.quicr.test_rows import batch, part
from tests.support.rules import rule

MAPPING = QuicrRows()
OWN = QuicrRead((), None, MediaIntake())


def stored() -> pa.RecordBatch:
    return ROWS.to_rows(
        [
            part(batch(b"a", None), "cam/1", Position(0, 0)),
            part(batch(b"c", b"d"), "mic/1", Position(2, 5)),
        ]
    )


def events(*kinds: str, **given: Any) -> pa.RecordBatch:
    logged = [LoggedEvent(kind, 7, "cafe", channel="u", channel_id=4, **given) for kind in kinds]
    return MAPPING.events(ROWS.to_events(logged, 1), 1, 30)


def test_urls_are_what_rows_are_selected_by() -> None:
    whole = stored()
    for selection, wanted in (
        (Selection(("mic/1",), None, None), [False, False, True, True]),
        (Selection(None, "cam/.*", None), [True, True, False, False]),
    ):
        mask = RowFilter(MAPPING, selection).mask(whole)
        assert mask is not None
        assert mask.tolist() == wanted
        part_of = RowFilter(MAPPING, selection).mask(whole.slice(1, 2))
        assert part_of is not None
        assert part_of.tolist() == wanted[1:3]
    log = ROWS.to_events([LoggedEvent("opened", 1, "c", channel=n) for n in ("a", "b")], 1)
    mask = RowFilter(MAPPING, Selection(("b",), None, None)).mask(log)
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [1]


def test_holes_are_no_payloads_and_rows_say_where_they_stand() -> None:
    rows = MAPPING.messages(stored(), 0, 0, RowOptions(own=OWN))
    assert MAPPING.payloads(rows).column("value").to_pylist() == [b"a", b"c", b"d"]
    assert MAPPING.shown(rows.to_pylist()[3]) == "object (2, 6) of 'mic/1'"
    assert MAPPING.received_at(stored(), 1) == 1_000_000


@rule("Q-35", "Q-37")
@pytest.mark.parametrize(
    ("reading", "droppable", "priority"),
    [
        ("low", [False, True, True, False, True], [0, 0, 1, 64, 64]),
        ("high", [False, False, False, True, True], [0, 1, 3, 128, 129]),
    ],
)
def test_a_query_says_how_flags_are_read(
    reading: Any, droppable: list[bool], priority: list[int]
) -> None:
    media = [part(batch(b"x", flags=f), "u", Position(f, 0)) for f in (0, 1, 3, 0x80, 0x81)]
    hole = part(batch(None), "u", Position(200, 0))
    own = replace(OWN, reading=reading)
    found = MAPPING.messages(ROWS.to_rows([*media, hole]), 0, 0, RowOptions(own=own))
    assert found.column("droppable").to_pylist() == [*droppable, None]
    assert found.column("drop_priority").to_pylist() == [*priority, None]
    assert found.column("flags").to_pylist() == [0, 1, 3, 128, 129, 255]


def test_what_a_query_fails_for() -> None:
    def checks(on_cancel: str, lenient: bool) -> list[Any]:
        return MAPPING.event_checks(on_cancel=on_cancel, fail_on_data_loss=not lenient)

    assert QuicrFormat.tells_losses
    assert checks("keep", True) == []
    cancelled = events("opened", "cancelled", reason="its sender gave it up")
    lost = events("lost", reason="objects (1, 0) to (2, 0) are stored nowhere", first=1, last=9)
    for check in checks("fail", False):
        check(events("opened", "gap", "conflict", "finished"), 0)
    [fails] = checks("fail", True)
    fails(lost, 0)
    with pytest.raises(ChannelEnded, match=r"Media 'u' was cancelled: its sender.*event 31"):
        fails(cancelled, 0)
    [fails] = checks("keep", False)
    fails(cancelled, 0)
    with pytest.raises(DataLoss, match=r"RANGE_GONE.*'u' objects \(1, 0\).*failOnDataLoss=false"):
        fails(lost, 3)


def test_which_media_are_waited_for() -> None:
    opened = events("opened", "finished")
    other = MAPPING.events(
        ROWS.to_events([LoggedEvent("opened", 1, "c", channel="w", channel_id=8)], 1), 1, 0
    )
    assert MAPPING.open_channels([opened, other], ["v", "u"]) == ["v", "w"]

"""Rows and events of Telehash, as Spark gets them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from aqueduct_core.errors import ChannelEnded
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.telehash.channels import ChannelIntake
from aqueduct_core.intake.telehash.rows import EVENTS, ROW_SCHEMA, ROWS
from aqueduct_spark.formats.telehash.format import PACKET_COUNTS, TelehashFormat, packet_schema
from aqueduct_spark.formats.telehash.options import LineOptions, TelehashRead
from aqueduct_spark.formats.telehash.rows import TelehashRows
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.read.filters import RowFilter
from tests.core.intake.telehash.test_rows import batch, part

MAPPING = TelehashRows()
OWN = TelehashRead((), ChannelIntake(), LineOptions())


def stored() -> pa.RecordBatch:
    return ROWS.to_rows(
        [part(batch(b"a", b"b"), kind="_one"), part(batch(b"c", b"d", first=7), kind="_two")]
    )


def events(*kinds: str, **given: Any) -> pa.RecordBatch:
    logged = [
        LoggedEvent(kind, 7, "cafe", "peer:9", channel="_one", channel_id=4, **given)
        for kind in kinds
    ]
    return MAPPING.events(ROWS.to_events(logged, 1), 1, 30)


def test_the_intake_gives_exactly_the_columns_that_spark_knows() -> None:
    assert to_arrow_schema(packet_schema(), timezone="UTC").equals(ROW_SCHEMA)
    assert tuple(EVENTS.counts) == PACKET_COUNTS
    rows = MAPPING.messages(stored(), 0, 0, RowOptions(own=OWN))
    assert rows.column("seq").to_pylist() == [0, 1, 7, 8]


def test_types_and_peers_are_what_rows_are_selected_by() -> None:
    whole = stored()
    for selection, wanted in (
        (Selection(("_two",), None, None), [False, False, True, True]),
        (Selection(None, "_o.*", None), [True, True, False, False]),
        (Selection(None, None, ("peer",)), [True, True, True, True]),
        (Selection(None, None, ("other",)), [False, False, False, False]),
    ):
        for first, count in ((0, 4), (1, 2)):
            mask = RowFilter(MAPPING, selection).mask(whole.slice(first, count))
            found = [True] * count if mask is None else mask.tolist()
            assert found == wanted[first : first + count]
    log = ROWS.to_events([LoggedEvent("opened", 1, "c", channel=n) for n in ("_a", "_b")], 1)
    mask = RowFilter(MAPPING, Selection(("_b",), None, None)).mask(log)
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [1]


def test_errors_name_a_packet() -> None:
    rows = MAPPING.messages(stored(), 0, 0, RowOptions(own=OWN)).to_pylist()
    assert MAPPING.shown(rows[3]) == "packet 8 of a channel of type '_two'"
    assert MAPPING.shown(rows[3] | {"seq": None}) == "a packet of a channel of type '_two'"
    assert MAPPING.received_at(stored(), 1) == 1_000_000


@pytest.mark.parametrize("kind", ["cancelled", "failed", "timeout"])
def test_a_query_may_fail_for_a_channel_that_breaks_off(kind: str) -> None:
    assert not TelehashFormat.tells_losses
    assert MAPPING.event_checks(on_cancel="keep", fail_on_data_loss=True) == []
    [fails] = MAPPING.event_checks(on_cancel="fail", fail_on_data_loss=True)
    fails(events("connected", "opened", "rejected", "finished", "disconnected"), 0)
    told = rf"type '_one' of peer 'peer:9'.*, {kind}: why \(line cafe, event 31 of intake 2\)"
    with pytest.raises(ChannelEnded, match=told):
        fails(events("opened", kind, kind, reason="why"), 2)


def test_which_channels_are_waited_for() -> None:
    ended = events("opened", "finished")
    log = [LoggedEvent("opened", 1, "c", channel="_two", channel_id=8)]
    other = MAPPING.events(ROWS.to_events(log, 1), 1, 0)
    assert MAPPING.open_channels([ended, other], ["_new", "_one"]) == ["_new", "_two"]
    assert MAPPING.open_channels([events("opened", "timeout")], []) == []

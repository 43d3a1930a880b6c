"""A row is a message or an event, and never both."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aqueduct_core.intake.aqueduct.rows import COLUMNS, EVENTS, ROWS, AqueductRowFormat
from aqueduct_core.intake.storage.batches import BatchSlice, ChannelSource
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.rows import RowFormat
from tests.core.intake.runs import run
from tests.core.intake.storage.test_event_log import NOW, both


@both
def test_rows_of_messages_and_of_events_are_told_apart(written: RowFormat) -> None:
    source = ChannelSource("c", "p", "s", 8)
    with pytest.raises(AssertionError):
        written.to_rows([BatchSlice(source, run([b"{}"]), 0, 1, NOW)])
    with pytest.raises(ValueError, match="invented"):
        written.to_events([LoggedEvent("invented", NOW, "s")], 1)


def test_rows_of_messages_are_no_events() -> None:
    source = pa.nulls(1, ROWS.schema.field("source").type.value_type)
    columns = [pa.nulls(1, field.type) for field in list(ROWS.schema)[:4]]
    columns.append(pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), source))
    batch = pa.RecordBatch.from_arrays([*columns, ROWS.no_events(1)], schema=ROWS.schema)
    with pytest.raises(ValueError, match="no events"):
        ROWS.expand_events(batch, 1, 0)


@pytest.mark.parametrize("name", ["event", "value"])
def test_no_column_has_the_name_of_another(name: str) -> None:
    """What is stored under one name twice could not be read again, nor the spool be opened."""

    class Own(AqueductRowFormat):
        def __init__(self) -> None:
            RowFormat.__init__(self, [*COLUMNS, pa.field(name, pa.string())], EVENTS)

    with pytest.raises(ValueError, match=f"one name.*{name}"):
        Own()

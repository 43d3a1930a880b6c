from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from aqueduct_core.intake.aqueduct.rows import ATTACHMENTS, HEADERS, SOURCE
from aqueduct_core.intake.storage.columns import array_of, constant, counted, runs
from aqueduct_core.intake.storage.event_log import TIMESTAMP
from tests.support.waiting import environment

PAIR = {"key": "k", "value": b"\xff"}
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, None] * 5),
    (pa.int64(), [1, None, -(1 << 62), 0]),
    (pa.int64(), [7]),
    (TIMESTAMP, [1_800_000_000_000_000, None]),
    (pa.string(), ["", None, "grüße", "\0"]),
    (pa.binary(), [b"", None, b"\xff\0"]),
    (pa.list_(pa.int64()), [[], None, [1, None, 2]]),
    (HEADERS, [None, [], [PAIR, {"key": "", "value": None}]]),
    (
        ATTACHMENTS,
        [[{"channelId": 8, "direction": "send", "headers": None}], None,
         [{"channelId": 9, "direction": "receive", "headers": [PAIR]}]],
    ),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1}, None, {"a": None, "b": "x"}]),
    (SOURCE, [None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda value: str(value)[:20])
def test_as_arrow_makes_them_itself(kind: pa.DataType, values: list[Any]) -> None:
    """Each list whole, each of its values alone, and none."""
    for some in [values, *([value] for value in values), []]:
        column = array_of(some, kind)
        column.validate(full=True)
        expected = pa.array(some, pa.int64()).cast(kind) if kind == TIMESTAMP else None
        assert column.equals(pa.array(some, kind) if expected is None else expected)
        assert column.null_count == some.count(None)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="double"):
        array_of([1.5], pa.float64())


def test_places_of_rows() -> None:
    assert constant(3, 2).equals(pa.array([3, 3], pa.int32()))
    assert counted(7, 3).equals(pa.array([7, 8, 9], pa.int64()))


@pytest.mark.parametrize("ends", [[3], [1, 2, 9], []])
def test_runs(ends: list[int]) -> None:
    values = pa.array(range(len(ends)), pa.int64())
    column = runs(ends, values)
    column.validate(full=True)
    expected = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)
    assert column.equals(expected)


def test_rows_and_events_are_stored_without_pandas() -> None:
    """Even where it is installed: importing it takes half a second."""
    program = (
        "import sys\n"
        "from tests.core.intake.runs import run\n"
        "from aqueduct_core.intake.aqueduct.rows import ROWS, AqueductSource\n"
        "from aqueduct_core.intake.storage.batches import BatchSlice\n"
        "from aqueduct_core.intake.storage.event_log import LoggedEvent\n"
        "source = AqueductSource('c', 'p', 'x', 8, channel_headers=((b'k', b'v'),))\n"
        "ROWS.to_rows([BatchSlice(source, run([b'a', b'b']), 0, 2, 1)] * 2)\n"
        "ROWS.to_events([LoggedEvent('connected', 1, 'x')], 2)\n"
        "print('pandas' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment(), stdout=subprocess.PIPE
    )
    assert done.stdout == b"False\n"

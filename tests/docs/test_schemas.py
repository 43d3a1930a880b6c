"""The tables of docs/schemas.md are the columns that queries get, by name, type and order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import SpoolReader
from aqueduct_spark.formats.aqueduct.columns import EVENT_COUNTS, message_schema
from aqueduct_spark.model.schemas import event_schema, status_schema
from tests.formats.kept import Kept
from tests.formats.test_kept import PARTITIONS
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "schemas.md").read_text("utf-8")


def shown(heading: str) -> list[tuple[str, str]]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)
    return [(name, kind.replace(" ", "")) for name, kind in found]


def never_null(heading: str) -> set[str]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `(\w+)` \| `[^`]+` \| never \|", section, re.MULTILINE))


def columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def test_messages() -> None:
    found = [row for row in shown("Messages") if row[0] != "spool"]
    assert found == columns(message_schema(include_headers=True, include_metadata=True))
    assert ("spool", "string") in shown("Messages")


def test_what_is_never_null(tmp_path: Path) -> None:
    """In a spool with named and unnamed channels, headers, cancels and losses."""
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    with SpoolReader(Kept("listening", tmp_path).directory) as reader:
        for partition, (offset, end) in enumerate(zip(reader.starts(), reader.ends(), strict=True)):
            for batch in reader.read(partition, offset, end):
                if partition == PARTITIONS:
                    events += ROWS.expand_events(batch, partition, offset).to_pylist()
                else:
                    rows += ROWS.expand(batch, partition, offset, True, True).to_pylist()
                offset += batch.num_rows
    for heading, found in (("Messages", rows), ("Events", events)):
        sometimes = {name for row in found for name, value in row.items() if value is None}
        assert found
        assert not sometimes & never_null(heading)
    assert {"headers", "channelHeaders", "attachments", "parentChannelId"} <= {
        name for row in rows for name, value in row.items() if value is None
    }


@pytest.mark.parametrize(
    ("heading", "schema"), [("Events", event_schema(EVENT_COUNTS)), ("Status", status_schema())]
)
def test_views(heading: str, schema: StructType) -> None:
    assert shown(heading) == columns(schema)

"""The tables of docs/schemas.md are the columns that queries get, by name, type and order."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import StructType

from aqueduct_spark.formats.aqueduct.columns import EVENT_COUNTS, message_schema
from aqueduct_spark.model.schemas import event_schema, status_schema
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "schemas.md").read_text("utf-8")


def shown(heading: str) -> list[tuple[str, str]]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE)


def columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def test_messages() -> None:
    found = [row for row in shown("Messages") if row[0] != "spool"]
    assert found == columns(message_schema(include_headers=True, include_metadata=True))
    assert ("spool", "string") in shown("Messages")


@pytest.mark.parametrize(
    ("heading", "schema"), [("Events", event_schema(EVENT_COUNTS)), ("Status", status_schema())]
)
def test_views(heading: str, schema: StructType) -> None:
    assert shown(heading) == columns(schema)

"""Rows as a task reads them from an intake, and what decoding makes of their payloads."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from aqueduct_core.intake.aqueduct.rows import row_schema
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.model.read_schemas import decoding
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.read.payloads.decoding import decoded


@functools.cache
def plan_of(columns: str, payload_format: str, mode: str = "permissive") -> Any:
    options = {
        "listen": "127.0.0.1:0",
        "spool": "spool",
        "payloadFormat": payload_format,
        "mode": mode,
    }
    rows = StreamReadOptions.parse(options, AQUEDUCT_OPTIONS).rows
    return decoding(StructType.fromDDL(columns), AqueductFormat().schema(rows), rows)


def stored(payloads: list[bytes], channel: str = "c") -> pa.RecordBatch:
    rows = [
        {
            "value": payload,
            "channel": channel,
            "producer": "p",
            "messageNum": number,
            "reliable": True,
            "partition": 1,
            "offset": 100 + number,
            "timestamp": number,
        }
        for number, payload in enumerate(payloads)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=row_schema(False, False))


def decode(
    payloads: list[bytes],
    columns: str,
    payload_format: str,
    mode: str = "permissive",
    channel: str = "c",
) -> list[dict[str, Any]]:
    plan = plan_of(columns, payload_format, mode)
    found = decoded(iter([stored(payloads, channel)]), plan, AqueductRows())
    return [row for batch in found for row in batch.to_pylist()]

"""Mistakes with options, as users make them: one line that names what is wrong and what to do.

What a query is, Spark says only after its columns are asked for: a mistake of a stream is not
blamed on options of a bounded read, nor the other way round.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from aqueduct_core.errors import AqueductError
from aqueduct_spark.formats.aqueduct.format import AqueductDataSource

LISTEN = {"listen": "127.0.0.1:0", "spool": "/data/spool", "tls.selfSigned": "true"}
DIAL = {"endpoint": "aqueduct://h:1"}
STORED = {"spool": "/data/spool"}
WRITE = {"endpoint": "aqueduct://127.0.0.1:1", "tls.insecure": "true"}

OF_STREAM = "is for a stream read, and 'spool' alone is read as a batch. Remove"
BOTH = "is for a stream read and"

READS: list[tuple[dict[str, str], str, str]] = [
    # names
    (LISTEN | {"lisen": "x"}, "UNKNOWN", "'lisen' is not known|nearest one is 'listen'"),
    (LISTEN | {"startingOffset": "x"}, "UNKNOWN", "nearest one is 'startingOffsets'"),
    (LISTEN | {"token": "s3cret"}, "UNKNOWN", "nearest one is 'auth.tokenFile'"),
    (LISTEN | {"selfSigned": "true"}, "UNKNOWN", "nearest one is 'tls.selfSigned'"),
    (LISTEN | {"limits.conections": "5"}, "UNKNOWN", "nearest one is 'limits.connections'"),
    (LISTEN | {"topic": "x"}, "UNKNOWN", "Remove it; docs/options.md"),
    (LISTEN | {"foo": "x"}, "UNKNOWN", "Remove it; docs/options.md"),
    # of the other kind of query
    (LISTEN | {"until": "finish"}, "NOT_FOR_QUERY_TYPE", f"'listen' {BOTH} 'until' for a batch"),
    (LISTEN | {"untilTimeout": "1m"}, "NOT_FOR_QUERY_TYPE", f"{BOTH} 'untilTimeout'"),
    (LISTEN | {"endingOffsets": "latest"}, "NOT_FOR_QUERY_TYPE", f"{BOTH} 'endingOffsets'"),
    (LISTEN | {"view": "status"}, "NOT_FOR_QUERY_TYPE", f"{BOTH} 'view=status' for a batch"),
    (LISTEN | {"ackTimeout": "1m"}, "NOT_FOR_QUERY_TYPE", "'ackTimeout' is not for a stream read"),
    (LISTEN | {"channel": "c"}, "NOT_FOR_QUERY_TYPE", "df.write or df.writeStream"),
    (STORED | {"numIntakes": "2"}, "NOT_FOR_QUERY_TYPE", f"'numIntakes' {OF_STREAM} 'numIntakes'"),
    (STORED | {"cursor": "c"}, "NOT_FOR_QUERY_TYPE", f"'cursor' {OF_STREAM}"),
    (STORED | {"lease": "5s"}, "NOT_FOR_QUERY_TYPE", f"'lease' {OF_STREAM}"),
    (STORED | {"maxOffsetsPerTrigger": "5"}, "NOT_FOR_QUERY_TYPE", "'maxOffsetsPerTrigger'"),
    (STORED | {"tls.selfSigned": "true"}, "NOT_FOR_QUERY_TYPE", "'tls.selfSigned'"),
    (STORED | {"ackTimeout": "1m"}, "NOT_FOR_QUERY_TYPE", "'ackTimeout' is not for a batch read"),
    (
        DIAL | {"numIntakes": "2", "untilTimeout": "9s"},
        "NOT_FOR_QUERY_TYPE",
        f"'numIntakes' {BOTH} 'untilTimeout'",
    ),
    # missing, where both kinds of read are possible and where one is
    ({}, "MISSING", "With spark.readStream: Option 'listen'|With spark.read: Option 'spool'"),
    (DIAL, "MISSING", "With spark.readStream: Option 'spool'|spark.read: Option 'untilTimeout'"),
    ({"listen": "127.0.0.1:0"}, "MISSING", "Option 'spool' is missing: the directory"),
    ({"intakes": "h:1"}, "MISSING", "Option 'tls.caFile' is missing"),
    (LISTEN | {"maxTriggerDelay": "5s"}, "MISSING", "'minOffsetsPerTrigger'"),
    # contradictions
    (LISTEN | DIAL, "CONFLICT", "'endpoint' and 'listen' both"),
    (LISTEN | {"subscribe": "a"}, "CONFLICT", "'subscribe' has no meaning with 'listen'"),
    (STORED | {"intakes": "h:1"}, "CONFLICT", "'spool' has no meaning|endpoint or listen. SQL"),
    (STORED | {"subscribe": "a"}, "CONFLICT", "belongs to endpoint"),
    (LISTEN | {"channels": "a", "channelsPattern": "b"}, "CONFLICT", "channelsPattern"),
    (LISTEN | {"tls.certFile": "c", "tls.keyFile": "k"}, "CONFLICT", "tls.selfSigned"),
    # values
    (LISTEN | {"listen": "4433"}, "BAD_VALUE", "'listen' is '4433'|127.0.0.1:4433"),
    (LISTEN | {"listen": "::1:4433"}, "BAD_VALUE", "brackets"),
    (LISTEN | {"listen": "aqueduct://127.0.0.1:1"}, "BAD_VALUE", "without a scheme"),
    (LISTEN | {"listen": "127.0.0.1:70000"}, "BAD_VALUE", "from 0 to 65535"),
    (LISTEN | {"spool": "s3://b/x"}, "BAD_VALUE", "without a scheme"),
    (LISTEN | {"groupCommit": "20"}, "BAD_VALUE", "'groupCommit' is '20'|no unit"),
    (LISTEN | {"groupCommit": "20h"}, "BAD_VALUE", "from 0ms to 10s"),
    (LISTEN | {"spoolMaxBytes": "-1g"}, "BAD_VALUE", "64m"),
    (LISTEN | {"numIntakes": "two"}, "BAD_VALUE", "a whole number from 1"),
    (LISTEN | {"failOnDataLoss": "no"}, "BAD_VALUE", "true or false"),
    (LISTEN | {"payloadFormat": "avro"}, "BAD_VALUE", "binary, text, json, arrow"),
    (LISTEN | {"channelsPattern": "("}, "BAD_VALUE", "regular expression"),
    (
        LISTEN | {"startingOffsets": '{"0":{"0":1}}'},
        "BAD_VALUE",
        """is '{"0": {"0": 1}}'|partitions 0 to 1""",
    ),
    (LISTEN | {"startingTimestamp": "yesterday"}, "BAD_VALUE", "2026-01-31T12:00:00Z"),
]

WRITES: list[tuple[dict[str, str], str, str]] = [
    ({"endpoint": ""}, "BAD_VALUE", "'endpoint' is ''|aqueduct://host:port"),
    ({"chanel": "x"}, "UNKNOWN", "'channel'"),
    ({"listen": "127.0.0.1:1"}, "NOT_FOR_QUERY_TYPE", "it belongs to spark.readStream"),
    ({"mode": "append"}, "NOT_FOR_QUERY_TYPE", "spark.read or spark.readStream"),
    ({"maxLossRatio": "50%"}, "BAD_VALUE", "a number from 0.0 to 1.0"),
    ({"writerId": "a"}, "MISSING", "'batchId'"),
    ({"endpoint": "aqueduct://example.com:1"}, "CONFLICT", "loopback"),
]

NUMBER, TEXT = IntegerType(), StringType()

COLUMNS: list[tuple[dict[str, DataType], dict[str, str], str, str]] = [
    ({"text": TEXT}, {}, "COLUMN_UNKNOWN", "Column 'text' cannot be written"),
    ({"VALUE": TEXT}, {}, "COLUMN_UNKNOWN", "Rename it to 'value'"),
    ({"value": TEXT, "Channel": TEXT}, {}, "COLUMN_UNKNOWN", "Rename it to 'channel'"),
    ({"channel": TEXT}, {}, "COLUMN_MISSING", "AS value"),
    ({"value": NUMBER}, {}, "COLUMN_TYPE", "'value' is int|binary or string"),
    ({"value": TEXT, "headers": TEXT}, {}, "COLUMN_TYPE", "array<struct<key:string,value:binary>>"),
    ({"m": MapType(NUMBER, TEXT)}, {"payloadFormat": "json"}, "COLUMN_TYPE", "map<int,string>"),
    ({"channel": TEXT}, {"payloadFormat": "json"}, "COLUMN_MISSING", "payload"),
]


def named(case: Any) -> str | None:
    return ",".join(case) if isinstance(case, dict) else None


def holds(error: AqueductError, subclass: str, parts: str) -> None:
    line = str(error)
    assert error.subclass == subclass, line
    assert "\n" not in line
    assert "s3cret" not in line
    for part in parts.split("|"):
        assert part in line


@pytest.mark.parametrize(("options", "subclass", "parts"), READS, ids=named)
def test_of_a_read(options: dict[str, str], subclass: str, parts: str) -> None:
    with pytest.raises(AqueductError) as refused:
        AqueductDataSource(options).schema()
    holds(refused.value, subclass, parts)


@pytest.mark.parametrize(("options", "subclass", "parts"), WRITES, ids=named)
def test_of_a_write(options: dict[str, str], subclass: str, parts: str) -> None:
    with pytest.raises(AqueductError) as refused:
        AqueductDataSource(WRITE | options).writer(StructType().add("value", "string"), False)
    holds(refused.value, subclass, parts)


@pytest.mark.parametrize(("columns", "options", "subclass", "parts"), COLUMNS, ids=named)
def test_of_columns(
    columns: dict[str, DataType], options: dict[str, str], subclass: str, parts: str
) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    with pytest.raises(AqueductError) as refused:
        AqueductDataSource(WRITE | options).writer(schema, False)
    holds(refused.value, subclass, parts)

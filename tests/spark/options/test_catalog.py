"""From CREATE TABLE to the queries on a table: what comes along, and what is refused."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from aqueduct_core.errors import InvalidOption, SchemaMismatch
from aqueduct_spark.formats.aqueduct.columns import message_schema
from aqueduct_spark.formats.aqueduct.format import AqueductDataSource
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS
from aqueduct_spark.options.catalog import CatalogTable, TableUse, of_query, table_remedies
from aqueduct_spark.options.spec import OptionKind

LISTENING = {
    "listen": "127.0.0.1:4433",
    "spool": "/data/spool",
    "tls.selfSigned": "true",
    "auth.tokenFile": "/etc/token",
    "cursor": "first",
    "channels": "a,b",
    "untilTimeout": "1m",
}
SENDING = {"endpoint": "aqueduct://there:4433", "ackTimeout": "5s"}
PRIVATE = "subscribePayload"


def statement(options: dict[str, str], **properties: str) -> dict[str, str]:
    """As Spark 4.2 and 4.3 tell a CREATE TABLE."""
    lowered = {key.lower(): value for key, value in options.items()}
    marked = {f"option.{key}": value for key, value in lowered.items()}
    return {"provider": "aqueduct", "owner": "me", **lowered, **marked, **properties}


def created(options: dict[str, str], **properties: str) -> CatalogTable:
    table = CatalogTable.created(statement(options, **properties), AQUEDUCT_OPTIONS)
    assert table is not None
    return table


def columns(table: CatalogTable) -> StructType:
    """As they come back from a catalog, which keeps JSON."""
    marked = table.marked(message_schema(), AQUEDUCT_OPTIONS)
    return StructType.fromJson(json.loads(marked.json()))


def query(
    table: CatalogTable, kind: OptionKind, given: dict[str, str] | None = None
) -> dict[str, str]:
    return of_query(given or {}, columns(table), kind, AQUEDUCT_OPTIONS)


def test_options_of_a_query_are_no_statement() -> None:
    assert CatalogTable.created(LISTENING, AQUEDUCT_OPTIONS) is None


def test_what_spark_adds_and_what_users_note_is_left_out() -> None:
    added = {"location": "file:/data/spool", "path": "file:/data/spool", "team": "meters"}
    table = created({"SPOOL": "/data/spool"}, **added)
    assert table == CatalogTable(TableUse.READ, {"spool": "/data/spool"})


def test_one_table_serves_a_stream_and_reads_of_what_it_stored() -> None:
    table = created(LISTENING)
    assert table.use is TableUse.READ
    stream = query(table, OptionKind.STREAM_READ)
    assert stream == {k: v for k, v in LISTENING.items() if k != "untilTimeout"}
    stored = query(table, OptionKind.BATCH_READ)
    assert stored.pop("untilTimeout") == "1m"
    assert stored == {"spool": "/data/spool", "channels": "a,b"}


def test_an_endpoint_is_dialled_by_a_read_that_is_told_how_long_to_wait() -> None:
    table = created({"endpoint": "aqueduct://there:4433", "spool": "/s", "subscribe": "a"})
    assert query(table, OptionKind.STREAM_READ) == dict(table.options)
    assert query(table, OptionKind.BATCH_READ) == {"spool": "/s"}
    waiting = query(table, OptionKind.BATCH_READ, {"untiltimeout": "1m"})
    assert waiting == {**table.options, "untiltimeout": "1m"}


def test_what_a_query_gives_beats_its_table() -> None:
    table = created(LISTENING)
    assert query(table, OptionKind.STREAM_READ, {"cursor": "second"})["cursor"] == "second"
    elsewhere = {"spool": "/elsewhere"}
    assert query(table, OptionKind.BATCH_READ, elsewhere) == elsewhere


def test_a_write_takes_the_options_of_tables_for_writing_alone() -> None:
    table = created(SENDING)
    assert table.use is TableUse.WRITE
    assert query(table, OptionKind.BATCH_WRITE) == SENDING
    both = created({"endpoint": "aqueduct://there:4433", "spool": "/s"})
    assert both.use is TableUse.READ
    for read in (both, created(LISTENING)):
        with pytest.raises(InvalidOption, match="MISSING] No option came with a batch write"):
            query(read, OptionKind.BATCH_WRITE)
    # Spark never fits the rows of a stream to a table: these are the columns that they came with.
    with pytest.raises(InvalidOption, match="MISSING] No option came with a stream write"):
        query(table, OptionKind.STREAM_WRITE)


def test_a_table_for_writing_is_not_read() -> None:
    for kind in (OptionKind.STREAM_READ, OptionKind.BATCH_READ):
        with pytest.raises(InvalidOption, match="NOT_FOR_QUERY_TYPE] The table is for INSERT"):
            query(created(SENDING), kind)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Option 'spool' is missing"),
        ({"spool": "here"}, "BAD_VALUE] Option 'spool' is 'here'; it must be an absolute path"),
        ({"spol": "/s"}, "UNKNOWN] Option 'spol'"),
        ({"spool": "/s", "ackTimeout": "1s"}, "NOT_FOR_QUERY_TYPE] Option 'ackTimeout'"),
        (SENDING | {"retention": "1s"}, "NOT_FOR_QUERY_TYPE]"),
        (SENDING | {"ackTimeout": "1"}, "BAD_VALUE] Option 'ackTimeout'"),
        (SENDING | {"spool": "/s"}, "NOT_FOR_QUERY_TYPE] Option 'ackTimeout'"),
        ({"listen": "127.0.0.1:0"}, "MISSING] Option 'spool'"),
        (
            {"endpoint": "aqueduct://there:1", "spool": "/s", PRIVATE: "x"},
            f"'{PRIVATE}' may hold a secret",
        ),
    ],
)
def test_statements_that_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        created(options)
    assert words in str(refused.value)
    assert "'x'" not in str(refused.value)


def test_properties_that_were_meant_as_options_are_refused() -> None:
    with pytest.raises(InvalidOption, match="'listen' stands in TBLPROPERTIES"):
        created({"spool": "/data/spool"}, listen="127.0.0.1:4433")
    with pytest.raises(InvalidOption, match=r"OPTIONS \(`tls.cafile` '…'\)"):
        created(SENDING, **{"tls.cafile": "/ca.pem"})


def test_an_option_that_this_version_does_not_know_any_more_names_the_remedy() -> None:
    schema = columns(CatalogTable(TableUse.READ, {"spool": "/s", "gone": "1"}))
    with (
        pytest.raises(InvalidOption, match=r"'gone' is not known.*DROP TABLE and create it anew"),
        table_remedies(schema, AQUEDUCT_OPTIONS),
    ):
        AQUEDUCT_OPTIONS.parse(
            of_query({}, schema, OptionKind.BATCH_READ, AQUEDUCT_OPTIONS), OptionKind.BATCH_READ
        )
    with (
        pytest.raises(SchemaMismatch) as own,
        table_remedies(message_schema(), AQUEDUCT_OPTIONS),
    ):
        raise SchemaMismatch("REQUIRED", "what", "remedy")
    assert own.value.remedy == "remedy"


def test_a_table_of_a_later_version_is_refused() -> None:
    schema = columns(created({"spool": "/s"}))
    schema.fields[0].metadata["aqueduct"]["version"] = 2
    with pytest.raises(InvalidOption, match="created by a later version"):
        of_query({}, schema, OptionKind.BATCH_READ, AQUEDUCT_OPTIONS)


def test_without_any_option_the_remedy_is_told() -> None:
    for kind in OptionKind:
        with pytest.raises(InvalidOption, match=r"CREATE TABLE … USING … OPTIONS"):
            of_query({}, message_schema(), kind, AQUEDUCT_OPTIONS)


def test_the_columns_of_tables() -> None:
    """Of those for writing one is a VARCHAR, so that what is inserted never fits by itself."""
    stored = AqueductDataSource(statement({"spool": "/no/spool/yet"})).schema()
    assert stored.fieldNames() == message_schema().fieldNames()
    sent = AqueductDataSource(statement(SENDING)).schema()
    assert [(f.name, f.dataType.simpleString()) for f in sent] == [
        ("value", BinaryType().simpleString()),
        ("channel", "varchar(256)"),
    ]
    texts = AqueductDataSource(statement(SENDING | {"payloadFormat": "text"})).schema()
    assert texts["value"].dataType == StringType()
    placed = AqueductDataSource(statement(SENDING | {"idempotence": "source"})).schema()
    assert placed.fieldNames() == ["value", "channel", "spool", "partition", "offset"]
    for options in ({"spool": "/s"}, SENDING):
        with pytest.raises(SchemaMismatch, match=r"REQUIRED.*from_json"):
            AqueductDataSource(statement(options | {"payloadFormat": "json"})).schema()

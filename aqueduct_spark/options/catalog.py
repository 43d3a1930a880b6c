"""The options of a table of Spark's catalog: from CREATE TABLE to each query on it.

Spark keeps what OPTIONS (…) says, and gives a Python data source nothing but the columns when the
table is read or written. So the options travel with the first column, as its metadata, which every
catalog keeps. A table is for reading or for writing, as its options say, and is used for nothing
else: columns of a frame bring the metadata of the table that they were read from, and no write may
take its endpoint from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql.types import StructField, StructType

from aqueduct_core.errors import InvalidOption, SchemaMismatch
from aqueduct_spark.options import values
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions, rows_of
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.refusals import bad_value
from aqueduct_spark.options.spec import BATCH_WRITE, READ, OptionKind, OptionSpec
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.write import WriteOptions

VERSION = 1
"""Of the metadata; a newer one is refused."""

OPTION = "option."
"""What Spark puts before each option when it has a table created; they come without it, too, among
TBLPROPERTIES and what it adds itself (provider, owner, location, path)."""

WAYS = frozenset({"endpoint", "listen", "intakes", "spool"})
"""Options that say where messages are; a query that has one needs none of its table."""


class TableUse(Enum):
    """What the queries on a table do."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table whose options are legal for some query; ``options`` by their written names."""

    use: TableUse
    options: Mapping[str, str]

    @classmethod
    def created(cls, statement: Mapping[str, str], table: OptionTable) -> CatalogTable | None:
        """What a CREATE TABLE says; None: ``statement`` are the options of a query.

        Raises:
            InvalidOption: no query could have these options, or a table cannot keep them.
        """
        if statement.get("provider", "").lower() != table.format:
            return None
        given = {
            key.removeprefix(OPTION): value
            for key, value in statement.items()
            if key.startswith(OPTION)
        }
        _refuse_properties(statement, given, table)
        options = {table.written(key): value for key, value in given.items()}
        use = _use(options, table)
        for name, value in options.items():
            spec = _spec(table, name)
            if spec.private:
                raise InvalidOption(
                    "NOT_FOR_QUERY_TYPE",
                    f"Option '{name}' may hold a secret, and who sees a table sees its options",
                    f"Give it with each query: SELECT … FROM t WITH ('{name}' = '…'), or "
                    ".option(…)",
                )
            if spec.parse is values.path and not value.startswith("/"):
                raise bad_value(
                    name,
                    value,
                    "an absolute path, since the next session may have another working directory",
                )
        return cls(use, options)

    @classmethod
    def of(cls, schema: StructType, table: OptionTable) -> CatalogTable | None:
        """What the columns of a query tell of the table that they are of; None: of none.

        Raises:
            InvalidOption: CONFLICT: a later version of this connector made it.
        """
        for column in schema.fields:
            told: dict[str, Any] | None = (column.metadata or {}).get(table.format)
            if told is None:
                continue
            if told["version"] > VERSION:
                raise InvalidOption(
                    "CONFLICT",
                    f"The table was created by a later version of format {table.format} (its "
                    f"metadata have version {told['version']}, this one knows {VERSION})",
                    "Upgrade this session, or create the table anew with it",
                )
            return cls(TableUse(told["use"]), dict(told["options"]))
        return None

    def rows(self, table: OptionTable) -> RowOptions:
        """What a read of it gives; of a table for reading."""
        rows = _rows(self.options, table)
        assert rows is not None
        return rows

    def marked(self, schema: StructType, table: OptionTable) -> StructType:
        """The columns, with which the options travel."""
        told = {"version": VERSION, "use": self.use.value, "options": dict(self.options)}
        first, *others = schema.fields
        metadata = {**(first.metadata or {}), table.format: told}
        return StructType(
            [StructField(first.name, first.dataType, first.nullable, metadata), *others]
        )

    def fitting(
        self, kind: OptionKind, given: Mapping[str, str], table: OptionTable
    ) -> dict[str, str]:
        """Those for a query of this kind that gives some itself.

        One table serves streams and bounded reads. What its stream has stored is what a bounded
        read gives, unless that one is told how long to wait for the endpoint.
        """
        fit = {}
        waits = {"until", "untilTimeout"} & {*self.options, *map(table.written, given)}
        stored = (
            kind is OptionKind.BATCH_READ
            and "spool" in self.options
            and ("listen" in self.options or not waits)
        )
        for name, value in self.options.items():
            spec = table.spec(name)
            if spec is not None:
                if kind not in spec.built:
                    continue
                if stored and (name == "endpoint" or (spec.ways and "spool" not in spec.ways)):
                    continue
            fit[name] = value
        return fit


def of_query(
    given: Mapping[str, str], schema: StructType, kind: OptionKind, table: OptionTable
) -> dict[str, str]:
    """All options of a query: its own, and those of the table that it is on.

    Raises:
        InvalidOption: NOT_FOR_QUERY_TYPE where the table is for writing and this is none;
            MISSING where there are none at all.
    """
    if {table.written(key) for key in given} & WAYS:
        return dict(given)
    found = CatalogTable.of(schema, table)
    if kind in READ and found is not None and found.use is TableUse.WRITE:
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"The table is for INSERT: its options are those of a write, not of {kind.value}",
            "Read another table, with option 'spool', 'listen' or 'intakes', or 'endpoint' with "
            "'untilTimeout'",
        )
    if found is not None and (kind in READ or (kind in BATCH_WRITE and found.use.value == "write")):
        return {**found.fitting(kind, given, table), **given}
    if not given:
        raise InvalidOption("MISSING", f"No option came with {kind.value}", _WITHOUT[kind in READ])
    return dict(given)


_WITHOUT = {
    True: "Name 'spool', 'listen', 'endpoint' or 'intakes'; for a table, CREATE TABLE … USING … "
    "OPTIONS (…) without columns: of one with columns Spark hands no option on",
    False: "Name 'endpoint'; for a table, CREATE TABLE … USING … OPTIONS (endpoint '…') without "
    "columns and without AS SELECT, and then INSERT INTO it: Spark hands no option on otherwise, "
    "nor to saveAsTable of a new table or toTable",
}


@contextmanager
def table_remedies(schema: StructType, table: OptionTable) -> Iterator[None]:
    """Refusals of a query on a table say what to do about the table."""
    try:
        yield
    except (InvalidOption, SchemaMismatch) as refused:
        if not any(table.format in (column.metadata or {}) for column in schema.fields):
            raise
        raise type(refused)(
            refused.subclass,
            refused.what,
            f"{refused.remedy}; if the table says so, DROP TABLE and create it anew: what is "
            "stored stays",
        ) from None


def _refuse_properties(
    statement: Mapping[str, str], given: Mapping[str, str], table: OptionTable
) -> None:
    """TBLPROPERTIES are notes of users, unless they were meant to be options."""
    for key in statement:
        if table.spec(table.written(key)) is not None and key not in given:
            name = table.written(key)
            raise InvalidOption(
                "CONFLICT",
                f"Option '{name}' stands in TBLPROPERTIES, which say nothing to a format",
                f"Write OPTIONS ({key} '…')" if key.isalnum() else f"Write OPTIONS (`{key}` '…')",
            )


def _use(options: Mapping[str, str], table: OptionTable) -> TableUse:
    """Raises InvalidOption: no query could have these options."""
    table.refuse_unknown(options)
    foreign = [name for name in options if not _spec(table, name).built & READ]
    if not foreign and _rows(options, table) is not None:
        return TableUse.READ
    try:
        WriteOptions.parse(options, table)
    except InvalidOption as as_write:
        if "endpoint" not in options or as_write.subclass == "NOT_FOR_QUERY_TYPE":
            rows_of(options, table)
        raise
    return TableUse.WRITE


def _rows(options: Mapping[str, str], table: OptionTable) -> RowOptions | None:
    """What a read of a table with these options gives; None: there is no such read."""
    created = CatalogTable(TableUse.READ, options)
    for kind, read in _READS:
        try:
            return read.parse(created.fitting(kind, {}, table), table).rows
        except InvalidOption:
            continue
    return None


def _spec(table: OptionTable, name: str) -> OptionSpec:
    spec = table.spec(name)
    assert spec is not None
    return spec


_READS: tuple[tuple[OptionKind, type[StreamReadOptions] | type[BatchReadOptions]], ...] = (
    (OptionKind.STREAM_READ, StreamReadOptions),
    (OptionKind.BATCH_READ, BatchReadOptions),
)

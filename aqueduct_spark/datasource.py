"""A format as Spark sees it: checks at the door, everything else elsewhere.

Imported in every session that uses any Python data source, so it imports little: what needs
Flight or QUIC is imported by the method that needs it, in the process that needs it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import pyspark
from pyspark.sql.datasource import DataSource

from aqueduct_core.errors import (
    AqueductError,
    InvalidOption,
    SaveModeRefused,
    SchemaMismatch,
    VersionMismatch,
)
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.options.catalog import CatalogTable, TableUse, of_query, table_remedies
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions, rows_of
from aqueduct_spark.options.source import Source, Standalone, StoredSpools
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.table import SPARKS_OWN
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.plain_errors import plainly

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from aqueduct_spark.read.batch.planner import SettledRows
    from aqueduct_spark.write.sink import Sink


class FormatDataSource(DataSource):
    """A data source whose queries are those of a description.

    A format is a subclass with its ``description``, found by Spark as the ``DefaultSource`` of a
    module ``pyspark_*``, or made known by ``spark.dataSource.register``.
    """

    description: ClassVar[FormatDescription]

    _snapshot: SettledRows | None = None
    """The rows of a bounded read. Spark keeps this object with the frame that was loaded, so
    every action on the frame reads the same ones."""

    @classmethod
    def name(cls) -> str:
        return cls.description.name

    @plainly
    def schema(self) -> StructType:
        """The columns of a read, or of a table of the catalog. Called at ``load()`` and by CREATE
        TABLE, so all options are checked here."""
        from aqueduct_spark.model.read_schemas import open_schema

        created = CatalogTable.created(self.options, self.description.options)
        if created is not None:
            return self._columns_of(created)
        rows, source = rows_of(self.options, self.description.options)
        token = _token(source)  # a variable that is not set is refused here, not in a batch
        if isinstance(source, StoredSpools):
            self._snapshot = self._settled(self._batch_read_options(), token)
        elif isinstance(source, Standalone):
            try:
                self._snapshot = self._settled(self._batch_read_options(), token)
            except AqueductError:
                pass  # it may be meant for a stream; a bounded read meets it with its first action
        return open_schema(self.description.schema(rows), rows)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        _check_spark()
        from aqueduct_spark.model.read_schemas import decoding
        from aqueduct_spark.read.stream.reader import RefusedReader, StreamReader

        table = self.description.options
        try:
            with table_remedies(schema, table):
                given = of_query(self.options, schema, OptionKind.STREAM_READ, table)
                options = StreamReadOptions.parse(given, table)
                decode = decoding(schema, self.description.schema(options.rows), options.rows)
            _token(options.source)
        except AqueductError as error:
            return RefusedReader(error)
        return StreamReader(self.description, options, decode)

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        from aqueduct_spark.model.read_schemas import decoding
        from aqueduct_spark.read.batch.reader import BatchReader

        table = self.description.options
        with table_remedies(schema, table):
            given = of_query(self.options, schema, OptionKind.BATCH_READ, table)
            options = BatchReadOptions.parse(given, table)
            decode = decoding(schema, self.description.schema(options.rows), options.rows)
        token = _token(options.source)
        if self._snapshot is None:
            self._snapshot = self._settled(options, token)
        return BatchReader(self.description, options, token, self._snapshot, decode)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from aqueduct_spark.write.writers import BatchWriter

        sink = self._sink()
        options = self._write_options(sink, schema, overwrite, OptionKind.BATCH_WRITE)
        return BatchWriter(sink, options, Token.of(options.auth))

    @plainly
    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter | DataSourceStreamArrowWriter:
        from aqueduct_spark.write.writers import StreamWriter

        sink = self._sink()
        options = self._write_options(sink, schema, overwrite, OptionKind.STREAM_WRITE)
        return StreamWriter(sink, options, Token.of(options.auth))

    def _batch_read_options(self) -> BatchReadOptions:
        return BatchReadOptions.parse(self.options, self.description.options)

    def _columns_of(self, created: CatalogTable) -> StructType:
        from aqueduct_spark.model.read_schemas import open_schema

        table = self.description.options
        try:
            if created.use is TableUse.WRITE:
                options = WriteOptions.parse(created.options, table)
                columns = self._sink().table_schema(options)
            else:
                rows = created.rows(table)
                columns = open_schema(self.description.schema(rows), rows)
        except SchemaMismatch as refused:
            raise SchemaMismatch(
                refused.subclass,
                refused.what,
                "Set payloadFormat 'text' and use from_json or to_json, or CREATE TEMPORARY VIEW "
                "with columns: of a table with columns Spark hands no option on",
            ) from None
        return created.marked(columns, table)

    def _settled(self, options: BatchReadOptions, token: Token) -> SettledRows | None:
        """The rows of a read, where they can be told before it begins."""
        from aqueduct_spark.read.batch.planner import settle, settles

        return settle(options, token, self.description) if settles(options) else None

    def _sink(self) -> Sink:
        sink = self.description.sink()
        if sink is None:
            raise InvalidOption(
                "NOT_FOR_QUERY_TYPE",
                f"Format {self.description.name} cannot be written to",
                "Write with another format",
            )
        return sink

    def _write_options(
        self, sink: Sink, schema: StructType, overwrite: bool, kind: OptionKind
    ) -> WriteOptions:
        if overwrite:
            raise SaveModeRefused(
                "",
                "Mode overwrite (INSERT OVERWRITE, complete for a stream) is refused: messages "
                "that were sent cannot be replaced",
                'Write with mode("append") or INSERT INTO',
            )
        table = self.description.options
        own = {k: v for k, v in self.options.items() if k.lower() not in SPARKS_OWN}
        with table_remedies(schema, table):
            options = WriteOptions.parse(of_query(own, schema, kind, table), table, kind)
            sink.check_schema(schema, options)
        return options


def _check_spark() -> None:
    """Before 4.2 a stream reader of Python could not be told how much a micro-batch may hold."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise VersionMismatch(
            "",
            f"Streams are read with Spark 4.2 or newer, and this is {pyspark.__version__}",
            "Use a newer Spark",
        )


def _token(source: Source) -> Token:
    return Token() if isinstance(source, StoredSpools) else Token.of(source.auth)

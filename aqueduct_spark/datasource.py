"""The format ``aqueduct`` as Spark sees it: checks at the door, everything else elsewhere.

Imported in every session that uses any Python data source, so it imports little: what needs
Flight or QUIC is imported by the method that needs it, in the process that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from aqueduct_core.errors import AqueductError, SaveModeRefused
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions, rows_of
from aqueduct_spark.options.source import Source, Standalone, StoredSpools
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.options.write import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from aqueduct_spark.read.batch.planner import Snapshot


SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})
"""Options of a streaming write that Spark reads itself and hands on."""


class AqueductDataSource(DataSource):
    """Channels of the Aqueduct protocol.

    ``spark.readStream.format("aqueduct")`` accepts producers; ``df.write.format("aqueduct")``
    sends rows to an endpoint. Options are refused at ``load()`` and ``save()``.
    """

    _snapshot: Snapshot | None = None
    """The rows of a bounded read. Spark keeps this object with the frame that was loaded, so
    every action on the frame reads the same ones."""

    @classmethod
    def name(cls) -> str:
        return "aqueduct"

    def schema(self) -> StructType:
        """The columns of a read. Called at ``load()``, so all options are checked here."""
        from aqueduct_spark.model.read_schemas import open_schema

        rows, source = rows_of(self.options)
        token = _token(source)  # a variable that is not set is refused here, not in a batch
        if isinstance(source, StoredSpools):
            self._snapshot = _settled(BatchReadOptions.parse(self.options), token)
        elif isinstance(source, Standalone):
            try:
                self._snapshot = _settled(BatchReadOptions.parse(self.options), token)
            except AqueductError:
                pass  # it may be meant for a stream; a bounded read meets it with its first action
        return open_schema(rows)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from aqueduct_spark.model.read_schemas import decoding
        from aqueduct_spark.read.stream.reader import AqueductStreamReader

        options = StreamReadOptions.parse(self.options)
        _token(options.source)
        return AqueductStreamReader(options, decoding(schema, options.rows))

    def reader(self, schema: StructType) -> DataSourceReader:
        from aqueduct_spark.model.read_schemas import decoding
        from aqueduct_spark.read.batch.reader import AqueductBatchReader

        options = BatchReadOptions.parse(self.options)
        decode = decoding(schema, options.rows)
        token = _token(options.source)
        if self._snapshot is None:
            self._snapshot = _settled(options, token)
        return AqueductBatchReader(options, token, self._snapshot, decode)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from aqueduct_spark.write.batch_writer import AqueductBatchWriter

        options = self._write_options(schema, overwrite, OptionKind.BATCH_WRITE)
        return AqueductBatchWriter(options, Token.of(options.auth))

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter | DataSourceStreamArrowWriter:
        from aqueduct_spark.write.stream_writer import AqueductStreamWriter

        options = self._write_options(schema, overwrite, OptionKind.STREAM_WRITE)
        return AqueductStreamWriter(options, Token.of(options.auth))

    def _write_options(self, schema: StructType, overwrite: bool, kind: OptionKind) -> WriteOptions:
        from aqueduct_spark.model.write_schemas import check_write_schema

        if overwrite:
            raise SaveModeRefused(
                "",
                "Mode overwrite (complete for a stream) is refused: messages that were sent "
                "cannot be replaced",
                'Write with mode("append")',
            )
        given = {k: v for k, v in self.options.items() if k.lower() not in SPARKS_OWN}
        options = WriteOptions.parse(given, kind)
        check_write_schema(schema, options.payload_format, by_source=options.by_source)
        return options


def _token(source: Source) -> Token:
    return Token() if isinstance(source, StoredSpools) else Token.of(source.auth)


def _settled(options: BatchReadOptions, token: Token) -> Snapshot | None:
    """The rows of a read, where they can be told before it begins."""
    from aqueduct_spark.read.batch.planner import settle, settles

    return settle(options, token) if settles(options) else None

"""The format ``aqueduct`` as Spark sees it: checks at the door, everything else elsewhere.

Imported in every session that uses any Python data source, so it imports little: what needs
Flight or QUIC is imported by the method that needs it, in the process that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from aqueduct_core.errors import InvalidOption, SaveModeRefused
from aqueduct_spark.model.option_spec import Kind
from aqueduct_spark.model.read_options import StreamReadOptions, rows_of
from aqueduct_spark.model.source import Stored
from aqueduct_spark.model.tokens import Token
from aqueduct_spark.model.write_options import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class AqueductDataSource(DataSource):
    """Channels of the Aqueduct protocol.

    ``spark.readStream.format("aqueduct")`` accepts producers; ``df.write.format("aqueduct")``
    sends rows to an endpoint. Options are refused at ``load()`` and ``save()``.
    """

    @classmethod
    def name(cls) -> str:
        return "aqueduct"

    def schema(self) -> StructType:
        """The columns of a read. Called at ``load()``, so all options are checked here."""
        from aqueduct_spark.model.schemas import read_schema

        rows, source = rows_of(self.options)
        if not isinstance(source, Stored):
            Token.of(source.auth)  # a variable that is not set is refused here, not in a batch
        return read_schema(rows)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from aqueduct_spark.model.schemas import check_read_schema
        from aqueduct_spark.read.stream_reader import AqueductStreamReader

        check_read_schema(schema, self.schema())
        return AqueductStreamReader(StreamReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            "Format aqueduct has no batch read in this version",
            "Use spark.readStream, with trigger(availableNow=True) for a bounded run",
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from aqueduct_spark.write.batch_writer import AqueductBatchWriter

        options = self._write_options(schema, overwrite, Kind.BATCH_WRITE)
        return AqueductBatchWriter(options, Token.of(options.auth))

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter | DataSourceStreamArrowWriter:
        from aqueduct_spark.write.stream_writer import AqueductStreamWriter

        options = self._write_options(schema, overwrite, Kind.STREAM_WRITE)
        return AqueductStreamWriter(options, Token.of(options.auth))

    def _write_options(self, schema: StructType, overwrite: bool, kind: Kind) -> WriteOptions:
        from aqueduct_spark.model.write_schemas import check_write_schema

        if overwrite:
            raise SaveModeRefused(
                "",
                "Mode overwrite (complete for a stream) is refused: messages that were sent "
                "cannot be replaced",
                'Write with mode("append")',
            )
        options = WriteOptions.parse(self.options, kind)
        check_write_schema(schema, options.payload_format)
        return options

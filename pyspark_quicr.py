"""Lets Spark find format ``quicr`` by itself, as `pyspark_aqueduct` does format ``aqueduct``: one
module for each format, as Spark takes one ``DefaultSource`` of a module. Never raises."""

import warnings

try:
    from aqueduct_spark.formats.quicr.format import QuicrDataSource as DefaultSource  # noqa: F401
except Exception as _error:
    try:
        warnings.warn(f"format quicr is not available: {_error}", stacklevel=2)
    except Warning:  # where warnings are errors
        pass

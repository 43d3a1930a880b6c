"""Lets Spark find format ``telehash`` by itself, as `pyspark_aqueduct` does format ``aqueduct``:
one module for each format, as Spark takes one ``DefaultSource`` of a module. Never raises."""

import warnings

try:
    from aqueduct_spark.formats.telehash.format import (  # noqa: F401
        TelehashDataSource as DefaultSource,
    )
except Exception as _error:
    try:
        warnings.warn(f"format telehash is not available: {_error}", stacklevel=2)
    except Warning:  # where warnings are errors
        pass

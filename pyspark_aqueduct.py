"""Lets Spark find format ``aqueduct`` by itself.

Spark imports every top-level module whose name begins with ``pyspark_`` when a session first uses
a Python data source, and takes the ``DefaultSource`` in it. A module that fails there would break
sessions that have nothing to do with it, so this one never raises.
"""

import warnings

try:
    from aqueduct_spark.formats.aqueduct.format import AqueductDataSource as DefaultSource  # noqa: F401
except Exception as _error:
    try:
        warnings.warn(f"format aqueduct is not available: {_error}", stacklevel=2)
    except Warning:  # where warnings are errors
        pass

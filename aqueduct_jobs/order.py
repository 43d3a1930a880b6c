"""The order in which rows are sent: the same each time, so that a row keeps its number.

A task that is done again, or a job that is run again, sends the row that comes first under the
number of the row that came first before. What comes out of a shuffle has no order of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType


def total_order(frame: DataFrame, first: Sequence[str]) -> list[str]:
    """The columns ``first`` and behind them all others that can be compared, so that rows which are
    equal in that order are the same to whoever gets them."""
    others = [field.name for field in frame.schema.fields if _compares(field.dataType)]
    return [*first, *(f"`{name}`" for name in others if name not in first)]


def _compares(kind: DataType) -> bool:
    match kind:
        case MapType() | VariantType():
            return False
        case ArrayType():
            return _compares(kind.elementType)
        case StructType():
            return all(_compares(field.dataType) for field in kind.fields)
    return True

"""The table of options of format ``aqueduct``: one row each, the source of docs/options.md."""

from __future__ import annotations

from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.source_specs import SOURCE_SPECS, limit_specs
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.write_specs import WRITE_SPECS

AQUEDUCT_OPTIONS = OptionTable(
    "aqueduct",
    ("aqueduct",),
    (*SOURCE_SPECS, *limit_specs(AqueductLimits), *READ_SPECS, *WRITE_SPECS),
    limits=AqueductLimits,
)

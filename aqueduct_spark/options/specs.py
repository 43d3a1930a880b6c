"""The table of all options: one row each, the source of the parsing and of docs/options.md."""

from __future__ import annotations

from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.source_specs import SOURCE_SPECS
from aqueduct_spark.options.spec import OptionSpec
from aqueduct_spark.options.write_specs import WRITE_SPECS

OPTION_SPECS: tuple[OptionSpec, ...] = SOURCE_SPECS + READ_SPECS + WRITE_SPECS

SPEC_OF: dict[str, OptionSpec] = {spec.name.lower(): spec for spec in OPTION_SPECS}

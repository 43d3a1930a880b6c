"""From a map of texts to typed values by the table of options, and how refusals read.

Each refusal names the option, the value, and what to write instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.specs import OPTION_SPECS, SPEC_OF


def parse_options(options: Mapping[str, str], kind: OptionKind) -> dict[str, Any]:
    """All options of the table by their written names; None where there is no value."""
    given = {key.lower(): value for key, value in options.items()}
    for key in given:
        _refuse_foreign(key, kind)
    found: dict[str, Any] = {}
    for spec in OPTION_SPECS:
        value = given.get(spec.name.lower(), spec.default)
        if value is None or kind not in spec.built:
            found[spec.name] = None
            continue
        try:
            found[spec.name] = spec.parse(value)
        except ValueError as error:
            shown = "…" if spec.private else value
            raise bad_value(spec.name, shown, str(error)) from None
        if spec.only and found[spec.name] not in spec.only:
            raise bad_value(
                spec.name,
                value,
                " or ".join(spec.only) + " (other values are not supported by this version)",
            )
    return found


def given_names(options: Mapping[str, str]) -> frozenset[str]:
    """The options that the user wrote, by their names in the table; unknown ones left out."""
    return frozenset(SPEC_OF[key.lower()].name for key in options if key.lower() in SPEC_OF)


def _refuse_foreign(key: str, kind: OptionKind) -> None:
    """Refuse an option that is not known, or not for this kind of query, or not built yet."""
    spec = SPEC_OF.get(key)
    if spec is None:
        near = difflib.get_close_matches(key, SPEC_OF, n=1, cutoff=0.5)
        hint = f"The nearest one is '{SPEC_OF[near[0]].name}'" if near else "Remove it"
        raise InvalidOption("UNKNOWN", f"Option '{key}' is not known to format aqueduct", hint)
    if kind in spec.built:
        return
    if kind in spec.kinds:
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{spec.name}' is not supported by this version for {kind.value}",
            "Remove it, or use a version that has it",
        )
    fitting = " or ".join(sorted(k.value for k in spec.kinds))
    raise InvalidOption(
        "NOT_FOR_QUERY_TYPE",
        f"Option '{spec.name}' is not for {kind.value} but for {fitting}",
        "Remove it",
    )


def missing(name: str, what: str) -> InvalidOption:
    return InvalidOption("MISSING", f"Option '{name}' is missing: {what}", f"Set '{name}'")


def bad_value(name: str, value: str, allowed: str) -> InvalidOption:
    return InvalidOption(
        "BAD_VALUE", f"Option '{name}' is '{value}'; it must be {allowed}", f"Correct '{name}'"
    )


def conflict(what: str, remedy: str) -> InvalidOption:
    return InvalidOption("CONFLICT", f"Options contradict each other: {what}", remedy)

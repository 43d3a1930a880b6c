"""The options of one format: its rows, and the way from a map of texts to typed values by them.

Each refusal names the option, the value, and what to write instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.service import Limits
from aqueduct_spark.options import values
from aqueduct_spark.options.refusals import bad_value
from aqueduct_spark.options.spec import READ, WRITE, OptionKind, OptionSpec


def _nothing(found: Mapping[str, Any]) -> Any:
    return None


@dataclass(frozen=True)
class OptionTable:
    """All options that a format knows, whatever a query does with it.

    Args:
        format: its name, for refusals.
        schemes: of its endpoints, the usual one first; row ``endpoint`` follows from them.
        rows: of the options that every format has, and of its own, in the order of the page.
        limits: of the intakes that its queries start.
        own_read: of the values of a read, by name, what the format makes of its own options: a
            frozen value, or nothing; ``own`` of the typed rows. Raises InvalidOption.
        own_write: the same of a write; ``own`` of its typed options.
    """

    format: str
    schemes: tuple[str, ...]
    rows: tuple[OptionSpec, ...]
    limits: type[Limits] = Limits
    own_read: Callable[[Mapping[str, Any]], Any] = _nothing
    own_write: Callable[[Mapping[str, Any]], Any] = _nothing

    @cached_property
    def specs(self) -> tuple[OptionSpec, ...]:
        """Every row, ``endpoint`` first."""
        endpoint = OptionSpec(
            "endpoint",
            values.endpoint(*self.schemes),
            None,
            READ | WRITE,
            READ | WRITE,
            f"Whom to dial: {self.example}:port[,host:port…]. A read dials all of them, a write "
            "spreads its channels over them (endpointPolicy).",
        )
        return (endpoint, *self.rows)

    @property
    def example(self) -> str:
        """An endpoint without its port, for texts."""
        return f"{self.schemes[0]}://host"

    def parse(self, options: Mapping[str, str], kind: OptionKind) -> dict[str, Any]:
        """All options by their written names; None where there is no value.

        Raises:
            InvalidOption: UNKNOWN, NOT_FOR_QUERY_TYPE or BAD_VALUE, for the first that is wrong.
        """
        given = {key.lower(): value for key, value in options.items()}
        for key in given:
            self._refuse_foreign(key, kind)
        return {spec.name: _value(spec, given, kind) for spec in self.specs}

    def given(self, options: Mapping[str, str]) -> frozenset[str]:
        """The options that the user wrote, by their names in the table; unknown ones left out."""
        return frozenset(
            self._by_key[key.lower()].name for key in options if key.lower() in self._by_key
        )

    def spec(self, name: str) -> OptionSpec | None:
        """The row of an option, written in any case; None: it is not known."""
        return self._by_key.get(name.lower())

    def written(self, key: str) -> str:
        """The name of an option as the table has it; of one that is not known the ``key``."""
        spec = self.spec(key)
        return key if spec is None else spec.name

    def refuse_unknown(self, options: Iterable[str]) -> None:
        """Raises InvalidOption.UNKNOWN."""
        for key in options:
            if self.spec(key) is None:
                raise self._unknown(key.lower())

    @cached_property
    def _by_key(self) -> dict[str, OptionSpec]:
        return {spec.name.lower(): spec for spec in self.specs}

    def _refuse_foreign(self, key: str, kind: OptionKind) -> None:
        """Refuse an option that is not known, or not for this kind of query, or not built yet."""
        spec = self._by_key.get(key)
        if spec is None:
            raise self._unknown(key)
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

    def _unknown(self, key: str) -> InvalidOption:
        if key == "path":
            return InvalidOption(
                "UNKNOWN",
                f"Option 'path', the argument of load(), save() or start(), is not known to format "
                f"{self.format}",
                "Name the directory of the log by 'spool', a peer by 'endpoint'",
            )
        near = difflib.get_close_matches(key, self._by_key, n=1, cutoff=0.5)
        hint = f"The nearest one is '{self._by_key[near[0]].name}'" if near else "Remove it"
        return InvalidOption(
            "UNKNOWN", f"Option '{key}' is not known to format {self.format}", hint
        )


def behind(
    name: str, rows: tuple[OptionSpec, ...], own: tuple[OptionSpec, ...]
) -> tuple[OptionSpec, ...]:
    """``rows`` with the ``own`` ones of a format behind the row of that name."""
    at = [row.name for row in rows].index(name) + 1
    return (*rows[:at], *own, *rows[at:])


def _value(spec: OptionSpec, given: Mapping[str, str], kind: OptionKind) -> Any:
    value = given.get(spec.name.lower(), spec.default)
    if value is None or kind not in spec.built:
        return None
    try:
        return spec.parse(value)
    except ValueError as error:
        raise bad_value(spec.name, "…" if spec.private else value, str(error)) from None

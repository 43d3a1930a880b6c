"""The options of one format: its rows, and the way from a map of texts to typed values by them.

Each refusal names the option, the value, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.service import Limits
from aqueduct_core.primitives.settings import nearest
from aqueduct_spark.options import values
from aqueduct_spark.options.refusals import bad_value, conflict
from aqueduct_spark.options.spec import READ, WRITE, OptionKind, OptionSpec
from aqueduct_spark.options.values import Endpoint

WAYS = frozenset({"endpoint", "listen", "intakes"})
"""What says where messages come from, and so what else has a meaning."""

_OF_QUIC = frozenset({"transport", "earlyData", "sessionDirectory", "maxDatagramBytes"})

SPARKS_OWN = {"checkpointlocation": "checkpointLocation", "queryname": "queryName"}
"""Options of a streaming write that Spark reads itself and hands on, as Spark writes them."""


def _nothing(found: Mapping[str, Any]) -> Any:
    return None


@dataclass(frozen=True)
class OptionTable:
    """All options that a format knows, whatever a query does with it.

    Args:
        format: its name, for refusals.
        schemes: of its endpoints, the usual one first; row ``endpoint`` follows from them.
        plain: those of them that stand for a carrier without TLS. Where there are any, what has no
            scheme has the usual one, and ``listen`` has schemes as well.
        rows: of the options that every format has, and of its own, in the order of the page.
        limits: of the intakes that its queries start.
        own_read: of the values of a read, by name, what the format makes of its own options: a
            frozen value, or nothing; ``own`` of the typed rows. Raises InvalidOption.
        own_write: the same of a write; ``own`` of its typed options.
        page: the one that shows the rows.
    """

    format: str
    schemes: tuple[str, ...]
    rows: tuple[OptionSpec, ...]
    limits: type[Limits] = Limits
    own_read: Callable[[Mapping[str, Any]], Any] = _nothing
    own_write: Callable[[Mapping[str, Any]], Any] = _nothing
    page: str = "docs/options.md"
    plain: frozenset[str] = frozenset()

    @cached_property
    def specs(self) -> tuple[OptionSpec, ...]:
        """Every row, ``endpoint`` first."""
        endpoint = OptionSpec(
            "endpoint",
            values.endpoint(*self.schemes, bare=bool(self.plain)),
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
            InvalidOption: UNKNOWN, NOT_FOR_QUERY_TYPE or BAD_VALUE, for the first that is wrong;
                that is the way to messages where it is one of another kind of query.
        """
        given = {key.lower(): value for key, value in options.items()}
        for key in sorted(given, key=lambda key: key not in WAYS):
            self._refuse_foreign(key, kind)
        return {spec.name: _value(spec, given, kind) for spec in self.specs}

    def given(self, options: Mapping[str, str]) -> frozenset[str]:
        """The options that the user wrote, by their names in the table; unknown ones left out."""
        return frozenset(
            self._by_key[key.lower()].name for key in options if key.lower() in self._by_key
        )

    def refuse_tls(self, at: Endpoint | None, given: frozenset[str]) -> None:
        """Of a peer that is reached without TLS, or of a listener without.

        Raises:
            InvalidOption: CONFLICT for an option that says something of TLS.
        """
        if at is None or at.scheme not in self.plain:
            return
        for name in sorted(given):
            if name.startswith("tls.") or name in _OF_QUIC:
                raise conflict(
                    f"'{name}' has no meaning with {at.scheme}://, which is neither QUIC nor TLS",
                    f"Remove '{name}', or use {self.schemes[0]}://",
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

    def only(self, given: frozenset[str], kind: OptionKind) -> list[str]:
        """Of the options given, by their names in the table, those for this kind of query alone."""
        return [spec.name for spec in self.specs if spec.name in given and spec.uses == {kind}]

    def _refuse_foreign(self, key: str, kind: OptionKind) -> None:
        """Refuse an option that is not known, or not for this kind of query."""
        spec = self._by_key.get(key)
        if spec is None:
            raise self._unknown(key)
        if kind in spec.built:
            return
        because = f": {spec.reason}" if spec.reason else ""
        if not spec.built:
            raise InvalidOption(
                "NOT_FOR_QUERY_TYPE",
                f"Option '{spec.name}' has no meaning with format {self.format}{because}",
                "Remove it",
            )
        fitting = sorted(spec.uses, key=lambda kind: kind.value)
        raise InvalidOption(
            "NOT_FOR_QUERY_TYPE",
            f"Option '{spec.name}' is not for {kind.value} but for "
            + " or ".join(kind.value for kind in fitting)
            + because,
            f"Remove it; it belongs to {' or '.join(kind.method for kind in fitting)}",
        )

    def _unknown(self, key: str) -> InvalidOption:
        if key == "path":
            return InvalidOption(
                "UNKNOWN",
                f"Option 'path', the argument of load(), save() or start(), is not known to format "
                f"{self.format}",
                "Name the directory of the log by 'spool', a peer by 'endpoint'",
            )
        if key in SPARKS_OWN:
            return InvalidOption(
                "NOT_FOR_QUERY_TYPE",
                f"Option '{SPARKS_OWN[key]}' is for the query that is started, and not for what "
                "it reads",
                "Remove it here; it belongs to df.writeStream",
            )
        near = nearest(key, [spec.name for spec in self.specs])
        return InvalidOption(
            "UNKNOWN",
            f"Option '{key}' is not known to format {self.format}",
            f"The nearest one is '{near}'" if near else f"Remove it; {self.page} has them all",
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

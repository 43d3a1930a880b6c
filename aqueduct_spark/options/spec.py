"""What a row of the table of options says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from aqueduct_core.primitives.settings import Setting
from aqueduct_spark.options import values


class OptionKind(Enum):
    """What a query does with the format."""

    STREAM_READ = "a stream read"
    BATCH_READ = "a batch read"
    STREAM_WRITE = "a stream write"
    BATCH_WRITE = "a batch write"

    @property
    def method(self) -> str:
        """Of Spark, that makes such a query."""
        return _METHODS[self]


_METHODS = {
    OptionKind.STREAM_READ: "spark.readStream",
    OptionKind.BATCH_READ: "spark.read",
    OptionKind.STREAM_WRITE: "df.writeStream",
    OptionKind.BATCH_WRITE: "df.write",
}


READ = frozenset({OptionKind.STREAM_READ, OptionKind.BATCH_READ})
WRITE = frozenset({OptionKind.STREAM_WRITE, OptionKind.BATCH_WRITE})
STREAM_READ = frozenset({OptionKind.STREAM_READ})
BATCH_READ = frozenset({OptionKind.BATCH_READ})
BATCH_WRITE = frozenset({OptionKind.BATCH_WRITE})
STREAM_WRITE = frozenset({OptionKind.STREAM_WRITE})

LAUNCHED = frozenset({"endpoint", "listen"})
"""The ways to messages of intakes that the query launches."""


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option.

    It is known when it has a row, and usable for the kinds of query in ``built``. The kinds in
    ``kinds`` but not in ``built`` are planned: the option is refused by its name, never ignored.

    Args:
        name: as users write it; case does not count.
        parse: text to value; raises ``ValueError`` with what is allowed.
        default: as a user would write it; None where there is none.
        kinds: the kinds of query it is meant for.
        built: the kinds of query that this version does it for.
        doc: one sentence for users.
        private: the value may hold a secret: no refusal shows it, and no table keeps it.
        ways: of the ways to messages (``listen``, ``endpoint``, ``intakes``, ``spool``) those with
            which it has a meaning in a read; none are all.
        messages_only: it has no meaning in other views.
        reason: why it has no meaning where it is refused, for that refusal.
    """

    name: str
    parse: Callable[[str], Any]
    default: str | None
    kinds: frozenset[OptionKind]
    built: frozenset[OptionKind]
    doc: str
    private: bool = False
    ways: frozenset[str] = frozenset()
    messages_only: bool = False
    reason: str = ""

    @property
    def uses(self) -> frozenset[OptionKind]:
        """The kinds of query that have it; those that it is planned for where none has."""
        return self.built or self.kinds

    @classmethod
    def of(
        cls,
        setting: Setting,
        kinds: frozenset[OptionKind],
        built: frozenset[OptionKind] | None = None,
        ways: frozenset[str] = LAUNCHED,
    ) -> OptionSpec:
        """The row of a setting of an intake, as its definition says."""
        return cls(
            setting.name,
            values.of_setting(setting),
            setting.written,
            kinds,
            kinds if built is None else built,
            setting.text,
            ways=ways,
        )


def fitted(
    rows: Iterable[OptionSpec],
    *,
    unused: Mapping[str, str],
    no_token: str | None = None,
    tokenless: str = "",
) -> tuple[OptionSpec, ...]:
    """The rows of every format as one of them has them.

    Args:
        unused: options that have no meaning in it, and why.
        no_token: why its protocol has no place for a token, where it has none: then ``auth.*`` is
            that of standalone intakes alone.
        tokenless: the same for the page, as a sentence.
    """

    def fit(spec: OptionSpec) -> OptionSpec:
        if spec.name in unused:
            return replace(spec, built=frozenset(), reason=unused[spec.name])
        if no_token is None or spec.name not in _TOKENS:
            return spec
        return replace(
            spec,
            kinds=READ,
            built=READ,
            ways=frozenset({"intakes"}),
            doc=f"With intakes: the {_TOKENS[spec.name]} {tokenless}",
            reason=no_token,
        )

    return tuple(map(fit, rows))


_TOKENS = {
    "auth.tokenFile": "file with the bearer token of the spools of the intakes.",
    "auth.tokenEnv": "environment variable of the driver with it.",
}

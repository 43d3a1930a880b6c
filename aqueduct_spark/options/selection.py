"""Which rows of a view a read wants, by what names their channel and who sent them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows whose channel and producer fit; without any bound, all rows.

    ``channels`` and ``pattern`` exclude each other. The pattern is a regular expression of
    Python's ``re`` that has to match the whole name. A row without a channel or a producer fits
    no bound on it.

    Raises:
        ValueError: both bounds on channels are given, or the pattern is no regular expression.
    """

    channels: tuple[str, ...] | None = None
    pattern: str | None = None
    producers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.channels is not None and self.pattern is not None:
            raise ValueError("channels by name or by pattern, not both")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None

    @property
    def everything(self) -> bool:
        """Whether no row can be left out."""
        return self.channels is None and self.pattern is None and self.producers is None

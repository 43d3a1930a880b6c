"""Frozen values that have one JSON form: their fields, by their names in camel case."""

from __future__ import annotations

from typing import Any, Self

import msgspec


class JsonForm(msgspec.Struct, frozen=True, rename="camel"):
    """Made of JSON strictly, each value of its type; unknown keys are left aside, so that an older
    program reads what a newer one tells."""

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = msgspec.to_builtins(self, enc_hook=dict)  # mappings of other classes
        return form

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The inverse of `to_json`. Raises ValueError for what is none."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"no {cls.__name__}: {error}") from None

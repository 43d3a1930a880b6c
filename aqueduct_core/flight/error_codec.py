"""How an AqueductError crosses a process boundary as data and comes back as the same class."""

from __future__ import annotations

from typing import Any

import msgspec

from aqueduct_core import errors
from aqueduct_core.errors import AqueductError
from aqueduct_core.primitives.json_file import JsonForm

_CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, AqueductError)
}


class ErrorForm(JsonForm, frozen=True):
    """What goes over the wire of one."""

    name: str = msgspec.field(name="class")
    subclass: str
    what: str
    remedy: str

    @classmethod
    def of(cls, error: AqueductError) -> ErrorForm:
        return cls(type(error).__name__, error.subclass, error.what, error.remedy)

    @property
    def error(self) -> AqueductError | None:
        """None when it is none of ours, or of a newer release."""
        kind = _CLASSES.get(self.name)
        if kind is None or self.subclass not in kind.subclasses:
            return None
        return kind(self.subclass, self.what, self.remedy)


def to_json(error: AqueductError) -> dict[str, str]:
    return ErrorForm.of(error).to_json()


def from_json(data: Any) -> AqueductError | None:
    """The error that ``data`` describes, or None when it describes none of ours."""
    try:
        return ErrorForm.from_json(data).error
    except ValueError:
        return None


def pack(error: AqueductError) -> bytes:
    return msgspec.json.encode(ErrorForm.of(error))


def unpack(data: bytes | None) -> AqueductError | None:
    """The inverse of `pack`; None for anything else."""
    try:
        return msgspec.json.decode(data or b"null", type=ErrorForm).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

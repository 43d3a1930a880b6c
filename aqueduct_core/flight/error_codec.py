"""How an AqueductError crosses a process boundary as data and comes back as the same class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aqueduct_core import errors
from aqueduct_core.errors import AqueductError

_CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, AqueductError)
}


def to_json(error: AqueductError) -> dict[str, str]:
    return {
        "class": type(error).__name__,
        "subclass": error.subclass,
        "what": error.what,
        "remedy": error.remedy,
    }


def from_json(data: Mapping[str, Any]) -> AqueductError | None:
    """The error that ``data`` describes, or None when it describes none of ours."""
    kind = _CLASSES.get(str(data.get("class")))
    subclass = str(data.get("subclass"))
    if kind is None or subclass not in kind.subclasses:
        return None
    return kind(subclass, str(data.get("what")), str(data.get("remedy")))


def pack(error: AqueductError) -> bytes:
    return json.dumps(to_json(error)).encode()


def unpack(data: bytes | None) -> AqueductError | None:
    """The inverse of `pack`; None for anything else."""
    try:
        value = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    return from_json(value) if isinstance(value, dict) else None

"""Values with one JSON form, and small JSON files beside a spool, each with a version: read, and
replaced durably."""

from __future__ import annotations

import errno
import json
import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives import atomic_file

VERSION = 1

Value = TypeVar("Value")


def unusable(path: Path, error: OSError, remedy: str) -> SpoolFailed:
    """What to tell of a file or directory of a spool that cannot be used: FORBIDDEN, with whom it
    belongs to, or IO with the ``remedy``."""
    if not isinstance(error, PermissionError):
        return SpoolFailed("IO", f"{path} cannot be used: {error.strerror or error}", remedy)
    seen = Path(error.filename or path)
    while not _visible(seen) and seen != seen.parent:
        seen = seen.parent
    owner, user = _user(seen.stat().st_uid), _user(os.geteuid())
    if owner == user:
        whose, remedy = "its owner may not use it", f"Give {user} the right to read and write it"
    else:
        what = "it" if seen == path else seen
        whose = f"{what} belongs to {owner}, and this process runs as {user}"
        remedy = f"Run it as {owner}: the files of a spool are for their owner alone"
    return SpoolFailed("FORBIDDEN", f"{path} cannot be used: {whose}", remedy)


def _visible(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


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


def load(path: Path, parse: Callable[[dict[str, Any]], Value], remedy: str) -> Value | None:
    """What ``parse`` makes of the object in the file; None where there is no file.

    Args:
        parse: raises ValueError, KeyError, TypeError or AttributeError for what is none of ours.
        remedy: what to do where the file is damaged.

    Raises:
        SpoolFailed: CORRUPT, VERSION (a newer release wrote it), IO.
    """
    try:
        content = json.loads(path.read_bytes())
        version = int(content["v"])
        if version == VERSION:
            return parse(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error, "Make it readable for the intake") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SpoolFailed("CORRUPT", f"{path} is damaged", remedy) from None
    raise SpoolFailed(
        "VERSION",
        f"{path} has version {version}, this release reads {VERSION}",
        "Use the release that wrote it, or a newer one",
    )


def packed(content: Mapping[str, Any]) -> bytes:
    return json.dumps({"v": VERSION, **content}).encode() + b"\n"


def save(path: Path, content: Mapping[str, Any]) -> None:
    """
    Raises:
        SpoolFailed: FULL, IO.
    """
    try:
        atomic_file.replace(path, packed(content))
    except OSError as error:
        raise not_written(path, error) from None


def create(path: Path, content: Mapping[str, Any]) -> bool:
    """As `save`, where there is no file yet; false, and no effect, where there is one: of several
    that create it at a time one succeeds.

    Raises:
        SpoolFailed: FULL, IO.
    """
    try:
        return atomic_file.create(path, packed(content))
    except OSError as error:
        raise not_written(path, error) from None


def not_written(path: Path, error: OSError) -> SpoolFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpoolFailed("FULL", f"there is no space for {path}", "Free some on that disk")
    return SpoolFailed(
        "IO",
        f"{path} cannot be written: {error.strerror}",
        "Make the spool directory writable for the user of the intake",
    )

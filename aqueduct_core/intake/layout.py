"""Which logs the spool of an intake has: one for each message partition, then one of events."""

from __future__ import annotations

import json
import re
from pathlib import Path

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.primitives import atomic_file
from aqueduct_core.spool.identity import load_identity

LAYOUT = "intake.json"
VERSION = 1

_OF_A_QUERY = re.compile(r"intake-(\d+)")


def number_of(directory: Path) -> int | None:
    """The number of the intake of a query whose spool directory has this name; None for the
    directory of an intake that runs on its own."""
    match = _OF_A_QUERY.fullmatch(directory.name)
    return None if match is None else int(match[1])


def named_by_users(directory: Path) -> Path:
    """What users call the spool of an intake: the ``spool`` option of its query, or the directory
    itself."""
    return directory if number_of(directory) is None else directory.parent


def settle_layout(directory: Path, partitions: int) -> None:
    """Make sure that the spool in ``directory`` has, or will have, so many message partitions.

    The number is kept in a file, for a spool with three logs does not tell whether the last one
    holds events. A spool without the file is from before there were events; it gets its log of
    events when it is opened. Made once, whole, durable, and never changed.

    Raises:
        InvalidOption: CONFLICT when the spool was made with another number.
        SpoolFailed: CORRUPT, VERSION or IO of that file.
    """
    path = directory / LAYOUT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        known = _read(path)
        if known is None:
            identity = load_identity(directory)
            if identity is not None and identity.partitions != partitions:
                raise _conflict(directory, identity.partitions, partitions)
            # where another intake is first, it will also have the lock
            atomic_file.create(path, json.dumps({"v": VERSION, "partitions": partitions}).encode())
            known = _read(path)
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"{path} cannot be used: {error.strerror}",
            "Make the spool directory writable for the user of the intake",
        ) from None
    if known != partitions:
        raise _conflict(directory, known, partitions)


def layout_of(directory: Path) -> int | None:
    """How many message partitions the spool in ``directory`` has; None where it is not told.

    Raises:
        SpoolFailed: CORRUPT, VERSION or IO of the file that tells it.
    """
    path = directory / LAYOUT
    try:
        return _read(path)
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"{path} cannot be read: {error.strerror}",
            "Make the spool directory readable for the user of the read",
        ) from None


def _read(path: Path) -> int | None:
    try:
        content = json.loads(path.read_bytes())
        version, partitions = int(content["v"]), int(content["partitions"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise SpoolFailed(
            "CORRUPT",
            f"{path} is damaged",
            f'Write {{"v": {VERSION}, "partitions": N}} into it, N as the query has set it',
        ) from None
    if version != VERSION:
        raise SpoolFailed(
            "VERSION",
            f"{path} has version {version}, this release reads {VERSION}",
            "Use the release that wrote it, or a newer one",
        )
    return partitions


def _conflict(directory: Path, known: int | None, asked: int) -> InvalidOption:
    return InvalidOption(
        "CONFLICT",
        f"{directory} was made with {known} partitions, not {asked}",
        f"Set partitionsPerIntake to {known}, or use another directory",
    )

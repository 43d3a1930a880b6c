"""Which logs the spool of an intake has: one for each message partition, then one of events; and of
which protocol its messages are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.primitives import atomic_file
from aqueduct_core.primitives.atomic_file import make_directories
from aqueduct_core.spool.identity import load_identity, spool_in

LOG_FILE = "intake.log"
"""What an intake that a query has launched logs to, in the directory of its spool."""

LAYOUT = "intake.json"
VERSION = 1

OLD_PROTOCOL = "aqueduct"
"""Of spools whose file names none: earlier releases knew no other."""

WITH_EVENTS = 3
"""The format of the spool since which intakes have made none without a log of events."""

_OF_A_QUERY = re.compile(r"intake-(\d+)")


class StoredProtocol(NamedTuple):
    """Of which protocol messages are. ``adapter`` is what finds those who know it
    (`aqueduct_core.intake.adapter.adapter_named`)."""

    name: str
    adapter: str


class _Layout(NamedTuple):
    partitions: int
    protocol: StoredProtocol


def number_of(directory: Path) -> int | None:
    """The number of the intake of a query whose spool directory has this name; None for the
    directory of an intake that runs on its own."""
    match = _OF_A_QUERY.fullmatch(directory.name)
    return None if match is None else int(match[1])


def spools_below(directory: Path) -> list[int]:
    """The numbers of the intakes of a query that have a spool in this directory, ascending, as far
    as it can be seen from here.

    Raises:
        OSError: the disk failed.
    """
    found = [each for each in directory.iterdir() if each.is_dir()] if directory.is_dir() else []
    numbers = [number_of(each) for each in found if spool_in(each) is not None]
    return sorted(number for number in numbers if number is not None)


def named_by_users(directory: Path) -> Path:
    """What users call the spool of an intake: the ``spool`` option of its query, or the directory
    itself."""
    return directory if number_of(directory) is None else directory.parent


def settle_layout(
    directory: Path, partitions: int, protocol: str = OLD_PROTOCOL, adapter: str | None = None
) -> None:
    """Make sure that the spool in ``directory`` has, or will have, so many message partitions, and
    messages of this protocol, whose ``adapter`` is found by its name unless another one is given.

    Both are kept in a file, for a spool with three logs does not tell whether the last one
    holds events. An old spool without the file is from before there were events; it gets its log of
    events when it is opened. Made once, whole, durable, and never changed; made anew where it is
    lost.

    Raises:
        InvalidOption: CONFLICT when the spool was made with another number, or for another
            protocol.
        SpoolFailed: CORRUPT, VERSION or IO of that file.
    """
    path = directory / LAYOUT
    try:
        make_directories(directory)
        known = _read(path)
        if known is None:
            made = _made(directory)
            if made is not None and made != partitions:
                raise _conflict(directory, made, partitions)
            content = {"v": VERSION, "partitions": partitions, "protocol": protocol}
            if adapter not in (None, protocol):
                content["adapter"] = adapter
            # where another intake is first, it will also have the lock
            atomic_file.create(path, json.dumps(content).encode())
            known = _read(path)
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"{path} cannot be used: {error.strerror}",
            "Make the spool directory writable for the user of the intake",
        ) from None
    assert known is not None
    there = known.protocol.name
    if there != protocol:
        raise InvalidOption(
            "CONFLICT",
            f"{directory} holds messages of protocol {there}, not of {protocol}",
            f"Start an intake of protocol {there}, or use another directory",
        )
    if known.partitions != partitions:
        raise _conflict(directory, known.partitions, partitions)


def layout_of(directory: Path) -> int | None:
    """How many message partitions the spool in ``directory`` has; None where that is not known.

    Raises:
        SpoolFailed: CORRUPT, VERSION or IO of the file that says so.
    """
    path = directory / LAYOUT
    try:
        known = _read(path)
        return _made(directory) if known is None else known.partitions
    except OSError as error:
        raise _unreadable(path, error) from None


def protocol_of(directory: Path) -> StoredProtocol:
    """Of which protocol the messages of the spool in ``directory`` are.

    Raises:
        SpoolFailed: CORRUPT, VERSION or IO of the file that says so.
    """
    path = directory / LAYOUT
    try:
        known = _read(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    return StoredProtocol(OLD_PROTOCOL, OLD_PROTOCOL) if known is None else known.protocol


def _made(directory: Path) -> int | None:
    """With how many message partitions the spool was made whose file is lost, or that has none
    yet; None where there is no spool."""
    identity = load_identity(directory)
    if identity is None:
        return None
    return identity.partitions - 1 if identity.format >= WITH_EVENTS else identity.partitions


def _read(path: Path) -> _Layout | None:
    try:
        content = json.loads(path.read_bytes())
        version = int(content["v"])
        name = str(content.get("protocol", OLD_PROTOCOL))
        protocol = StoredProtocol(name, str(content.get("adapter", name)))
        layout = _Layout(int(content["partitions"]), protocol)
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
    return layout


def _unreadable(path: Path, error: OSError) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"{path} cannot be read: {error.strerror}",
        "Make the spool directory readable for the user of the read",
    )


def _conflict(directory: Path, known: int | None, wanted: int) -> InvalidOption:
    return InvalidOption(
        "CONFLICT",
        f"{directory} was made with {known} partitions, not {wanted}",
        f"Set partitionsPerIntake to {known}, or use another directory",
    )

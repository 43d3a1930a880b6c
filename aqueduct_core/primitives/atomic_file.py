"""Small files that are there whole or not at all, whatever happens while they are written.

Unless it is said, they and their directories are for their owner alone: a spool holds what
producers sent, and the keys to it, so nothing of it is left to the umask.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


def replace(path: Path, content: bytes, mode: int = FILE_MODE, *, durable: bool = True) -> None:
    """Give ``path`` this content: whoever reads it, whenever, finds the old one or the new one.

    So does who reads it after a crash of the host where it is ``durable``, which waits for the
    disk; else that may find a part of it.

    Raises: OSError.
    """
    draft = _draft(path, content, mode, durable)
    try:
        os.replace(draft, path)
    except BaseException:
        draft.unlink()
        raise
    if durable:
        _sync(path.parent)


def create(path: Path, content: bytes, mode: int = FILE_MODE) -> bool:
    """The same where nothing is there yet; false, and no effect, where something is: of several
    processes that create it at a time one succeeds.

    Raises: OSError.
    """
    draft = _draft(path, content, mode, durable=True)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    _sync(path.parent)
    return True


def make_directories(path: Path) -> None:
    """Make ``path`` and what is missing above it; what is there stays as it is.

    Raises: OSError.
    """
    above = [each for each in path.parents if not each.exists()]
    for each in (*reversed(above), path):
        each.mkdir(DIRECTORY_MODE, exist_ok=True)


def _draft(path: Path, content: bytes, mode: int, durable: bool) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        draft.unlink()
        raise
    return draft


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Small files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from aqueduct_core.primitives.private_files import FILE_MODE


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

"""Where the TLS sessions of a worker's connections are kept."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from aqueduct_core.transport.session_file import SessionFile


def sessions_in(directory: str | None, alpn: str) -> SessionFile | None:
    """One store for all connections of the process to servers that speak ``alpn``; None: that in
    its memory. Raises: InvalidOption.BAD_VALUE."""
    return None if directory is None else _sessions_in(directory, alpn, os.getpid())


@cache
def _sessions_in(directory: str, alpn: str, process: int) -> SessionFile:
    return SessionFile.in_directory(Path(directory), alpn)

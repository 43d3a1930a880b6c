"""Modes of files and directories that are for their owner alone.

A spool holds what producers sent, and the keys to it, so nothing of it is left to the umask.
"""

from __future__ import annotations

from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


def make_directories(path: Path) -> None:
    """Make ``path`` and what is missing above it; what is there stays as it is.

    Raises: OSError.
    """
    above = [each for each in path.parents if not each.exists()]
    for each in (*reversed(above), path):
        each.mkdir(DIRECTORY_MODE, exist_ok=True)

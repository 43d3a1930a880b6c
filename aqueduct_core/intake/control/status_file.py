"""The file in the spool directory that says which process serves it and where."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.primitives.private_files import FILE_MODE

STATUS_FILE = "status.json"


def write(directory: Path, status: Mapping[str, Any]) -> None:
    """Replace the status file as a whole. It is a hint for people and launchers: not synced."""
    draft = directory / f".{STATUS_FILE}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(draft, flags, FILE_MODE), "w") as file:
        file.write(json.dumps(status, indent=2) + "\n")
    os.replace(draft, directory / STATUS_FILE)


def read(directory: Path) -> dict[str, Any] | None:
    """What the last intake wrote there; None when there is none or it cannot be read."""
    try:
        value = json.loads((directory / STATUS_FILE).read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None

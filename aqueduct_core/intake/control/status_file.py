"""The file in the spool directory that says which process serves it and where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.primitives import atomic_file

STATUS_FILE = "status.json"


def write(directory: Path, status: Mapping[str, Any]) -> None:
    """Replace the status file as a whole. It is a hint for people and launchers: not synced."""
    content = json.dumps(status, indent=2).encode() + b"\n"
    atomic_file.replace(directory / STATUS_FILE, content, durable=False)


def read(directory: Path) -> dict[str, Any] | None:
    """What the last intake wrote there; None when there is none or it cannot be read."""
    try:
        value = json.loads((directory / STATUS_FILE).read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None

"""Compares what a check found with what ``exceptions.toml`` allows."""

from __future__ import annotations

import tomllib
from pathlib import Path

EXCEPTIONS = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text("utf-8"))


def check(kind: str, found: dict[str, str], remedy: str) -> None:
    """``found``: what breaks the rule, by the key that an exception would have.

    Fails with all that has no exception, and with exceptions that nothing needs any more. A number
    in ``pending`` allows that many without one.
    """
    allowed = EXCEPTIONS.get(kind, {})
    new = [f"{key}: {found[key]}" for key in sorted(found) if key not in allowed]
    limit = EXCEPTIONS.get("pending", {}).get(kind, 0)
    assert len(new) <= limit, "\n".join(
        [f"{remedy} Or give a reason in tests/architecture/exceptions.toml, [{kind}].", *new]
    )
    stale = sorted(set(allowed) - set(found))
    assert limit or not stale, f"exceptions [{kind}] that nothing needs any more: {stale}"

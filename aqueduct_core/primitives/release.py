"""Which version of this software runs."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def release() -> str:
    """As of the installed package."""
    try:
        return version("aqueduct-spark")
    except PackageNotFoundError:
        return "(not installed)"

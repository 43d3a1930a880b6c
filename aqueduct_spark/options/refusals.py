"""How refusals of options read: each names the option, the value, and what to write instead."""

from __future__ import annotations

from aqueduct_core.errors import InvalidOption


def missing(name: str, what: str) -> InvalidOption:
    return InvalidOption("MISSING", f"Option '{name}' is missing: {what}", f"Set '{name}'")


def bad_value(name: str, value: str, allowed: str) -> InvalidOption:
    return InvalidOption(
        "BAD_VALUE", f"Option '{name}' is '{value}'; it must be {allowed}", f"Correct '{name}'"
    )


def conflict(what: str, remedy: str) -> InvalidOption:
    return InvalidOption("CONFLICT", f"Options contradict each other: {what}", remedy)

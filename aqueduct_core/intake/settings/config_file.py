"""The configuration of a standalone intake: a TOML file with the keys of its settings.

What differs from the JSON of `IntakeSettings`: durations and sizes are texts with a unit
(``groupCommit = "20ms"``, ``spoolMaxBytes = "10g"``), ``keys`` may name a directory with the
credentials that several intakes share, and tokens stand in files of their own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.units import duration, size

_UNITS: dict[str, Callable[[str], float]] = {
    "lease": duration,
    "groupCommit": duration,
    "retention": duration,
    "groupBytes": size,
    "spoolMaxBytes": size,
    "maxMessageBytes": size,
    "limits.headerBytes": size,
    "limits.memory": size,
    "limits.handshakeSeconds": duration,
    "connect.firstWait": duration,
    "connect.longestWait": duration,
    "connect.idleTimeout": duration,
}
_SECRETS = ("auth.token", "connect.token", "credentials")
_OF_QUERIES = (
    "v",
    "spoolId",
    "givenOut",
    "skipGivenOut",
    "auth.tokenEnv",
    "connect.bounded",
    "connect.intakes",
    "connect.elsewhere",
)
"""What an intake is told by the query that starts it, and by nobody else."""


def read(path: Path) -> tuple[IntakeSettings, Path]:
    """The settings in a file, and the directory of their credentials (made when missing).

    Paths in the file are relative to the working directory of the process.

    Raises:
        InvalidOption: the file cannot be read or is no TOML; an unknown key, a value of the
            wrong kind, a missing or conflicting one; the text names the key.
        SpoolFailed: the credentials cannot be read or made.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the configuration {path} cannot be read: {error.strerror}",
            "Name a readable TOML file",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(
            "BAD_VALUE", f"the configuration {path} is no TOML: {error}", "Correct that line"
        ) from None
    for key in _SECRETS:
        if _at(data, key) is not None:
            raise InvalidOption(
                "BAD_VALUE",
                f"the configuration {path} holds {key}",
                "Keep secrets in a file of their own, as tokenFile and keys name them",
            )
    for key in _OF_QUERIES:
        if _at(data, key) is not None:
            raise InvalidOption(
                "UNKNOWN",
                f"the configuration {path} holds {key}, which only queries tell their intakes",
                "Name a file with tokens: tokenFile" if key == "auth.tokenEnv" else "Remove it",
            )
    keys = data.pop("keys", None)
    plain = _without_units(data, "")
    spool = plain.get("spool")
    directory = keys if isinstance(keys, str) else spool
    if isinstance(spool, str) and isinstance(directory, str):
        # Checked first, so that a mistake in the file leaves no directory behind.
        IntakeSettings.from_mapping({**plain, "credentials": _PLACEHOLDER})
        plain["credentials"] = Credentials.for_spool(Path(directory)).to_json()
    return IntakeSettings.from_mapping(plain), Path(str(directory))


_PLACEHOLDER = {"v": 1, "token": "", "authority": "", "authorityKey": None}


def _without_units(data: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The same with seconds and bytes as numbers."""
    plain: dict[str, Any] = {}
    for key, value in data.items():
        parse = _UNITS.get(prefix + key)
        if parse is not None:
            plain[key] = _parsed(prefix + key, value, parse)
        elif isinstance(value, dict) and not prefix:
            plain[key] = _without_units(value, f"{key}.")
        else:
            plain[key] = value
    return plain


def _parsed(key: str, value: Any, parse: Callable[[str], float]) -> float:
    if not isinstance(value, str):
        example = "64m" if parse is size else "10s"
        raise InvalidOption(
            "BAD_VALUE",
            f"{key} is {value!r}, without a unit",
            f'Write it as text, as in "{example}"',
        )
    try:
        return parse(value)
    except ValueError as error:
        raise InvalidOption("BAD_VALUE", f"{key}: {error}", "Correct it and start again") from None


def _at(data: Mapping[str, Any], key: str) -> Any:
    value: Any = data
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value

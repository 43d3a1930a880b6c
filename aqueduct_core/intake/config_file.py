"""The configuration of a standalone intake: a TOML file with the keys of its settings.

What differs from the JSON of `IntakeSettings`: durations and sizes are texts with a unit
(``groupCommit = "20ms"``, ``spoolMaxBytes = "10g"``), ``keys`` may name a directory with the
credentials that several intakes share, and tokens stand in files of their own. What queries need to
read from it are files, too, that their options can name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.adapter import DEFAULT_PROTOCOL, adapter_named
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives import atomic_file
from aqueduct_core.primitives.settings import without_units

CA_FILE = "intake-ca.pem"
TOKEN_FILE = "intake-token"

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
"""What the query that starts an intake sets, and nobody else."""


def read(path: Path) -> tuple[IntakeSettings, Path]:
    """The settings in a file, and the directory of their credentials (made when missing).

    Paths in the file are relative to the working directory of the process.

    Raises:
        InvalidOption: the file cannot be read or is no TOML; an unknown key, a value of the
            wrong kind, a missing or conflicting one; the text names the key.
        SpoolFailed: the credentials cannot be read or made.
    """
    data = _parsed(path)
    try:
        return _settings(data)
    except InvalidOption as error:
        raise InvalidOption(
            error.subclass, f"the configuration {path}: {error.what}", error.remedy
        ) from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        # a byte order mark, as editors of Windows write it, is no part of the text
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the configuration {path} cannot be read: {error.strerror}",
            "Name a readable TOML file",
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidOption(
            "BAD_VALUE",
            f"the configuration {path} is no TOML: byte {error.start} is not UTF-8",
            "Save it as text in UTF-8",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidOption(
            "BAD_VALUE", f"the configuration {path} is no TOML: {error}", "Correct that line"
        ) from None


def _settings(data: dict[str, Any]) -> tuple[IntakeSettings, Path]:
    for key in _SECRETS:
        if _at(data, key) is not None:
            raise InvalidOption(
                "BAD_VALUE",
                f"it holds {key}",
                "Keep secrets in a file of their own, as tokenFile and keys name them",
            )
    for key in _OF_QUERIES:
        if _at(data, key) is not None:
            raise InvalidOption(
                "UNKNOWN",
                f"it holds {key}, which only queries tell their intakes",
                "Name a file with tokens: tokenFile" if key == "auth.tokenEnv" else "Remove it",
            )
    keys = data.pop("keys", None)
    protocol = data.get("protocol", DEFAULT_PROTOCOL)
    for name, value in (("keys", keys), ("protocol", protocol)):
        if not isinstance(value, str | None):
            raise InvalidOption(
                "BAD_VALUE",
                f"key {name} is {value!r}; it must be a text in quotes",
                f"Correct {name}",
            )
    kind = adapter_named(protocol).settings
    plain = without_units(data, kind)
    # checked first, so that a mistake in the file leaves no directory behind
    settings = kind.from_mapping({**plain, "credentials": Credentials("", b"")})
    directory = Path(keys or settings.spool)
    credentials = Credentials.for_spool(directory)
    return msgspec.structs.replace(settings, credentials=credentials), directory


def _at(data: Mapping[str, Any], key: str) -> Any:
    value: Any = data
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


class AccessFiles(NamedTuple):
    """For the options ``tls.caFile`` and ``auth.tokenFile`` of a query with ``intakes``."""

    ca_file: Path
    token_file: Path


def write_access(directory: Path, credentials: Credentials) -> AccessFiles:
    """Keep both files in ``directory`` up to date, for their owner's eyes only.

    Raises: SpoolFailed.IO.
    """
    files = AccessFiles((directory / CA_FILE).absolute(), (directory / TOKEN_FILE).absolute())
    try:
        _keep(files.ca_file, credentials.authority)
        _keep(files.token_file, credentials.token.encode() + b"\n")
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"the access files in {directory} cannot be written: {error.strerror}",
            "Make the directory writable for the intake",
        ) from None
    return files


def _keep(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    atomic_file.replace(path, content)

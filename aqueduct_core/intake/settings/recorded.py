"""Who can bring messages into a spool is settled with its first intake, and kept beside it. In
which protocol, the layout of the spool says (`storage.layout`).

A later intake of the spool, of whichever query or configuration, has to come with the same
settings, and so has one more intake of a query, for which they are also kept in the directory that
all of these share: else whoever starts the second one could turn the authentication of the first
one off. Changing them is an act of its own (`forget`).

What counts is the address (port 0 stands for any), that a certificate is one of files or a
self-signed one, and where the tokens are: the reference, never a token. What is renewed in the
course of things does not count: the paths of the certificate, the tokens in their file. Nor does
what an intake dials and asks for; only that it verifies what it dials.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.layout import named_by_users, number_of
from aqueduct_core.primitives import json_file
from aqueduct_core.primitives.host_port import HostPort, canonical

FILE = "settings.json"


def admission_of(settings: IntakeSettings) -> dict[str, str]:
    """The settings that decide who can bring messages, by option; those not given are left out."""
    if settings.connect is not None:
        return {"tls.insecure": "true"} if settings.connect.insecure else {}
    auth = settings.auth
    found = {"listen": settings.listen or "", **settings.own_admission}
    if settings.tls.self_signed:
        found["tls.selfSigned"] = "true"
    if auth.token_file is not None:
        found["auth.tokenFile"] = auth.token_file
    if auth.token is not None:
        found["auth.tokenEnv"] = auth.token_env or "(not named)"
    return found


def check_recorded(settings: IntakeSettings) -> None:
    """Refuse to serve a spool otherwise than before. Called by its owner, before anybody can come.

    Raises:
        InvalidOption: CONFLICT, naming the option.
        SpoolFailed: CORRUPT, VERSION, IO.
    """
    for directory in reversed(_kept_for(settings)):
        _check(settings, directory)


def record(settings: IntakeSettings) -> None:
    """Keep the settings for those who come later, unless some are kept: then they have to be the
    same, so of several that start at a time the first one counts. Called by the owner, when they
    have been found to work, and before anybody is let in.

    Raises:
        InvalidOption: CONFLICT, as `check_recorded`.
        SpoolFailed: CORRUPT, VERSION, FULL, IO.
    """
    for directory in _kept_for(settings):
        json_file.create(directory / FILE, {"settings": admission_of(settings)})
        _check(settings, directory)


def _kept_for(settings: IntakeSettings) -> list[Path]:
    """The directories in which they are kept: for all intakes of a query together, then for this
    one. One that runs on its own has nothing in common with those beside it, whatever its name."""
    directory = Path(settings.spool)
    alone = settings.lease is None or number_of(directory) is None
    return [directory] if alone else [directory.parent, directory]


def _check(settings: IntakeSettings, directory: Path) -> None:
    known, given = recorded_in(directory), admission_of(settings)
    if known is None:
        return
    if "listen" in known and "listen" in given:
        any_port = HostPort.parse(given["listen"])._replace(port=0)
        if directory != Path(settings.spool):
            known["listen"] = given["listen"]  # each has an address of its own
        elif canonical(known["listen"]) == str(any_port):
            known["listen"] = given["listen"]  # any port was settled, so this one is
    check_same(given, known, directory)


def recorded_in(directory: Path) -> dict[str, str] | None:
    """What is kept beside a spool, or for all intakes of a query; None where nothing is.

    Raises: SpoolFailed: CORRUPT, VERSION, IO.
    """

    def parse(content: Mapping[str, Any]) -> dict[str, str]:
        return {str(option): str(value) for option, value in content["settings"].items()}

    remedy = f"Look who may have done it; then remove it: {_forget(directory)}"
    return json_file.load(directory / FILE, parse, remedy)


def forget(directory: Path) -> bool:
    """The next intake of the spool settles them anew; false where none are kept.

    Raises: SpoolFailed: IO.
    """
    path = directory / FILE
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise json_file.not_written(path, error) from None
    return True


def check_same(given: Mapping[str, str], known: Mapping[str, str], directory: Path) -> None:
    """
    Raises:
        InvalidOption: CONFLICT for the first option that differs.
    """
    for option in sorted({*given, *known}):
        ours, theirs = given.get(option), known.get(option)
        if ours == theirs:
            continue
        now = f"is {ours!r}" if ours is not None else "is not given"
        then = f"with {theirs!r}" if theirs is not None else "without it"
        same = f"Set {option} to {theirs!r}" if theirs is not None else f"Remove {option}"
        raise InvalidOption(
            "CONFLICT",
            f"option {option} {now}, and the spool {directory} is served {then}",
            f"{same}, or use another spool; to have this spool served otherwise from now on, stop "
            f"its queries and run {_forget(directory)}",
        )


def _forget(directory: Path) -> str:
    return f"aqueduct spool settings {shlex.quote(str(named_by_users(directory)))} --forget"

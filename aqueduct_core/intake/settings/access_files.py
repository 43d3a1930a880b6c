"""What queries need to read from a standalone intake, as files that their options can name."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.primitives import atomic_file

CA_FILE = "intake-ca.pem"
TOKEN_FILE = "intake-token"


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

"""The secrets of options: a bearer token and what standalone intakes are called with; never shown,
read when they are used."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct_core.errors import AuthFailed, InvalidOption
from aqueduct_core.primitives.token_file import read_token
from aqueduct_spark.options.access import TokenSource
from aqueduct_spark.options.source import Standalone

if TYPE_CHECKING:
    from aqueduct_core.flight.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Token:
    """Read from the environment of the driver when this is made, or from a file when it is used.

    A file is read each time, so a token that was renewed is picked up by the next task.
    """

    file: str | None = None
    held: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: TokenSource | None) -> Token:
        """Raises AuthFailed.MISSING when the variable is not set on the driver."""
        if source is None:
            return cls()
        if source.env is None:
            return cls(file=source.file)
        held = os.environ.get(source.env, "")
        if not held:
            raise AuthFailed(
                "MISSING",
                f"Environment variable {source.env} of option 'auth.tokenEnv' is not set on the "
                "driver",
                f"Export {source.env}, or use 'auth.tokenFile'",
            )
        return cls(held=held)

    def value(self) -> str | None:
        """The token to present. Raises AuthFailed.MISSING when the file holds none."""
        return self.held if self.file is None else read_token(Path(self.file))


def standalone_credentials(source: Standalone, token: Token) -> Credentials:
    """What the intakes are called with; read again each time, so that what was renewed is used.

    Raises:
        InvalidOption: BAD_VALUE when the authority cannot be read, or is none.
        AuthFailed: MISSING when there is no token.
    """
    from cryptography import x509

    from aqueduct_core.flight.credentials import Credentials

    presented = token.value()
    if presented is None:
        raise AuthFailed("MISSING", "The intakes want a token", "Set 'auth.tokenFile'")
    try:
        authority = Path(source.authority).read_bytes()
        x509.load_pem_x509_certificates(authority)
    except (OSError, ValueError) as error:
        why = "holds no certificate in PEM form"
        if isinstance(error, OSError):
            why = f"cannot be read: {error.strerror}"
        raise InvalidOption(
            "BAD_VALUE",
            f"Option 'tls.caFile' is '{source.authority}', which {why}",
            "Name the certificate of the authority of the intakes' spools",
        ) from None
    return Credentials(presented, authority)

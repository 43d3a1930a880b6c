"""A bearer token and where it comes from; never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from aqueduct_core.errors import AuthFailed
from aqueduct_core.primitives.token_file import read_token
from aqueduct_spark.options.access import TokenSource


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

"""Whom an intake dials, and how: frozen values, read from JSON or TOML. What it asks for there is
for its protocol to say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, canonical
from aqueduct_core.primitives.settings import Section, duration

if TYPE_CHECKING:
    from aqueduct_core.transport.tls.credentials import ClientTls


class ConnectSettings(Section, frozen=True):
    """Endpoints to dial, with one connection each.

    Args:
        endpoints: ``host:port`` of each; never empty. Kept in one form, however they were written.
        ca_file, server_name, insecure: how the endpoints are verified (`ClientTls`).
        token_file, token: bearer token of the connection headers; the file is read again for
            each connection.
        first_wait, longest_wait: seconds between two attempts, doubling, with jitter.
        idle_timeout: seconds of silence after which a connection is lost.
        bounded: what is asked for is asked for again only where that cannot bring a row twice;
            otherwise what ends without a finish is a failure for good. For reads that end.
        intakes: with how many intakes of a query the endpoints are shared (`endpoint_claims`);
            None: all of them are dialled here.
        elsewhere: those of them that other intakes of the query have, as it knows.
    """

    prefix: ClassVar[str] = "connect."
    scheme: ClassVar[str] = ""
    """Of its URLs: an endpoint may be given as one."""

    endpoints: tuple[str, ...]
    ca_file: str | None = None
    server_name: str | None = None
    insecure: bool = False
    token_file: str | None = None
    token: str | None = None
    first_wait: Annotated[float, duration("1ms", "1h", "Before the second attempt.")] = 0.2
    longest_wait: Annotated[float, duration("1ms", "1h", "Between two attempts.")] = 15.0
    idle_timeout: Annotated[float, duration("50ms", "1h", "Of silence.")] = 30.0
    bounded: bool = False
    intakes: int | None = None
    elsewhere: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("endpoints", "elsewhere"):
            given = [each.removeprefix(f"{self.scheme}://") for each in getattr(self, name)]
            msgspec.structs.force_setattr(self, name, tuple(map(canonical, given)))
        if not self.endpoints:
            raise InvalidOption("MISSING", "no endpoint to dial is named", "Give host:port")
        for endpoint in self.endpoints:
            checked_address("endpoint", endpoint, 1)
        check_unique("endpoint", self.endpoints)
        if self.insecure and self.ca_file is not None:
            raise InvalidOption(
                "CONFLICT",
                "both tls.insecure and tls.caFile were given",
                "Give the CA file alone",
            )
        if self.token is not None and self.token_file is not None:
            raise InvalidOption(
                "CONFLICT", "both a token and a token file were given", "Give one of them"
            )
        if self.first_wait > self.longest_wait:
            raise InvalidOption(
                "BAD_VALUE",
                f"the waits between attempts are {self.first_wait} s to {self.longest_wait} s",
                "Give the longest not below the first",
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.endpoints)}>"

    @property
    def tls(self) -> ClientTls:
        from aqueduct_core.transport.tls.credentials import ClientTls

        return ClientTls(
            ca_file=None if self.ca_file is None else Path(self.ca_file),
            server_name=self.server_name,
            insecure=self.insecure,
        )

    def in_force(self) -> dict[str, Any]:
        """What an intake was started with, by option; in any order of endpoints and names."""
        return {
            "endpoint": ",".join(sorted(self.endpoints)),
            "tls.caFile": self.ca_file,
            "tls.serverName": self.server_name,
            "auth.tokenFile": self.token_file,
        }

    def secrets_in_force(self) -> dict[str, Any]:
        """The same of what may hold a secret."""
        return {"auth.tokenEnv": self.token}


def checked_address(option: str, text: str, lowest_port: int = 0) -> HostPort:
    """``host:port`` of an option. Raises InvalidOption.BAD_VALUE."""
    try:
        return HostPort.parse(text, lowest_port)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"option {option} is {text!r}", f"Give it as {error}"
        ) from None


def check_unique(option: str, values: Sequence[str]) -> None:
    """Raises InvalidOption.BAD_VALUE for the first value that comes twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InvalidOption(
                "BAD_VALUE", f"option {option} names {value!r} twice", "Once is enough"
            )
        seen.add(value)

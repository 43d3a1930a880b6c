"""Whom an intake dials, and what it asks for there: frozen values, read from JSON or TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from aqueduct_core.aqueduct.conventions.headers import MAX_NAME_BYTES
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, canonical
from aqueduct_core.primitives.settings import Section, duration
from aqueduct_core.transport.tls.credentials import ClientTls

MAX_SUBSCRIPTIONS = 60_000
"""Channels asked for on one connection; the engine keeps at most 65,536 open."""

PLACE = "{name}"
"""Stands for the name in the headers and the payload of a request."""

DIGEST = 16
"""Characters of the digest of a request, one for each name that has finished."""


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
            given = [each.removeprefix("aqueduct://") for each in getattr(self, name)]
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
        return ClientTls(
            ca_file=None if self.ca_file is None else Path(self.ca_file),
            server_name=self.server_name,
            insecure=self.insecure,
        )


class Subscription(msgspec.Struct, frozen=True):
    """One channel to ask for: the request is a message on the entrypoint, with the channel on
    which the remote is to send attached to it.

    ``name`` becomes the channel's header ``name`` and the name of its rows; "": the channel has
    no name. ``headers`` and ``payload`` are those of the request; ``{name}`` in the payload and in
    the values of headers stands for the name.
    """

    name: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    payload: str = ""

    def __post_init__(self) -> None:
        if len(self.name.encode()) > MAX_NAME_BYTES:
            raise InvalidOption(
                "BAD_VALUE",
                f"option subscribe holds a name of {len(self.name.encode())} bytes",
                f"A name has at most {MAX_NAME_BYTES} bytes",
            )
        for key, _ in self.headers:
            if not key or not key.isascii():
                raise InvalidOption(
                    "BAD_VALUE",
                    f"option subscribeHeaders holds the key {key!r}",
                    "Keys of headers are ASCII text",
                )

    @property
    def request_headers(self) -> Headers:
        return tuple((key.encode(), value.encode()) for key, value in self.filled_in.headers)

    @property
    def request_payload(self) -> bytes:
        return self.filled_in.payload.encode()

    @property
    def filled_in(self) -> Subscription:
        """The same with the name put in."""
        return Subscription(
            self.name,
            tuple((key, value.replace(PLACE, self.name)) for key, value in self.headers),
            self.payload.replace(PLACE, self.name),
        )

    @property
    def digest(self) -> str:
        """Of the request: another one where its headers or its payload are others."""
        request = json.dumps([self.filled_in.headers, self.filled_in.payload])
        return sha256(request.encode()).hexdigest()[:DIGEST]


class AqueductConnect(ConnectSettings, frozen=True):
    """The same of Aqueduct, where every subscription is asked for on each connection.

    Args:
        subscriptions: what to ask for; without any, one request with an empty payload for a
            channel without a name.
    """

    subscriptions: tuple[Subscription, ...] = (Subscription(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [subscription.name for subscription in self.subscriptions]
        check_unique("subscribe", names)
        if not 1 <= len(names) <= MAX_SUBSCRIPTIONS:
            raise InvalidOption(
                "BAD_VALUE",
                f"{len(names)} channels are to be asked for",
                f"Give 1 to {MAX_SUBSCRIPTIONS} names, or spread them over several intakes",
            )


def in_full(connect: Mapping[str, Any]) -> dict[str, Any]:
    """``connect`` as people may write it, with nothing left out: a text in place of a subscription
    stands for its name, and ``headers`` may be an object."""
    asked: Any = connect.get("subscriptions") or ({},)
    if isinstance(asked, list | tuple):
        asked = [_request_in_full(each) for each in asked]
    return {**connect, "subscriptions": asked}


def _request_in_full(request: Any) -> Any:
    if isinstance(request, str):
        return {"name": request}
    if isinstance(request, Mapping) and isinstance(request.get("headers"), Mapping):
        return {**request, "headers": list(request["headers"].items())}
    return request


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

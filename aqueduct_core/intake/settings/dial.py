"""Whom an intake dials, and what it asks for there: frozen values with a JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from aqueduct_core.aqueduct.conventions.headers import MAX_NAME_BYTES
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, canonical
from aqueduct_core.primitives.json_sections import known, strings
from aqueduct_core.transport.tls.credentials import ClientTls

MAX_SUBSCRIPTIONS = 60_000
"""Channels asked for on one connection; the engine keeps at most 65,536 open."""

DIGEST = 16
"""Characters of the digest of a request, one for each name that has finished."""


@dataclass(frozen=True)
class Subscription:
    """One channel to ask for: the request is a message on the entrypoint, with the channel on
    which the remote is to send attached to it.

    ``name`` becomes the channel's header ``name`` and the name of its rows; "": the channel has
    no name. ``headers`` and ``payload`` are those of the request; ``{name}`` in the payload
    stands for the name.
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
        return tuple((key.encode(), value.encode()) for key, value in self.headers)

    @property
    def request_payload(self) -> bytes:
        return self.payload.replace("{name}", self.name).encode()

    @property
    def digest(self) -> str:
        """Of the request: another one where its headers or its payload are others."""
        request = json.dumps([self.headers, self.request_payload.decode()])
        return sha256(request.encode()).hexdigest()[:DIGEST]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "headers": [list(pair) for pair in self.headers],
            "payload": self.payload,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> Self:
        """``headers`` may be an object or a list of pairs; a text stands for the name alone."""
        if isinstance(data, str):
            return cls(data)
        known("connect.subscriptions.", data, {"name", "headers", "payload"})
        headers = data.get("headers") or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return cls(
            strings(data.get("name", "")),
            tuple((strings(key), strings(value)) for key, value in pairs),
            strings(data.get("payload", "")),
        )


@dataclass(frozen=True)
class ConnectSettings:
    """Endpoints to dial, each with one connection on which every subscription is asked for.

    Args:
        endpoints: ``host:port`` of each; never empty. Kept in one form, however they were written.
        subscriptions: what to ask for; without any, one request with an empty payload for a
            channel without a name.
        ca_file, server_name, insecure: how the endpoints are verified (`ClientTls`).
        token_file, token: bearer token of the connection headers; the file is read again for
            each connection.
        first_wait, longest_wait: seconds between two attempts, doubling, with jitter.
        idle_timeout: seconds of silence after which a connection is lost.
        bounded: a channel is asked for again only where that cannot bring a row twice;
            otherwise what ends without a finish is a failure for good. For reads that end.
        intakes: with how many intakes of a query the endpoints are shared (`endpoint_claims`);
            None: all of them are dialled here.
        elsewhere: those of them that other intakes of the query have, as it knows.
    """

    endpoints: tuple[str, ...]
    subscriptions: tuple[Subscription, ...] = (Subscription(),)
    ca_file: str | None = None
    server_name: str | None = None
    insecure: bool = False
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    first_wait: float = 0.2
    longest_wait: float = 15.0
    idle_timeout: float = 30.0
    bounded: bool = False
    intakes: int | None = None
    elsewhere: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("endpoints", "elsewhere"):
            object.__setattr__(self, name, tuple(map(canonical, getattr(self, name))))
        if not self.endpoints:
            raise InvalidOption("MISSING", "no endpoint to dial is named", "Give host:port")
        for endpoint in self.endpoints:
            checked_address("endpoint", endpoint, 1)
        names = [subscription.name for subscription in self.subscriptions]
        _unique("endpoint", self.endpoints)
        _unique("subscribe", names)
        if not 1 <= len(names) <= MAX_SUBSCRIPTIONS:
            raise InvalidOption(
                "BAD_VALUE",
                f"{len(names)} channels are to be asked for",
                f"Give 1 to {MAX_SUBSCRIPTIONS} names, or spread them over several intakes",
            )
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
        if not 0.001 <= self.first_wait <= self.longest_wait <= 3_600.0:
            raise InvalidOption(
                "BAD_VALUE",
                f"the waits between attempts are {self.first_wait} s to {self.longest_wait} s",
                "Give 0.001 to 3600 s, the longest not below the first",
            )

    @property
    def tls(self) -> ClientTls:
        return ClientTls(
            ca_file=None if self.ca_file is None else Path(self.ca_file),
            server_name=self.server_name,
            insecure=self.insecure,
        )

    def to_json(self) -> dict[str, Any]:
        """Holds the token, where it is not in a file."""
        return {
            "endpoints": list(self.endpoints),
            "subscriptions": [subscription.to_json() for subscription in self.subscriptions],
            "caFile": self.ca_file,
            "serverName": self.server_name,
            "insecure": self.insecure,
            "tokenFile": self.token_file,
            "token": self.token,
            "firstWait": self.first_wait,
            "longestWait": self.longest_wait,
            "idleTimeout": self.idle_timeout,
            "bounded": self.bounded,
            "intakes": self.intakes,
            "elsewhere": list(self.elsewhere),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From `to_json`, or from a file where all but ``endpoints`` may be missing.

        Raises: InvalidOption; TypeError, ValueError or AttributeError for values of a wrong kind.
        """
        known("connect.", data, {"endpoints", "subscriptions", "elsewhere", *_PLAIN})
        subscriptions = tuple(map(Subscription.from_json, data.get("subscriptions") or ({},)))
        plain = {name: data[key] for key, name in _PLAIN.items() if data.get(key) is not None}
        endpoints, elsewhere = (_addresses(data.get(k) or ()) for k in ("endpoints", "elsewhere"))
        return cls(endpoints, subscriptions, elsewhere=elsewhere, **plain)


_PLAIN = {
    "caFile": "ca_file",
    "serverName": "server_name",
    "insecure": "insecure",
    "tokenFile": "token_file",
    "token": "token",
    "firstWait": "first_wait",
    "longestWait": "longest_wait",
    "idleTimeout": "idle_timeout",
    "bounded": "bounded",
    "intakes": "intakes",
}


def checked_address(option: str, text: str, lowest_port: int = 0) -> HostPort:
    """``host:port`` of an option. Raises InvalidOption.BAD_VALUE."""
    try:
        return HostPort.parse(text, lowest_port)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"option {option} is {text!r}", f"Give it as {error}"
        ) from None


def _addresses(endpoints: Sequence[str]) -> tuple[str, ...]:
    if isinstance(endpoints, str):
        raise TypeError("endpoints is a list")
    return tuple(strings(endpoint).removeprefix("aqueduct://") for endpoint in endpoints)


def _unique(option: str, values: Sequence[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise InvalidOption(
                "BAD_VALUE", f"option {option} names {value!r} twice", "Once is enough"
            )
        seen.add(value)

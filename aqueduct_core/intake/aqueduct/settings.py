"""What an intake of Aqueduct is configured with: limits, and what it asks for where it dials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, ClassVar, Self

import msgspec

from aqueduct_core.aqueduct.conventions.headers import MAX_NAME_BYTES
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.settings.dial import ConnectSettings, check_unique
from aqueduct_core.intake.settings.intake import IntakeSettings

MAX_SUBSCRIPTIONS = 60_000
"""Channels asked for on one connection; the engine keeps at most 65,536 open."""

PLACE = "{name}"
"""Stands for the name in the headers and the payload of a request."""

DIGEST = 16
"""Characters of the digest of a request, one for each name that has finished."""


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
    """Endpoints of Aqueduct: every subscription is asked for on each connection.

    Args:
        subscriptions: what to ask for; without any, one request with an empty payload for a
            channel without a name.
    """

    scheme: ClassVar[str] = "aqueduct"

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

    def in_force(self) -> dict[str, Any]:
        names = sorted(each.name for each in self.subscriptions)
        return {**super().in_force(), "subscribe": ",".join(names)}

    def secrets_in_force(self) -> dict[str, Any]:
        requests = [each.filled_in for each in self.subscriptions]
        return {
            **super().secrets_in_force(),
            # most often the same for all names
            "subscribeHeaders": sorted({each.headers for each in requests} - {()}),
            "subscribePayload": sorted({each.payload for each in requests} - {""}),
        }


class AqueductIntake(IntakeSettings, frozen=True, kw_only=True):
    """All settings of an intake of Aqueduct."""

    limits: AqueductLimits = AqueductLimits()
    connect: AqueductConnect | None = None

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        connect = data.get("connect")
        if isinstance(connect, Mapping):
            data = {**data, "connect": in_full(connect)}
        return super().from_mapping(data)


def in_full(connect: Mapping[str, Any]) -> dict[str, Any]:
    """``connect`` as people may write it, with nothing left out: a text in place of a subscription
    stands for its name, and ``headers`` may be an object."""
    requests: Any = connect.get("subscriptions") or ({},)
    if isinstance(requests, list | tuple):
        requests = [_request_in_full(each) for each in requests]
    return {**connect, "subscriptions": requests}


def _request_in_full(request: Any) -> Any:
    if isinstance(request, str):
        return {"name": request}
    if isinstance(request, Mapping) and isinstance(request.get("headers"), Mapping):
        return {**request, "headers": list(request["headers"].items())}
    return request

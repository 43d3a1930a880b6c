"""What an intake of Telehash is configured with: which types, over what, and when it acks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.dial import ConnectSettings, check_unique
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.telehash.channels import (
    MAX_TYPES,
    SCHEMES,
    CarrierName,
    ChannelIntake,
    check_type,
)
from aqueduct_core.primitives.settings import Section
from aqueduct_core.telehash.hashnames import hashname_of


class TelehashConnect(ConnectSettings, frozen=True):
    """Endpoints with a line each; every type is opened there, and the peer sends on it."""

    scheme: ClassVar[str] = "telehash"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token is not None or self.token_file is not None:
            raise no_tokens("auth.tokenFile")


class TelehashIntake(IntakeSettings, frozen=True, kw_only=True):
    """All settings of an intake of Telehash.

    Args:
        types: of channels that are taken; none: all that are an application's (they begin with
            ``_``). Where it dials, they are opened there, too.
        carrier: of all lines: QUIC, or plain UDP.
        udp_trusted: plain UDP may leave this machine.
        hashname: of this side, where it is not that of the certificate.
        peer_hashname: of all peers, where it is not that of the certificate that they show.
    """

    channels: ChannelIntake = ChannelIntake()
    types: tuple[str, ...] = ()
    carrier: CarrierName = "quic"
    udp_trusted: bool = False
    hashname: str | None = None
    peer_hashname: str | None = None
    connect: TelehashConnect | None = None
    protocol: str = "telehash"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auth.required:
            raise no_tokens("auth.tokenEnv" if self.auth.token_file is None else "auth.tokenFile")
        check_unique("type", self.types)
        if len(self.types) > MAX_TYPES:
            raise InvalidOption(
                "BAD_VALUE",
                f"{len(self.types)} types are named",
                f"Name 1 to {MAX_TYPES} types, or none for all",
            )
        for each in self.types:
            _checked("type", each, check_type)
        if self.connect is not None and not self.types:
            raise InvalidOption(
                "MISSING",
                "endpoints are dialled, and no type of channel is named that is opened there",
                "Set type",
            )
        for option, field in (("hashname", "hashname"), ("peerHashname", "peer_hashname")):
            given = getattr(self, field)
            if given is not None:
                msgspec.structs.force_setattr(self, field, _checked(option, given, hashname_of))

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """As that of every intake; `listen` and endpoints may be URLs, which say the carrier."""
        return super().from_mapping(without_schemes(data))

    @property
    def scheme(self) -> str:
        return next(scheme for scheme, carrier in SCHEMES.items() if carrier == self.carrier)

    @property
    def own_sections(self) -> tuple[Section, ...]:
        return (self.channels,)

    @property
    def own_options(self) -> dict[str, Any]:
        return {
            "type": ",".join(sorted(self.types)) or None,
            "carrier": self.carrier,
            "udp.trusted": self.udp_trusted or None,
            "hashname": self.hashname,
            "peerHashname": self.peer_hashname,
        }

    @property
    def own_admission(self) -> dict[str, str]:
        """Over QUIC only who has shown that it receives at its address can bring packets."""
        return {} if self.carrier == "quic" else {"carrier": self.carrier}


def without_schemes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as people write them, with ``host:port`` in place of URLs, and the carrier that
    these name. What is of the wrong kind stays, and is refused by who reads it.

    Raises:
        InvalidOption: CONFLICT: two carriers.
    """
    found = dict(data)
    connect = found.get("connect")
    named: set[str] = {found["carrier"]} if isinstance(found.get("carrier"), str) else set()
    if isinstance(found.get("listen"), str):
        [found["listen"]] = _places([found["listen"]], named)
    if isinstance(connect, Mapping) and isinstance(connect.get("endpoints"), list | tuple):
        found["connect"] = {**connect, "endpoints": _places(connect["endpoints"], named)}
    if len(named) > 1:
        raise InvalidOption(
            "CONFLICT",
            "addresses of telehash:// and of udp:// are named",
            "Give an intake those of one of them",
        )
    return found | ({"carrier": named.pop()} if named else {})


def _places(urls: Sequence[Any], carriers: set[str]) -> list[Any]:
    places: list[Any] = []
    for url in urls:
        scheme, _, place = url.partition("://") if isinstance(url, str) else ("", "", "")
        known = place and scheme in SCHEMES
        places.append(place.removesuffix("/") if known else url)
        if known:
            carriers.add(SCHEMES[scheme])
    return places


def no_tokens(option: str) -> InvalidOption:
    """The refusal of a bearer token."""
    return InvalidOption(
        "CONFLICT",
        f"{option} is set, and the protocol Telehash has no place for a token",
        f"Remove {option}; let only those reach the port who may use it",
    )


def _checked(option: str, text: str, check: Any) -> str:
    try:
        checked: str = check(text)
    except ValueError as error:
        raise InvalidOption(
            "BAD_VALUE", f"option {option} is {text!r}: it must be {error}", "Correct it"
        ) from None
    return checked

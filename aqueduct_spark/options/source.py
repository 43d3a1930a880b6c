"""Where a read gets its messages from: exactly one of four ways.

An option that only one of the ways knows is refused with the others, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.access import (
    DialTls,
    ListenerTls,
    TokenSource,
    dial_tls,
    listener_tls,
    token_source,
)
from aqueduct_spark.options.refusals import bad_value, conflict, missing
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.values import Endpoint


@dataclass(frozen=True, slots=True)
class Listen:
    """Intakes of the query accept producers. ``tls`` is None where the carrier has none."""

    address: HostPort
    tls: ListenerTls | None
    auth: TokenSource | None
    spool: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Intakes of the query dial every address of ``endpoint``.

    ``spool`` is None where a batch read names none.
    """

    endpoint: Endpoint
    tls: DialTls
    auth: TokenSource | None
    spool: str | None


@dataclass(frozen=True, slots=True)
class Standalone:
    """Intakes that run on their own, reached over Flight.

    ``authority`` is the file with the certificate that theirs are signed by, ``auth`` the token
    of their spools.
    """

    addresses: tuple[HostPort, ...]
    authority: str
    auth: TokenSource


@dataclass(frozen=True, slots=True)
class StoredSpools:
    """What lies in a spool directory; for a batch read."""

    spool: str


Source: TypeAlias = Listen | Dial | Standalone | StoredSpools


def find_source(
    found: Mapping[str, Any], given: frozenset[str], kind: OptionKind, table: OptionTable
) -> Source:
    """The one way that the options name; ``given`` are those the user wrote, by table name.

    Raises InvalidOption: MISSING, CONFLICT or BAD_VALUE.
    """
    way = _way(given, kind)
    for spec in sorted(table.specs, key=lambda spec: spec.name):
        if spec.name in given and spec.ways and way not in spec.ways:
            ways = " or ".join(sorted(spec.ways - {spec.name}))
            raise conflict(
                f"'{spec.name}' has no meaning with '{way}'"
                + (f": {spec.reason}" if spec.reason else ""),
                f"Remove '{spec.name}'; it belongs to {ways}",
            )
    table.refuse_tls(found["endpoint"] or found["listen"], given)
    match way:
        case "listen":
            return _listen(found, table)
        case "endpoint":
            return _dial(found, kind)
        case "intakes":
            return _standalone(found)
    return StoredSpools(found["spool"])


def _way(given: frozenset[str], kind: OptionKind) -> str:
    ways = [name for name in ("endpoint", "listen", "intakes") if name in given]
    if len(ways) > 1:
        raise conflict(
            f"'{ways[0]}' and '{ways[1]}' both say where messages come from", "Set one of them"
        )
    if ways:
        return ways[0]
    if kind is OptionKind.BATCH_READ:
        if "spool" in given:
            return "spool"
        raise missing("spool", "what to read: 'spool', 'intakes' or 'endpoint'")
    raise missing(
        "listen",
        "the address:port to accept producers on, such as 0.0.0.0:4433 (or 'endpoint' to dial, or "
        "'intakes' that run already)",
    )


def _listen(found: Mapping[str, Any], table: OptionTable) -> Listen:
    listen: Endpoint = found["listen"]
    [address] = listen.addresses
    _require_spool(found)
    if address.port and address.port + found["numIntakes"] - 1 > 65_535:
        raise bad_value(
            "numIntakes", str(found["numIntakes"]), "few enough for the ports above 'listen'"
        )
    tls = None if listen.scheme in table.plain else listener_tls(found, address)
    return Listen(address, tls, token_source(found), found["spool"])


def _dial(found: Mapping[str, Any], kind: OptionKind) -> Dial:
    endpoint: Endpoint = found["endpoint"]
    if len(set(endpoint.addresses)) != len(endpoint.addresses):
        raise bad_value("endpoint", str(endpoint), "addresses that differ from each other")
    if kind is OptionKind.STREAM_READ:
        _require_spool(found)
        if found["numIntakes"] > len(endpoint.addresses):
            raise bad_value(
                "numIntakes",
                str(found["numIntakes"]),
                f"at most the number of addresses in 'endpoint', {len(endpoint.addresses)}",
            )
    return Dial(endpoint, dial_tls(found, endpoint), token_source(found), found["spool"])


def _standalone(found: Mapping[str, Any]) -> Standalone:
    if found["tls.caFile"] is None:
        raise missing("tls.caFile", "the authority of the intakes' Flight service")
    auth = token_source(found)
    if auth is None:
        raise missing("auth.tokenFile", "the token of the intakes' spools, or 'auth.tokenEnv'")
    return Standalone(found["intakes"], found["tls.caFile"], auth)


def _require_spool(found: Mapping[str, Any]) -> None:
    if found["spool"] is None:
        raise missing("spool", "the directory of the durable log")

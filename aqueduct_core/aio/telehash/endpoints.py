"""Where lines go, and what carries them: QUIC datagrams (``telehash://``) or plain UDP."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort, parse_url
from aqueduct_core.telehash.hashnames import dials_odd, hashname_of
from aqueduct_core.transport.settings import LinkSettings

Carrier: TypeAlias = Literal["telehash", "udp"]
"""By the scheme of its endpoints."""

LINK = LinkSettings(max_streams_uni=0, max_streams_bidi=0)
"""Packets are datagrams: neither side may open a stream of any kind."""


class LineEndpoint(NamedTuple):
    """A carrier, and whom or where to reach with it."""

    carrier: Carrier
    where: HostPort

    @classmethod
    def parse(cls, url: str, *, listens: bool = False) -> LineEndpoint:
        """Of ``telehash://host:port`` or ``udp://host:port``.

        Args:
            listens: no host (all of this machine) and port 0 (any free one) have a meaning.

        Raises:
            InvalidOption.BAD_VALUE: it is something else.
        """
        scheme, separator, rest = url.partition("://")
        carrier: Carrier = "udp" if scheme == "udp" else "telehash"
        if separator and scheme not in ("telehash", "udp"):
            raise InvalidOption(
                "BAD_VALUE",
                f"the endpoint {url!r} is of none of our carriers",
                "Give telehash://host:port (QUIC) or udp://host:port",
            )
        if not listens:
            return cls(carrier, parse_url(url, carrier))
        try:
            return cls(carrier, HostPort.parse(rest if separator else url, any_host=True))
        except ValueError as error:
            raise InvalidOption(
                "BAD_VALUE",
                f"the address to listen on is {url!r}",
                f"Give telehash:// or udp:// and {error}",
            ) from None

    def __str__(self) -> str:
        return f"{self.carrier}://{self.where}"


class Hashnames(NamedTuple):
    """Who both sides are, where they know it of each other (P3).

    Attributes:
        own: of this side; None: the SHA-256 of its certificate, if it shows one.
        peer: of the other one; the same.
    """

    own: str | None = None
    peer: str | None = None

    @classmethod
    def parse(cls, own: str | None, peer: str | None) -> Hashnames:
        """Of 64 hexadecimal digits each; colons may be among them. Raises: InvalidOption."""
        return cls(_hashname(own), _hashname(peer))

    def odd(self, own: str | None, peer: str | None, *, dialled: bool) -> bool:
        """Whether this side opens the odd channels. ``own`` and ``peer`` are fingerprints of the
        certificates that were shown."""
        return dials_odd(self.own or _hashname(own), self.peer or _hashname(peer), dialled=dialled)


def _hashname(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return hashname_of(text)
    except ValueError as error:
        raise InvalidOption("BAD_VALUE", str(error), "Give the SHA-256 of a certificate") from None

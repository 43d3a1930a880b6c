"""QUIC links for engines: dial, listen, and the drivers that pump bytes between the two."""

from __future__ import annotations

from aqueduct_core.transport.certificates import (
    DevelopmentFiles,
    Issued,
    issue,
    make_authority,
    write_development,
)
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver, OnNews
from aqueduct_core.transport.listener import Listener, PeerInfo, listen
from aqueduct_core.transport.port import Address, Link, LinkCounts, Stack
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls import ClientTls, ServerTls, fingerprint, is_loopback

__all__ = [
    "Address",
    "ClientTls",
    "DevelopmentFiles",
    "Driver",
    "Issued",
    "Link",
    "LinkCounts",
    "LinkSettings",
    "ListenLimits",
    "Listener",
    "OnNews",
    "PeerInfo",
    "ServerTls",
    "Stack",
    "dial",
    "fingerprint",
    "is_loopback",
    "issue",
    "listen",
    "make_authority",
    "write_development",
]

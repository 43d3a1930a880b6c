"""QUIC links for engines: dial, listen, and the drivers that pump bytes between the two."""

from __future__ import annotations

from aqueduct_core.primitives.certificates import Issued
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.link import Address, Link, LinkCounts, Stack
from aqueduct_core.transport.listener import Listener, PeerInfo, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls, fingerprint
from aqueduct_core.transport.tls.development import (
    issue,
    make_authority,
)

__all__ = [
    "Address",
    "ClientTls",
    "Driver",
    "Issued",
    "Link",
    "LinkCounts",
    "LinkSettings",
    "ListenLimits",
    "Listener",
    "OnEvents",
    "PeerInfo",
    "ServerTls",
    "Stack",
    "dial",
    "fingerprint",
    "issue",
    "listen",
    "make_authority",
]

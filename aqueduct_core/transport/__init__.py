"""Links for engines: dial, listen, and the drivers that pump bytes between the two.

A link carries the inputs and actions of one engine, over QUIC (``aioquic``), as plain datagrams
(``plain_udp``) or in memory (``in_memory``); the driver, alone, reads a clock. Nothing here knows
what an engine's bytes mean.
"""

from __future__ import annotations

from aqueduct_core.primitives.certificates import Issued
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.link import Address, Link, LinkCounts, Stack
from aqueduct_core.transport.listener import ListenedProtocol, Listener, PeerInfo, listen
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import (
    ClientTls,
    ServerTls,
    fingerprint,
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
    "ListenedProtocol",
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

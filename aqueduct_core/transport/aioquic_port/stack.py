"""aioquic behind the port: makes links and reads the first packet of a connection."""

from __future__ import annotations

from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import (
    QuicPacketType,
    encode_quic_version_negotiation,
    pull_quic_header,
)

from aqueduct_core.transport.aioquic_port.link import client_link, server_link
from aqueduct_core.transport.port import CONNECTION_ID_LENGTH, Address, Hello, Link
from aqueduct_core.transport.settings import SMALLEST_DATAGRAM, LinkSettings
from aqueduct_core.transport.tls import ClientTls, Identity


class AioquicStack:
    """The default transport, in pure Python."""

    name = "aioquic"

    def __init__(self) -> None:
        self._versions = frozenset(QuicConfiguration().supported_versions)

    def dial(
        self, settings: LinkSettings, tls: ClientTls, host: str, address: Address, now: float
    ) -> Link:
        return client_link(settings, tls, host, address, now)

    def hello(self, datagram: bytes) -> Hello | None:
        if len(datagram) < SMALLEST_DATAGRAM:
            # An Initial of a client fills a datagram (RFC 9000 §14.1), and so nobody can use us
            # to send more than they send.
            return None
        try:
            header = pull_quic_header(Buffer(data=datagram), host_cid_length=CONNECTION_ID_LENGTH)
        except ValueError:
            return None
        if header.version is None or header.packet_type is QuicPacketType.VERSION_NEGOTIATION:
            return None
        if header.version in self._versions and header.packet_type is not QuicPacketType.INITIAL:
            return None
        return Hello(header.destination_cid, header.source_cid, header.version)

    def supports(self, version: int) -> bool:
        return version in self._versions

    def negotiation(self, hello: Hello) -> bytes:
        return encode_quic_version_negotiation(
            source_cid=hello.destination,
            destination_cid=hello.source,
            supported_versions=sorted(self._versions),
        )

    def accept(self, settings: LinkSettings, identity: Identity, hello: Hello) -> Link:
        return server_link(settings, identity, hello)

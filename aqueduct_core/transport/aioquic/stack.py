"""aioquic behind the port: makes links and reads the first packet of a connection."""

from __future__ import annotations

from collections.abc import Mapping

from aioquic._buffer import Buffer
from aioquic._crypto import CryptoError
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.packet_builder import QuicPacketBuilder

from aqueduct_core.transport.aioquic.factory import NAME, client_link, server_link
from aqueduct_core.transport.link import (
    CONNECTION_ID_LENGTH,
    AcceptTerms,
    Address,
    Hello,
    Link,
    Resumption,
)
from aqueduct_core.transport.settings import (
    LARGEST_DATAGRAM,
    SMALLEST_DATAGRAM,
    LinkSettings,
)
from aqueduct_core.transport.tls.credentials import ClientTls, ServerIdentity

SHORTEST_DESTINATION = 8
"""Bytes of the id that a client chooses for its first Initial (RFC 9000 §7.2); ours are as long."""
CLOSE_CAPACITY = 1 + 3 * 8
"""A CONNECTION_CLOSE without a reason."""


class AioquicStack:
    """The default transport, in pure Python."""

    name = NAME

    def __init__(self) -> None:
        self._versions = frozenset(QuicConfiguration().supported_versions)

    def dial(
        self,
        alpn: str,
        settings: LinkSettings,
        tls: ClientTls,
        host: str,
        address: Address,
        now: float,
        resumption: Resumption | None = None,
    ) -> Link:
        return client_link(alpn, settings, tls, host, address, now, resumption)

    def hello(self, datagram: bytes) -> Hello | None:
        if not SMALLEST_DATAGRAM <= len(datagram) <= LARGEST_DATAGRAM:
            # An Initial of a client fills a datagram (RFC 9000 §14.1), and so nobody can use us
            # to send more than they send.
            return None
        try:
            header = pull_quic_header(Buffer(data=datagram), host_cid_length=CONNECTION_ID_LENGTH)
        except ValueError:
            return None
        if header.version is None or header.packet_type is QuicPacketType.VERSION_NEGOTIATION:
            return None
        if header.version in self._versions and (
            header.packet_type is not QuicPacketType.INITIAL
            or len(header.destination_cid) < SHORTEST_DESTINATION
        ):
            return None
        return Hello(header.destination_cid, header.source_cid, header.version, header.token)

    def authentic(self, datagram: bytes, hello: Hello) -> bool:
        buffer = Buffer(data=datagram)
        header = pull_quic_header(buffer, host_cid_length=CONNECTION_ID_LENGTH)
        start = buffer.tell()
        crypto = CryptoPair()
        crypto.setup_initial(cid=hello.destination, is_client=False, version=hello.version)
        try:
            crypto.decrypt_packet(datagram[: header.packet_length], start, 0)
        except CryptoError:
            return False
        return True

    def supports(self, version: int) -> bool:
        return version in self._versions

    def negotiation(self, hello: Hello) -> bytes:
        return encode_quic_version_negotiation(
            source_cid=hello.destination,
            destination_cid=hello.source,
            supported_versions=sorted(self._versions),
        )

    def retry(self, hello: Hello, source: bytes, token: bytes) -> bytes:
        return encode_quic_retry(
            version=hello.version,
            source_cid=source,
            destination_cid=hello.source,
            original_destination_cid=hello.destination,
            retry_token=token,
        )

    def refuse_token(self, hello: Hello) -> bytes:
        """An Initial that closes with INVALID_TOKEN (RFC 9000 §8.1.3). Its keys follow from the
        destination id of ``hello``, so no connection is needed to make it."""
        crypto = CryptoPair()
        crypto.setup_initial(cid=hello.destination, is_client=False, version=hello.version)
        builder = QuicPacketBuilder(
            host_cid=hello.destination,
            is_client=False,
            max_datagram_size=SMALLEST_DATAGRAM,
            peer_cid=hello.source,
            version=hello.version,
        )
        builder.start_packet(QuicPacketType.INITIAL, crypto)
        frame = builder.start_frame(QuicFrameType.TRANSPORT_CLOSE, capacity=CLOSE_CAPACITY)
        frame.push_uint_var(QuicErrorCode.INVALID_TOKEN)
        frame.push_uint_var(QuicFrameType.PADDING)
        frame.push_uint_var(0)
        datagrams, _ = builder.flush()
        return bytes(datagrams[0])

    def accept(
        self,
        protocols: Mapping[str, LinkSettings],
        identity: ServerIdentity,
        hello: Hello,
        terms: AcceptTerms | None = None,
    ) -> Link:
        return server_link(protocols, identity, hello, terms)

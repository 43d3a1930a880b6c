"""A run is sealed as the library seals each of its packets."""

from __future__ import annotations

import pytest
from aioquic.quic.crypto import CryptoContext
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.aioquic.protection import overhead, seal

SUITES = [CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384]


def keys(suite: CipherSuite) -> CryptoContext:
    context = CryptoContext()
    secret = bytes(range(48 if suite is CipherSuite.AES_256_GCM_SHA384 else 32))
    context.setup(cipher_suite=suite, secret=secret, version=QuicProtocolVersion.VERSION_1)
    return context


@pytest.mark.parametrize("suite", SUITES)
@given(
    payloads=st.lists(st.binary(min_size=2, max_size=1_200), max_size=5),
    number=st.integers(0, 1 << 40) | st.sampled_from([0xFFFE, 0x1_0000 - 3]),
    first_byte=st.sampled_from([0x41, 0x45, 0x61, 0x65]),
    peer_id=st.binary(max_size=20),
)
def test_it_is_what_the_library_makes(
    suite: CipherSuite, payloads: list[bytes], number: int, first_byte: int, peer_id: bytes
) -> None:
    context = keys(suite)
    datagrams = seal(payloads, number, context, first_byte, peer_id)
    for at, (payload, datagram) in enumerate(zip(payloads, datagrams, strict=True), number):
        header = bytes([first_byte]) + peer_id + (at & 0xFFFF).to_bytes(2)
        assert datagram == context.encrypt_packet(header, payload, at)
        assert len(datagram) == len(payload) + overhead(peer_id)

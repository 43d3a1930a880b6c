"""What a connection on aioquic holds for its peer: memory in bytes, about.

Nothing is walked over but the few packet number spaces and CRYPTO streams: the rest is counted as
it comes and goes. The sizes of objects are measured; tests hold them to what ``tracemalloc`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aqueduct_core.transport.aioquic.streams import CryptoReceiver

if TYPE_CHECKING:
    from aqueduct_core.transport.aioquic.connection import CreditedConnection

CONNECTION_BYTES = 96 << 10
"""A connection with its TLS state, keys and tables, that carries nothing: half-open or idle."""
STREAM_BYTES = 800
"""An open stream of one direction with its half and tables; each half of a bidirectional one."""
RANGE_BYTES = 160
"""A range that waits behind a hole, beside its bytes; one of stream numbers that were skipped."""
PACKET_BYTES = 700
"""A sent packet that is remembered until its fate is known, with what is to be done then."""
DATAGRAM_BYTES = 200
"""A datagram that has not left, beside its bytes."""


def footprint(quic: CreditedConnection) -> int:
    """Memory of a connection that was not freed."""
    packets = sum(len(space.sent_packets) for space in quic._spaces.values())
    handshake = 0
    if not quic._handshake_confirmed:
        for stream in quic._crypto_streams.values():
            assert isinstance(stream.receiver, CryptoReceiver)
            handshake += stream.receiver.held
        handshake += quic._local_max_data.used  # of early data, which waits for the end of it
    return (
        CONNECTION_BYTES
        + handshake
        + STREAM_BYTES * quic.open_halves
        + RANGE_BYTES * quic.ranges_held
        + quic.scattered
        + PACKET_BYTES * packets
        + quic.unacknowledged
        + quic.queued_datagrams
        + DATAGRAM_BYTES * quic.datagrams_waiting
    )

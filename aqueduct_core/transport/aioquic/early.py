"""0-RTT and address validation on aioquic's connection.

What aioquic does by itself: a client with a session writes whatever is queued in 0-RTT packets,
under the limits that the session remembers, and a server that found the session decrypts them at
once.
What it leaves undone, and is done here:

* **Rejection.** aioquic would repeat rejected bytes as packets that got lost: only after a later
  packet is acknowledged, as a sign of congestion, at the offsets it had reached, and under the
  remembered limits, which hold no longer. Here every stream starts over (RFC 9001 §4.6.2) at the
  moment at which the rejection is read, under the limits that came with it.
* **Acceptance.** Streams that are open keep the remembered limit, although the server may grant
  more now, and it tells a raised one only after half a window more was consumed: that can be never.
* **Retry and version negotiation** make aioquic forget what it has sent without repeating it.
* **Refusing 0-RTT** while resuming, at a server; sending NEW_TOKEN; an address that is proved.
"""

from __future__ import annotations

from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicNetworkPath
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import CipherSuite, Direction, Epoch

from aqueduct_core.transport.aioquic.key_updates import RekeyingConnection
from aqueduct_core.transport.settings import LinkSettings

NEW_TOKEN_OVERHEAD = 1 + 8
LIMITS = """
_remote_max_data _remote_max_stream_data_bidi_local _remote_max_stream_data_bidi_remote
_remote_max_stream_data_uni _remote_max_streams_bidi _remote_max_streams_uni
"""
"""What a session remembers of the server and a rejection makes void; absent means 0."""


class EarlyConnection(RekeyingConnection):
    """A ``RekeyingConnection`` that knows 0-RTT.

    Args:
        proved: at a server, the client's address is validated.
        new_token: at a server, sent in NEW_TOKEN once the handshake is complete; empty: none.
        takes_early: at a server, 0-RTT data is taken; else TLS refuses it.
    """

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        proved: bool = False,
        new_token: bytes = b"",
        takes_early: bool = False,
        **start: Any,
    ) -> None:
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )
        self.offered_early = False
        """A client has (or had) keys for 0-RTT data."""
        self.streams_repeated = 0
        """How many streams were written again after a rejection."""
        self._proved = proved
        self._new_token = new_token
        self._takes_early = takes_early

    @property
    def resumed(self) -> bool:
        """The handshake used a session."""
        return self.tls.session_resumed

    @property
    def _limits_due(self) -> bool:
        return bool(self._new_token) or super()._limits_due

    # A client: what it sent before the server has answered

    def _connect(self, now: float) -> None:
        again = bool(self._spaces)
        for space in self._spaces.values():
            # A Retry or another version: what is in flight will never be acknowledged.
            self.discard(space)
        super()._connect(now)
        if again:
            self._start_over()
        elif self._cryptos[Epoch.ZERO_RTT].send.is_valid():
            self.offered_early = True

    def _alpn_handler(self, alpn_protocol: str) -> None:
        """The server's answer is read: before any key with which it could acknowledge is there."""
        if not self.offered_early:
            super()._alpn_handler(alpn_protocol)
            return
        if self.tls.early_data_accepted:
            super()._alpn_handler(alpn_protocol)
            self._raise_limits()
            return
        self._cryptos[Epoch.ZERO_RTT].send.teardown()
        self.discard(self._spaces[Epoch.ONE_RTT])
        for name in LIMITS.split():
            setattr(self, name, 0)
        super()._alpn_handler(alpn_protocol)
        self.streams_repeated = len(self._table)
        self._start_over()

    # A server

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        if not self._is_client and not self._takes_early:
            # Sessions then do not invite a client to send early data.
            self.tls._max_early_data = None

    def _update_traffic_key(
        self, direction: Direction, epoch: Epoch, cipher_suite: CipherSuite, secret: bytes
    ) -> None:
        if not self._is_client and epoch is Epoch.ZERO_RTT and not self._takes_early:
            # aioquic has just accepted it, unasked; the client has not been told yet.
            self.tls.early_data_accepted = False
            return
        super()._update_traffic_key(direction, epoch, cipher_suite, secret)

    def _find_network_path(self, addr: Any) -> QuicNetworkPath:
        path = super()._find_network_path(addr)
        if self._proved and not self._network_paths:
            # A token showed it, so that limits for strangers do not apply (RFC 9000 §8.1).
            path.is_validated = True
        return path

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        super()._write_connection_limits(builder, space)
        if self._new_token:
            token = self._new_token
            buf = builder.start_frame(
                QuicFrameType.NEW_TOKEN,
                capacity=NEW_TOKEN_OVERHEAD + len(token),
                handler=self._on_new_token_delivery,
                handler_args=(token,),
            )
            buf.push_uint_var(len(token))
            buf.push_bytes(token)
            self._new_token = b""

    def _on_new_token_delivery(self, delivery: QuicDeliveryState, token: bytes) -> None:
        if delivery != QuicDeliveryState.ACKED:
            self._new_token = token

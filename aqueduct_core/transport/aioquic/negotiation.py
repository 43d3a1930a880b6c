"""aioquic's connection, made to grant what the negotiated protocol grants.

A server has written its transport parameters before it knows what the client wants to speak. They
leave with the answer to the ClientHello, so they are written once more when that was read: nothing
has been received under them yet, and no 0-RTT data, whose keys come later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.tls import ExtensionType

from aqueduct_core.transport.aioquic.resets import ResettableConnection
from aqueduct_core.transport.settings import LinkSettings


class NegotiatedConnection(ResettableConnection):
    """A ``ResettableConnection`` of one of several protocols.

    Args:
        protocols: what each grants, by ALPN; a client has one. At a server they begin with at most
            ``most_streams`` of each kind.
    """

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        protocols: Mapping[str, LinkSettings],
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        self._protocols = protocols
        self._first_streams = most_streams
        first = next(iter(protocols.values()))
        super().__init__(
            configuration=configuration, settings=first, most_streams=most_streams, **start
        )

    @property
    def negotiated(self) -> str:
        """The ALPN, once the ClientHello was read."""
        alpn = self.tls.alpn_negotiated
        assert alpn is not None
        return alpn

    def _alpn_handler(self, alpn_protocol: str) -> None:
        if not self._is_client and len(self._protocols) > 1:
            self.offer(self._protocols[alpn_protocol], self._first_streams)
            self.tls.handshake_extensions = [
                (
                    ExtensionType.QUIC_TRANSPORT_PARAMETERS,
                    self._serialize_transport_parameters(),
                )
            ]
        super()._alpn_handler(alpn_protocol)

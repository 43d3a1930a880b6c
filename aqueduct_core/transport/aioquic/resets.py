"""How a connection on aioquic ends, and stateless resets.

aioquic keeps the tokens of its peer and draws its own by chance, and leaves it at that: a reset is
to it a packet that it cannot decrypt. Here the tokens of a server follow from its connection ids,
so that it can make the reset of a connection that it has forgotten, and a reset that comes ends
the connection. And aioquic tells all ends by a code and a text; here they have an origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aioquic.quic.connection import END_STATES
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.tls import Alert, AlertCertificateExpired, Context, verify_certificate

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.transport.aioquic.early import EarlyConnection
from aqueduct_core.transport.link import CertificateFault
from aqueduct_core.transport.stateless_reset import is_reset

NOT_YET_VALID, HAS_EXPIRED = 9, 10
"""Of a certificate of the chain, as OpenSSL numbers it (X509_V_ERR_…)."""


class ResettableConnection(EarlyConnection):
    """An ``EarlyConnection`` that can be reset, and knows how it ended."""

    _reset_token: Callable[[bytes], bytes] | None = None
    _without_code: CloseOrigin | None = None

    def make_resettable(self, token: Callable[[bytes], bytes]) -> None:
        """At a server, before its first packet: ``token`` makes the one of each connection id.

        Else they are drawn by chance, and nobody can reset the connection.
        """
        self._reset_token = token
        first = self._host_cids[0]
        first.stateless_reset_token = token(first.cid)

    @property
    def origin(self) -> CloseOrigin:
        """Whose code the one of ``ending`` is, once there is one."""
        ending = self.ending
        if self._without_code is not None:
            return self._without_code
        ours = ending is None or ending.frame_type is None
        return CloseOrigin.APPLICATION if ours else CloseOrigin.TRANSPORT

    def give_up_handshake(self) -> None:
        """It has taken too long."""
        if self.ending is None:
            self.close()
            self._without_code = CloseOrigin.HANDSHAKE_TIMEOUT

    def handle_timer(self, now: float) -> None:
        if self._close_event is None and self._close_at is not None and now >= self._close_at:
            self._without_code = CloseOrigin.IDLE_TIMEOUT
        super().handle_timer(now)

    def receive_datagram(self, data: bytes, addr: Any, now: float) -> None:
        if self._state not in END_STATES and is_reset(data, self._tokens_in_use(addr)):
            self._without_code = CloseOrigin.STATELESS_RESET
            self._close_event = ConnectionTerminated(
                error_code=QuicErrorCode.NO_ERROR,
                frame_type=QuicFrameType.PADDING,
                reason_phrase="",
            )
            self._close_pending = False
            self._close_begin(is_initiator=False, now=now)
            # Packets that come late could bring about no answer, so nobody waits for them.
            self._close_at = now
            return
        super().receive_datagram(data, addr, now)

    def _tokens_in_use(self, addr: Any) -> Iterator[bytes]:
        """Of the peer's connection ids that are in use on the path to this address."""
        for number, path in enumerate(self._network_paths):
            used = path.peer_cid if number else self._peer_cid
            if path.addr == addr and used is not None and used.stateless_reset_token:
                yield used.stateless_reset_token

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        if self._reset_token is not None:
            for issued in self._host_cids:
                if not issued.was_sent:
                    issued.stateless_reset_token = self._reset_token(issued.cid)


def certificate_fault(tls: Context) -> CertificateFault:
    """Why a client does not trust the certificate that the server showed.

    aioquic tells it by a TLS alert, which is the same for a wrong name and for an unknown
    authority, and by a text. Here the check is made once more, and its exceptions are looked at.
    """
    certificate = tls._peer_certificate
    assert certificate is not None
    try:
        verify_certificate(
            certificate=certificate,
            chain=tls._peer_certificate_chain,
            server_name=tls._server_name,
            cadata=tls._cadata,
            cafile=tls._cafile,
            capath=tls._capath,
        )
    except AlertCertificateExpired:
        return CertificateFault.DATES
    except Alert as error:
        if error.__cause__ is not None:  # of the package that compares names
            return CertificateFault.NAME
        code, *_ = getattr(error.__context__, "errors", None) or (0,)
        if code in (NOT_YET_VALID, HAS_EXPIRED):
            return CertificateFault.DATES
    return CertificateFault.AUTHORITY

"""Links on aioquic, made for a client or a server."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from aioquic.quic.configuration import QuicConfiguration
from aioquic.tls import SessionTicket

from aqueduct_core.transport.aioquic.congestion import ALGORITHMS
from aqueduct_core.transport.aioquic.link import AioquicLink
from aqueduct_core.transport.aioquic.negotiation import NegotiatedConnection
from aqueduct_core.transport.aioquic.resumption import read, written
from aqueduct_core.transport.link import (
    CONNECTION_ID_LENGTH,
    AcceptTerms,
    Address,
    Hello,
    Resumption,
)
from aqueduct_core.transport.sessions import TlsSession
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls, ServerIdentity

NAME = "aioquic"
STREAMS_OF_STRANGERS = 32
"""Streams of each kind that a client may open before it is admitted: each takes a hundred times the
bytes that open it."""


def client_link(
    alpn: str,
    settings: LinkSettings,
    tls: ClientTls,
    host: str,
    address: Address,
    now: float,
    resumption: Resumption | None = None,
) -> AioquicLink:
    start = resumption or Resumption()
    session = start.session
    configuration = _configuration([alpn], settings, is_client=True)
    configuration.server_name = tls.server_name or host.partition("%")[0]
    if tls.insecure:
        configuration.verify_mode = ssl.CERT_NONE
    else:
        file, pem = tls.authorities()
        configuration.load_verify_locations(cafile=file, cadata=pem)
    configuration.token = start.token
    if session is not None:
        configuration.session_ticket = read(session.state, early=start.early)

    def keep(ticket: SessionTicket) -> None:
        assert start.keep_session is not None
        start.keep_session(_session(ticket, link, session, address))

    connection = NegotiatedConnection(
        configuration=configuration,
        protocols={alpn: settings},
        session_ticket_handler=keep if start.keep_session is not None else None,
        token_handler=start.keep_token,
    )
    link = AioquicLink(connection, {alpn: settings}, session)
    link.dial(address, now)
    return link


def server_link(
    protocols: Mapping[str, LinkSettings],
    identity: ServerIdentity,
    hello: Hello,
    terms: AcceptTerms | None = None,
) -> AioquicLink:
    """``protocols`` agree in what holds before the client has chosen one (``ListenedProtocol``)."""
    terms = terms or AcceptTerms()
    sessions = terms.sessions

    def take(ticket: bytes) -> SessionTicket | None:
        assert sessions is not None
        found: SessionTicket | None = sessions.take(connection.negotiated, ticket)
        return found

    def keep(ticket: SessionTicket) -> None:
        assert sessions is not None
        sessions.keep(connection.negotiated, ticket.ticket, ticket)

    settings = next(iter(protocols.values()))
    configuration = _configuration(list(protocols), settings, is_client=False)
    configuration.certificate = identity.certificate
    configuration.certificate_chain = list(identity.chain)
    configuration.private_key = identity.key
    connection = NegotiatedConnection(
        configuration=configuration,
        protocols=protocols,
        most_streams=STREAMS_OF_STRANGERS,
        proved=terms.proved,
        new_token=terms.token,
        takes_early=terms.early_data,
        original_destination_connection_id=terms.original or hello.destination,
        retry_source_connection_id=hello.destination if terms.original else None,
        session_ticket_fetcher=take if sessions is not None else None,
        session_ticket_handler=keep if sessions is not None else None,
    )
    if terms.reset_token is not None:
        connection.make_resettable(terms.reset_token)
    link = AioquicLink(connection, protocols)
    link.answers_to(hello.destination, connection.host_cid)
    return link


def _session(
    ticket: SessionTicket, link: AioquicLink, before: TlsSession | None, address: Address
) -> TlsSession:
    """A ticket as it is kept. It is never trusted longer than the certificate that began it."""
    until = link.peer_certificate_until
    if until is None and before is not None:
        until = before.trusted_until
    return TlsSession(
        stack=NAME,
        state=written(ticket),
        expires=ticket.not_valid_after.timestamp(),
        early_data=ticket.max_early_data_size is not None,
        host=address[0],
        fingerprint=link.peer_fingerprint,
        trusted_until=until,
    )


def _configuration(
    alpn_protocols: list[str], settings: LinkSettings, *, is_client: bool
) -> QuicConfiguration:
    return QuicConfiguration(
        alpn_protocols=alpn_protocols,
        congestion_control_algorithm=ALGORITHMS[settings.congestion],
        connection_id_length=CONNECTION_ID_LENGTH,
        is_client=is_client,
        max_datagram_size=settings.initial_datagram_size,
    )

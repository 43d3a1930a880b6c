"""Sessions of aioquic as bytes that a ticket store can keep, and back."""

from __future__ import annotations

import base64
import datetime
import json
from dataclasses import replace

from aioquic.tls import CipherSuite, SessionTicket


def written(ticket: SessionTicket) -> bytes:
    """A ticket with its secret and the transport parameters that it remembers."""
    return json.dumps(
        {
            "age_add": ticket.age_add,
            "cipher_suite": int(ticket.cipher_suite),
            "not_before": ticket.not_valid_before.timestamp(),
            "not_after": ticket.not_valid_after.timestamp(),
            "secret": _text(ticket.resumption_secret),
            "server_name": ticket.server_name,
            "ticket": _text(ticket.ticket),
            "early_data": ticket.max_early_data_size,
            "extensions": [[kind, _text(data)] for kind, data in ticket.other_extensions],
        }
    ).encode()


def read(state: bytes, *, early: bool) -> SessionTicket | None:
    """The ticket of ``written``; None when that is not what it is.

    Without ``early`` it only resumes: aioquic would offer early data by the ticket alone.
    """
    try:
        fields = json.loads(state)
        ticket = SessionTicket(
            age_add=int(fields["age_add"]),
            cipher_suite=CipherSuite(fields["cipher_suite"]),
            not_valid_before=_moment(fields["not_before"]),
            not_valid_after=_moment(fields["not_after"]),
            resumption_secret=_bytes(fields["secret"]),
            server_name=str(fields["server_name"]),
            ticket=_bytes(fields["ticket"]),
            max_early_data_size=fields["early_data"],
            other_extensions=[(int(kind), _bytes(data)) for kind, data in fields["extensions"]],
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return ticket if early else replace(ticket, max_early_data_size=None)


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

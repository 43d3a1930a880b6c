"""Flight for those alone who have the token of a spool: how its servers listen, and how they are
dialled.

The token is asked for twice. TLS asks for a certificate that only its holders can make, so nobody
else gets a call, for which gRPC takes a thread before it can be refused. Each call carries it as
well, and it is compared in constant time.
"""

from __future__ import annotations

import hmac
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.flight as fl

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.unauthenticated import UnauthenticatedConnections


class AuthenticatedServer(fl.FlightServerBase):  # type: ignore[misc]
    """A Flight server; it answers while it is being made, so what answers is there before.

    ``host`` and ``port`` are where it listens (port 0: any), with a certificate of the spool's
    authority. ``refused`` gets, in any thread, why a call had no right token; who has none
    fails in TLS, of which nobody hears. Connections without a call are bounded
    (`UnauthenticatedConnections`). Ends with `shutdown`, which waits for the calls under way.

    What it serves is what `answer`, `stream` and `actions` say.

    Raises:
        IntakeFailed: UNREACHABLE when the address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        credentials: Credentials,
        refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._unauthenticated = UnauthenticatedConnections()
        identity = credentials.server_identity()
        where = f"[{host}]" if ":" in host else host
        try:
            super().__init__(
                f"grpc+tls://{where}:{port}",
                tls_certificates=[(identity.cert_pem, identity.key_pem)],
                verify_client=True,
                root_certificates=credentials.client_authority(),
                middleware={"token": TokenMiddleware(credentials.token, refused)},
            )
        except (pa.ArrowException, OSError):
            raise IntakeFailed(
                "UNREACHABLE",
                f"the Flight address {where}:{port} cannot be bound",
                "Choose another address or port for Flight, or stop what listens there",
            ) from None
        self._unauthenticated.watch(self.port)

    @abstractmethod
    def answer(self, action: fl.Action) -> list[bytes]:
        """The bodies that answer an action of this server. May raise what Flight has for errors."""

    def stream(self, ticket: fl.Ticket) -> fl.FlightDataStream:
        """What a ticket of this server is for; a server without tickets has none."""
        raise fl.FlightServerError("there is nothing to read here")

    def actions(self) -> list[tuple[str, str]]:
        """Names and meanings."""
        return []

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> list[bytes]:
        self._unauthenticated.prove(context.peer())
        return self.answer(action)

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        self._unauthenticated.prove(context.peer())
        return self.stream(ticket)

    def list_actions(self, context: fl.ServerCallContext) -> list[tuple[str, str]]:
        self._unauthenticated.prove(context.peer())
        return self.actions()

    def shutdown(self) -> None:
        self._unauthenticated.stop()
        super().shutdown()


def dial(
    address: str, credentials: Credentials, options: Sequence[tuple[str, int]] = ()
) -> fl.FlightClient:
    """A client of the server at ``address`` (``host:port``), with ``options`` of gRPC.

    It trusts nobody but a server of the spool's authority that has the token, too.
    """
    identity = credentials.client_identity()
    return fl.FlightClient(
        f"grpc+tls://{address}",
        tls_root_certs=credentials.authority,
        cert_chain=identity.cert_pem,
        private_key=identity.key_pem,
        override_hostname=credentials.server_name,
        generic_options=list(options),
    )


def authorized(credentials: Credentials, timeout: float) -> fl.FlightCallOptions:
    """For a call that carries the token and ends within ``timeout`` seconds."""
    bearer = (b"authorization", b"Bearer " + credentials.token.encode())
    return fl.FlightCallOptions(timeout=timeout, headers=[bearer])


def has_another_token(error: Exception) -> bool:
    """Whether a call failed because the server has another token than its client: by its answer,
    or already by the name in its certificate."""
    return isinstance(error, fl.FlightUnauthenticatedError) or (
        isinstance(error, fl.FlightUnavailableError) and "is not in peer certificate" in str(error)
    )


class TokenMiddleware(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses each call without the right bearer token before anything else is looked at."""

    def __init__(self, token: str, refused: Callable[[str], None] = lambda reason: None) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()
        self._refused = refused

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[str | bytes]]) -> None:
        given = [
            value
            for key, values in headers.items()
            for value in values
            if key.lower() == "authorization"
        ]
        if not given:
            self._refuse("a bearer token is required")
        value = given[0].encode() if isinstance(given[0], str) else given[0]
        if not hmac.compare_digest(value, self._expected):
            self._refuse("the bearer token is not the right one")

    def _refuse(self, reason: str) -> NoReturn:
        self._refused(reason)
        raise fl.FlightUnauthenticatedError(reason)

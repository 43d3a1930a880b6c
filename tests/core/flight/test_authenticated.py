"""Who has not the token of the spool gets no call; who dials with another one is told so."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow.flight as fl
import pytest

from aqueduct_core.errors import AuthFailed, IntakeFailed, TlsFailed
from aqueduct_core.flight.authenticated import dial
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.server import IntakeServer
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.primitives.certificates import Issued
from tests.core.flight.hosted import CREDENTIALS, SPOOL, MemoryHost, client_of, serving
from tests.support.waiting import LONG

CALLS: list[Callable[[fl.FlightClient, fl.FlightCallOptions], object]] = [
    lambda client, options: list(client.do_action(fl.Action("status", b""), options)),
    lambda client, options: list(client.list_actions(options)),
    lambda client, options: list(client.list_flights(b"", options)),
    lambda client, options: client.do_get(fl.Ticket(b"x"), options).read_all(),
]
BEARER = b"Bearer " + CREDENTIALS.token.encode()


@pytest.mark.parametrize(
    "shown",
    [None, Credentials.fresh().client_identity(), CREDENTIALS.server_identity()],
    ids=["no certificate", "of another token", "of the spool's authority"],
)
def test_a_stranger_gets_no_call_even_with_the_token_in_it(shown: Issued | None) -> None:
    """Calls take a thread each before they can be refused: none may begin."""
    host, refused = MemoryHost(), list[str]()
    with serving(host, refused.append) as server:
        stranger = fl.FlightClient(
            f"grpc+tls://127.0.0.1:{server.port}",
            tls_root_certs=CREDENTIALS.authority,
            override_hostname=CREDENTIALS.server_name,
            cert_chain=shown and shown.cert_pem,
            private_key=shown and shown.key_pem,
        )
        options = fl.FlightCallOptions(timeout=LONG, headers=[(b"authorization", BEARER)])
        with stranger:
            for call in CALLS:
                with pytest.raises(fl.FlightUnavailableError):
                    call(stranger, options)
        with client_of(server) as client:
            assert client.status() == host.status()
    assert refused == []
    assert host.calls == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_version_of_tls_does_without_the_certificate(version: ssl.TLSVersion) -> None:
    trusting = ssl.create_default_context(cadata=CREDENTIALS.authority.decode())
    trusting.minimum_version = trusting.maximum_version = version
    trusting.set_alpn_protocols(["h2"])
    with serving(MemoryHost()) as server:
        stranger = socket.create_connection(("127.0.0.1", server.port), timeout=LONG)
        with (
            stranger,
            contextlib.suppress(ssl.SSLError, ConnectionError),
            trusting.wrap_socket(stranger, server_hostname=CREDENTIALS.server_name) as refused,
        ):
            assert refused.version() == "TLSv1.3"
            assert refused.recv(1) == b""


@pytest.mark.parametrize(
    "headers", [[], [(b"authorization", b"")], [(b"authorization", b"Basic x")],
                [(b"authorization", b"bearer " + CREDENTIALS.token.encode())],
                [(b"authorization", BEARER + b"x")]],
    ids=["none", "empty", "another scheme", "in small letters", "another token"],
)  # fmt: skip
def test_behind_the_handshake_each_call_has_to_carry_the_token(
    headers: list[tuple[bytes, bytes]],
) -> None:
    refused = list[str]()
    with serving(MemoryHost(), refused.append) as server:
        options = fl.FlightCallOptions(timeout=LONG, headers=headers)
        with dial(f"127.0.0.1:{server.port}", CREDENTIALS.for_clients()) as client:
            for call in CALLS:
                with pytest.raises(fl.FlightUnauthenticatedError):
                    call(client, options)
    assert len(refused) == len(CALLS)


@pytest.mark.parametrize(
    "token", ["guess", "", CREDENTIALS.token + "x"], ids=["a guess", "none", "a longer one"]
)
def test_another_token_is_refused(token: str) -> None:
    wrong = Credentials(token, CREDENTIALS.authority)
    with serving(MemoryHost()) as server, client_of(server, wrong) as client:
        with pytest.raises(AuthFailed, match=r"REJECTED.*did not accept the token") as caught:
            client.status()
        with pytest.raises(AuthFailed):
            list(client.read(Ticket(SPOOL, 0, 0, 1)))
    told = str(caught.value)
    assert "guess" not in told
    assert CREDENTIALS.token not in told
    assert wrong.server_name not in told
    assert CREDENTIALS.server_name not in told


def test_a_client_of_another_spool_does_not_trust_the_server() -> None:
    with (
        serving(MemoryHost()) as server,
        client_of(server, Credentials.fresh()) as client,
        pytest.raises(TlsFailed, match=r"UNKNOWN_CA"),
    ):
        client.status()


def test_nobody_there_is_one_clear_error() -> None:
    with serving(MemoryHost()) as server:
        port = server.port
    with (
        IntakeClient(f"127.0.0.1:{port}", CREDENTIALS, action_timeout=LONG) as client,
        pytest.raises(IntakeFailed, match=rf"UNREACHABLE.*127.0.0.1:{port}"),
    ):
        client.status()


@contextmanager
def hanging_up(after: int) -> Iterator[int]:
    """The port of somebody who hangs up when so many bytes are there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if after:
                        connection.recv(after, socket.MSG_WAITALL)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("after", [0, 1])
def test_who_hangs_up_is_unreachable_and_says_nothing_of_the_token(after: int) -> None:
    with (
        hanging_up(after) as port,
        IntakeClient(f"127.0.0.1:{port}", CREDENTIALS, action_timeout=LONG) as client,
        pytest.raises(IntakeFailed, match=r"UNREACHABLE"),
    ):
        client.status()


def test_a_port_in_use_is_one_clear_error() -> None:
    with (
        serving(MemoryHost()) as server,
        pytest.raises(IntakeFailed, match=rf"127.0.0.1:{server.port} cannot be bound"),
    ):
        IntakeServer("127.0.0.1", server.port, CREDENTIALS, MemoryHost())


def test_a_client_finds_a_server_that_was_started_again() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        port = server.port
        assert client.status().epoch == 3
        server.shutdown()
        with IntakeServer("127.0.0.1", port, CREDENTIALS, MemoryHost()):
            assert client.status().epoch == 3

"""Dialling: who is not there, is not trusted, or is somebody else."""

from __future__ import annotations

import datetime
import socket

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED
from aqueduct_core.errors import ConnectFailed, TlsFailed
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import (
    ClientTls,
    ServerTls,
    issue,
    make_authority,
    self_signed,
)
from tests.core.aio.scene import refused
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.ports import free_port


@in_loop
async def test_nobody_listens() -> None:
    port = free_port()
    error = await refused(f"aqueduct://127.0.0.1:{port}")
    assert isinstance(error, ConnectFailed)
    assert str(port) in str(error)


@in_loop
async def test_somebody_else_listens_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"aqueduct://127.0.0.1:{sock.getsockname()[1]}"
        error = await refused(url, settings=LinkSettings(handshake_timeout=0.3))
    assert error.name == "AQUEDUCT_CONNECT.NO_REPLY"


@in_loop
async def test_certificates_that_are_not_trusted() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        stranger = ClientTls(ca_pem=make_authority().cert_pem)
        assert (await refused(server.url, tls=stranger)).name == "AQUEDUCT_TLS.UNKNOWN_CA"
        named = ClientTls(ca_pem=server_tls().cert_pem, server_name="other.example")
        assert (await refused(server.url, tls=named)).name == "AQUEDUCT_TLS.NAME_MISMATCH"
        async with connect(server.url, tls=ClientTls(insecure=True)) as connection:
            assert connection.fingerprint == server.fingerprint


@in_loop
async def test_an_expired_certificate_is_told_by_both_sides() -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=400)
    issued = self_signed(["127.0.0.1"], days=1, at=past)
    tls = ServerTls(cert_pem=issued.cert_pem, key_pem=issued.key_pem)
    with pytest.raises(TlsFailed) as caught:
        await serve("127.0.0.1", 0, tls=tls)
    assert caught.value.name == "AQUEDUCT_TLS.EXPIRED"


@in_loop
async def test_a_leaf_of_an_authority_is_trusted_through_it() -> None:
    authority = make_authority()
    leaf = issue(authority, ["127.0.0.1"])
    tls = ServerTls(cert_pem=leaf.cert_pem, key_pem=leaf.key_pem)
    async with (
        serve("127.0.0.1", 0, tls=tls) as server,
        connect(server.url, tls=ClientTls(ca_pem=authority.cert_pem)) as connection,
    ):
        assert connection.closed is None


@in_loop
async def test_a_block_that_raises_aborts() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        with pytest.raises(ZeroDivisionError):
            async with connect(server.url, tls=client_tls()):
                raise ZeroDivisionError
        served = await server.accept()
        await served.wait_closed()
        assert served.closed is not None
        assert served.closed.code == CODE_ABORTED
        assert not server.connections

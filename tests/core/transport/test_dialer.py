"""Every way in which a dial can fail has its own error, with a text that helps."""

from __future__ import annotations

import asyncio
import datetime
import socket
from pathlib import Path

import pytest

from aqueduct_core.errors import AqueductError, ConnectFailed, InvalidOption, TlsFailed
from aqueduct_core.transport import (
    ClientTls,
    LinkSettings,
    ServerTls,
    dial,
    fingerprint,
    issue,
    make_authority,
)
from tests.core.transport.ends import ALPN, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, server_tls
from tests.support.ports import free_port
from tests.support.virtual_loop import let_happen, run_virtually

QUICK = LinkSettings(handshake_timeout=0.2)
"""For what is never answered."""
PATIENT = LinkSettings(handshake_timeout=60.0)
NOW = datetime.datetime.now(datetime.UTC)


def failing(
    *,
    tls: ServerTls | None = None,
    trust: ClientTls | None = None,
    alpn: str = ALPN,
    host: str = "127.0.0.1",
) -> AqueductError:
    async def main() -> AqueductError:
        async with serving(tls=tls) as server:
            with pytest.raises(AqueductError) as caught:
                await dialled(server, host=host, tls=trust, alpn=alpn)
        return caught.value

    return run_virtually(main())


async def dial_port(
    port: int,
    host: str = "127.0.0.1",
    tls: ClientTls | None = None,
    settings: LinkSettings = PATIENT,
) -> None:
    await dial(
        host,
        port,
        alpn=ALPN,
        settings=settings,
        tls=tls or client_tls(),
        make_engine=lambda now: Probe(client=True),
        on_events=lambda driver, events: None,
    )


def test_a_port_where_nobody_listens_refuses_at_once() -> None:
    async def main() -> None:
        port = free_port()
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with pytest.raises(ConnectFailed, match=rf"REFUSED.*127\.0\.0\.1:{port}"):
            await dial_port(port)
        assert loop.time() - begin < PATIENT.handshake_timeout

    run_virtually(main())


def test_a_port_that_is_silent_gives_no_reply() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            with pytest.raises(ConnectFailed, match=r"NO_REPLY.*UDP"):
                await dial_port(silent.getsockname()[1], settings=QUICK)

    run_virtually(main())


def test_a_cancelled_dial_leaves_nothing_behind() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            task = asyncio.create_task(dial_port(silent.getsockname()[1]))
            await let_happen(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_virtually(main())


def test_another_protocol_name_is_refused_with_a_clear_text() -> None:
    error = failing(alpn="other")
    assert isinstance(error, ConnectFailed)
    assert error.subclass == "NO_REPLY"
    assert "another protocol" in str(error)


def test_a_certificate_of_an_unknown_authority() -> None:
    other = ServerTls.self_signed()
    error = failing(trust=ClientTls(ca_pem=other.cert_pem))
    assert isinstance(error, TlsFailed)
    assert error.subclass == "UNKNOWN_CA"
    assert "tls.caFile" in str(error)


def test_without_a_ca_the_authorities_of_the_system_are_asked() -> None:
    error = failing(trust=ClientTls())
    assert isinstance(error, TlsFailed)
    assert error.subclass == "UNKNOWN_CA"


def test_a_certificate_for_another_name() -> None:
    authority = make_authority()
    leaf = issue(authority, ["elsewhere.example"])
    tls = ServerTls(cert_pem=leaf.cert_pem, key_pem=leaf.key_pem)
    for host in ("localhost", "127.0.0.1"):
        error = failing(tls=tls, trust=ClientTls(ca_pem=authority.cert_pem), host=host)
        assert isinstance(error, TlsFailed)
        assert error.subclass == "NAME_MISMATCH"
        assert host in str(error)

    async def main() -> None:
        async with serving(tls=tls) as server:
            trust = ClientTls(ca_pem=authority.cert_pem, server_name="elsewhere.example")
            driver, _ = await dialled(server, tls=trust)
            await ended(driver)

    run_virtually(main())


def test_a_certificate_that_expired_while_the_listener_ran() -> None:
    authority = make_authority(at=NOW - datetime.timedelta(days=30))
    old = issue(authority, ["127.0.0.1"], days=1, at=NOW - datetime.timedelta(days=10))
    stale = ServerTls(cert_pem=old.cert_pem, key_pem=old.key_pem)
    served = ServerTls.self_signed()

    async def main() -> None:
        async with serving(tls=served) as server:
            server.listener._identity = stale.identity
            with pytest.raises(TlsFailed, match="EXPIRED"):
                await dialled(server, tls=ClientTls(ca_pem=authority.cert_pem))

    run_virtually(main())


def test_insecure_is_for_loopback_only() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, _ = await dialled(server, tls=ClientTls(insecure=True))
            assert driver.peer_certificate_fingerprint == server.listener.fingerprint
            assert driver.peer_certificate_fingerprint == server_tls().fingerprint
            await ended(driver)
        with pytest.raises(InvalidOption, match=r"192\.0\.2\.1.*loopback"):
            await dial_port(9, "192.0.2.1", ClientTls(insecure=True))

    run_virtually(main())


def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no.pem"
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for path in (missing, empty):
        with pytest.raises(InvalidOption, match=path.name):
            run_virtually(dial_port(9, tls=ClientTls(ca_file=path)))


def test_an_unknown_transport_is_refused() -> None:
    async def main(name: str) -> None:
        await dial(
            "127.0.0.1",
            9,
            alpn=ALPN,
            settings=QUICK,
            tls=client_tls(),
            make_engine=lambda now: Probe(client=True),
            on_events=lambda driver, events: None,
            transport=name,
        )

    with pytest.raises(InvalidOption, match="carrier pigeon"):
        run_virtually(main("carrier pigeon"))
    with pytest.raises(InvalidOption, match=r"qh3.*nobody has consumed"):
        run_virtually(main("qh3"))


def test_the_fingerprint_is_that_of_the_leaf() -> None:
    identity = server_tls().identity
    assert fingerprint(identity.certificate) == server_tls().fingerprint
    assert len(server_tls().fingerprint.split(":")) == 32

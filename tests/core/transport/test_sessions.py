"""What both ends keep for the next connection."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import (
    LARGEST,
    PER_SERVER,
    MemorySessions,
    ServerKey,
    SessionTable,
    TlsSession,
    server_key,
)
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.transport.early import early_terms, session_of
from tests.support.event_loop import client_tls
from tests.support.rules import rule

HERE = ServerKey("localhost", 4433, "aqueduct", "some authority")
THERE = HERE._replace(port=4434)
SESSION = TlsSession("aioquic", b"state", 1_000.0, True, "127.0.0.1")


def stores(tmp_path: Path) -> list[MemorySessions]:
    return [MemorySessions(), SessionFile(tmp_path / "tickets")]


@rule("AQ-0RTT-5")
def test_sessions_and_tokens_are_given_out_once_and_newest_first(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        other = replace(SESSION, state=b"other")
        store.keep_session(HERE, SESSION)
        store.keep_session(HERE, other)
        store.keep_token(HERE, b"one")
        store.keep_token(HERE, b"two")
        assert store.take_session(THERE, "aioquic", 0.0) is None
        assert store.take_session(HERE, "qh3", 0.0) is None
        taken = [store.take_session(HERE, "aioquic", 0.0) for _ in range(3)]
        assert taken == [other, SESSION, None]
        assert store.take_token(THERE) == b""
        assert [store.take_token(HERE) for _ in range(3)] == [b"two", b"one", b""]


def test_an_expired_session_is_not_given_out(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        store.keep_session(HERE, SESSION)
        assert store.take_session(HERE, "aioquic", 1_000.0) is None
        # It is gone for good, also for a clock that went back.
        assert store.take_session(HERE, "aioquic", 0.0) is None
        store.keep_session(HERE, replace(SESSION, trusted_until=500.0))
        assert store.take_session(HERE, "aioquic", 500.0) is None


def test_stores_are_bounded(tmp_path: Path) -> None:
    for store in (MemorySessions(2), SessionFile(tmp_path / "tickets", 2)):
        for port in range(3):
            for _ in range(PER_SERVER + 2):
                store.keep_session(HERE._replace(port=port), SESSION)
                store.keep_token(HERE._replace(port=port), b"token")
        assert store.take_session(HERE._replace(port=0), "aioquic", 0.0) is None
        counts = []
        for port in (1, 2):
            key = HERE._replace(port=port)
            while store.take_session(key, "aioquic", 0.0):
                counts.append("session")
            while store.take_token(key):
                counts.append("token")
        assert counts.count("session") == counts.count("token") == 2 * PER_SERVER
        store.keep_session(HERE, replace(SESSION, state=bytes(LARGEST + 1)))
        store.keep_token(HERE, bytes(LARGEST + 1))
        assert store.take_session(HERE, "aioquic", 0.0) is None
        assert store.take_token(HERE) == b""


def test_secrets_are_in_no_repr() -> None:
    assert "state" not in repr(SESSION)


def test_a_session_is_never_used_where_the_server_is_verified_otherwise() -> None:
    keys = {
        server_key(tls, host, port, alpn)
        for tls in (client_tls(), ClientTls(insecure=True), ClientTls())
        for host in ("127.0.0.1", "localhost")
        for port in (1, 2)
        for alpn in ("aqueduct", "other")
    }
    assert len(keys) == 24
    named = ClientTls(ca_pem=client_tls().ca_pem, server_name="localhost")
    assert server_key(named, "127.0.0.1", 1, "aqueduct") in keys


def test_a_session_is_trusted_no_longer_than_the_certificate() -> None:
    session = session_of(early_terms())
    assert session.trusted_until is not None
    assert session.valid(session.expires - 1)
    day = datetime.timedelta(days=1).total_seconds()
    assert not replace(session, expires=session.trusted_until + 9 * day).valid(
        session.trusted_until
    )


def test_a_session_table_forgets_the_oldest_and_gives_each_once() -> None:
    table = SessionTable(2)
    for name in (b"a", b"b", b"c"):
        table.keep("one", name, name.decode())
    assert len(table) == 2
    assert table.take("other", b"b") is None
    taken = [table.take("one", name) for name in (b"a", b"b", b"b", b"c")]
    assert taken == [None, "b", None, "c"]

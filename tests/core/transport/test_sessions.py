"""What a client keeps for the next connection, and the tokens of a listener."""

from __future__ import annotations

import datetime
import json
import logging
import multiprocessing
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport import session_file
from aqueduct_core.transport.address_tokens import (
    LATER_LIFETIME,
    RETRY_LIFETIME,
    AddressTokens,
    TokenCheck,
    TokenState,
)
from aqueduct_core.transport.aioquic.resumption import read, written
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.session_table import SessionTable
from aqueduct_core.transport.sessions import (
    LARGEST,
    PER_SERVER,
    MemorySessions,
    ServerKey,
    TlsSession,
    server_key,
)
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.transport.early import early_terms, session_of
from tests.core.transport.ends import client_tls
from tests.support.rules import rule

HERE = ServerKey("localhost", 4433, "aqueduct", "some authority")
THERE = HERE._replace(port=4434)
SESSION = TlsSession("aioquic", b"state", 1_000.0, True, "127.0.0.1")
HOME: Address = ("192.0.2.7", 5000)
FIRST, SOURCE = b"original", b"retry-id"


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


def test_a_file_is_there_for_the_next_process_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "tickets"
    before = SessionFile(path)
    before.keep_session(HERE, replace(SESSION, fingerprint="AB:CD", trusted_until=900.0))
    before.keep_token(HERE, b"\x00\xff")
    before.flush()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    after = SessionFile(path)
    session = after.take_session(HERE, "aioquic", 0.0)
    assert session == replace(SESSION, fingerprint="AB:CD", trusted_until=900.0)
    assert after.take_token(HERE) == b"\x00\xff"
    after.flush()
    assert SessionFile(path).take_session(HERE, "aioquic", 0.0) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":2}',
        b'{"version":1,"servers":[{"key":[1]}]}',
        b'{"version":1,"servers":[{"key":["a",1,"b","c"],"sessions":[{"stack":"aioquic",'
        b'"state":"","expires":"soon","early_data":true,"host":"a","fingerprint":null,'
        b'"trusted_until":null}],"tokens":[]}]}',
        b"\xff\x00",
    ],
)
def test_a_damaged_file_begins_an_empty_store(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tickets"
    path.touch(0o600)
    path.write_bytes(content)
    store = SessionFile(path)
    assert store.take_session(HERE, "aioquic", 0.0) is None
    assert "is not used" in caplog.text
    store.keep_session(HERE, SESSION)
    store.flush()
    assert json.loads(path.read_text())["version"] == 1


def test_a_file_that_cannot_be_written_costs_nothing_but_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SessionFile(tmp_path / "no such directory" / "tickets")
    store.keep_session(HERE, SESSION)
    assert store.take_session(HERE, "aioquic", 0.0) == SESSION
    store.flush()
    assert "cannot be written" in caplog.text


@pytest.mark.parametrize("mode", [0o640, 0o602, 0o604])
def test_a_file_that_others_may_read_or_write_begins_an_empty_store(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever put a session there knows its secret, and could pass for the server."""
    path = tmp_path / "tickets"
    planted = SessionFile(path)
    planted.keep_session(HERE, SESSION)
    planted.flush()
    path.chmod(mode)
    store = SessionFile(path)
    assert store.take_session(HERE, "aioquic", 0.0) is None
    assert "other users may read or write it" in caplog.text
    store.keep_session(HERE, SESSION)
    store.flush()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_user_and_a_link_begin_an_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "tickets", tmp_path / "link"
    planted = SessionFile(path)
    planted.keep_session(HERE, SESSION)
    planted.flush()
    link.symlink_to(path)
    assert SessionFile(link).take_session(HERE, "aioquic", 0.0) is None
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert SessionFile(path).take_session(HERE, "aioquic", 0.0) is None


def test_a_directory_has_a_file_for_each_protocol(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "sessions"
    for alpn in ("aqueduct", "../a"):
        store = SessionFile.in_directory(directory, alpn)
        store.keep_session(HERE, SESSION)
        store.flush()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(os.listdir(directory)) == ["sessions-..%2Fa.json", "sessions-aqueduct.json"]
    assert SessionFile.in_directory(directory, "aqueduct").take_session(HERE, "aioquic", 0.0)
    with pytest.raises(InvalidOption, match="cannot be made"):
        SessionFile.in_directory(directory / "sessions-aqueduct.json", "aqueduct")


class _Warned(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        os._exit(1)


def _write_often(path: Path, name: str, all_there: threading.Barrier) -> None:
    logging.getLogger(session_file.__name__).addHandler(_Warned())
    store = SessionFile(path)
    all_there.wait()
    for size in range(200):
        store.keep_session(HERE._replace(name=name), replace(SESSION, state=bytes(size)))
        store.flush()


def test_processes_that_share_a_file_never_leave_a_part_of_one(tmp_path: Path) -> None:
    """The last one to write wins; every reader finds what one of them wrote, whole."""
    path, names = tmp_path / "tickets", ("a" * 200, "b" * 9_000)
    forks = multiprocessing.get_context("forkserver")
    all_there = forks.Barrier(len(names))
    writers = [forks.Process(target=_write_often, args=(path, name, all_there)) for name in names]
    for writer in writers:
        writer.start()
    found: set[str] = set()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            found |= {entry["key"][0] for entry in json.loads(path.read_text())["servers"]}
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert found <= set(names)
    assert os.listdir(tmp_path) == ["tickets"]


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


def test_a_session_survives_being_written_and_garbage_is_none() -> None:
    session = session_of(early_terms())
    ticket = read(session.state, early=True)
    assert ticket is not None
    assert written(ticket) == session.state
    assert ticket.max_early_data_size is not None
    resuming = read(session.state, early=False)
    assert resuming is not None
    assert resuming.max_early_data_size is None
    for garbage in (b"", b"{}", b"[]", session.state[:-9], b'{"age_add":"x"}'):
        assert read(garbage, early=True) is None


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


# --- tokens of a listener ------------------------------------------------------------------


def test_a_retry_token_proves_the_very_address_for_some_seconds() -> None:
    tokens = AddressTokens()
    token = tokens.for_retry(HOME, FIRST, SOURCE, 10.0)
    proved = TokenCheck(TokenState.PROVED, FIRST)
    refused = TokenCheck(TokenState.REFUSED)
    assert tokens.check(token, HOME, SOURCE, 10.0 + RETRY_LIFETIME) == proved
    assert tokens.check(token, HOME, SOURCE, 10.1 + RETRY_LIFETIME) == refused
    assert tokens.check(token, (HOME[0], 5001), SOURCE, 10.0) == refused
    assert tokens.check(token, ("192.0.2.8", 5000), SOURCE, 10.0) == refused
    assert tokens.check(token, HOME, FIRST, 10.0) == refused
    assert AddressTokens().check(token, HOME, SOURCE, 10.0) == refused


def test_a_later_token_proves_the_host_for_a_day_once() -> None:
    tokens = AddressTokens()
    unknown = TokenCheck(TokenState.UNKNOWN)
    token = tokens.for_later(HOME, 10.0)
    assert tokens.check(token, ("192.0.2.8", 5000), b"any", 11.0) == unknown
    assert tokens.check(token, HOME, b"any", 10.1 + LATER_LIFETIME) == unknown
    assert tokens.check(token, (HOME[0], 5001), b"any", 11.0) == TokenCheck(TokenState.PROVED)
    assert tokens.check(token, HOME, b"any", 11.0) == unknown
    assert AddressTokens().check(token, HOME, b"any", 11.0) == unknown


def test_addresses_are_the_same_on_a_socket_of_both_families() -> None:
    tokens = AddressTokens()
    token = tokens.for_retry(HOME, FIRST, SOURCE, 0.0)
    mapped: Address = (f"::ffff:{HOME[0]}", HOME[1], 0, 0)
    assert tokens.check(token, mapped, SOURCE, 1.0).standing is TokenState.PROVED
    scoped: Address = ("fe80::1%eth0", 9, 0, 3)
    assert (
        tokens.check(tokens.for_later(scoped, 0.0), scoped, b"", 1.0).standing is TokenState.PROVED
    )


def test_no_garbage_proves_anything() -> None:
    tokens = AddressTokens()
    retry = tokens.for_retry(HOME, FIRST, SOURCE, 0.0)
    later = tokens.for_later(HOME, 0.0)
    for token in (b"", b"R", b"N", b"R" + bytes(80), b"N" + bytes(80), b"x" * 40, later[:-1]):
        standing = tokens.check(token, HOME, SOURCE, 0.0).standing
        assert standing is (TokenState.REFUSED if token[:1] == b"R" else TokenState.UNKNOWN)
    for i in range(len(retry)):
        flipped = bytearray(retry)
        flipped[i] ^= 1
        assert tokens.check(bytes(flipped), HOME, SOURCE, 0.0).standing is not TokenState.PROVED
    # A token of one kind is none of the other.
    assert tokens.check(b"R" + later[1:], HOME, SOURCE, 0.0).standing is TokenState.REFUSED

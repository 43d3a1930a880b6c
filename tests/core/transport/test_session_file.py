"""Sessions and tokens in a file: for its owner, whole, and never the end of a program."""

from __future__ import annotations

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
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import (
    ServerKey,
    TlsSession,
)

HERE = ServerKey("localhost", 4433, "aqueduct", "some authority")
THERE = HERE._replace(port=4434)
SESSION = TlsSession("aioquic", b"state", 1_000.0, True, "127.0.0.1")


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

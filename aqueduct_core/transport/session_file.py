"""Sessions and tokens in a file, so that a program started again can use them."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives import atomic_file
from aqueduct_core.transport.sessions import (
    PER_SERVER,
    SERVERS,
    MemorySessions,
    ServerKey,
    ServerSessions,
    TlsSession,
)

VERSION = 1
OWNER_ONLY = 0o600
OTHERS = 0o077

_logger = logging.getLogger(__name__)


class SessionFile(MemorySessions):
    """A ``TicketStore`` in the file ``path``, for its owner only.

    The file is written whole, by a thread, when something has changed; that ends before the
    process does, and ``flush`` waits for it. When several processes share a file the last one to
    write wins; a session that two of them use then is taken by the server once. A file that is not
    there or cannot be read begins an empty store: what it held only saves round trips. So does one
    that others may read or write: who knows the secret of a session can pass for its server.
    """

    def __init__(self, path: Path, servers: int = SERVERS) -> None:
        super().__init__(servers)
        self._path = path
        self._dirty = False
        self._writer: threading.Thread | None = None
        try:
            self._servers = _decoded(_read(path))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            # The text of such an error could quote secrets.
            why = str(error) if isinstance(error, _Shared) else type(error).__name__
            _logger.warning("the ticket file %s is not used: %s", path, why)

    @classmethod
    def in_directory(cls, directory: Path, alpn: str) -> SessionFile:
        """The store for servers that speak ``alpn``, in a file of its own in ``directory``, which
        is made, for its owner only, where it is missing.

        Raises: InvalidOption.BAD_VALUE when it cannot be made.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidOption(
                "BAD_VALUE",
                f"the directory {directory} for sessions cannot be made: {error.strerror}",
                "Name one that this user can write to",
            ) from None
        return cls(directory / f"sessions-{quote(alpn, safe='')}.json")

    def flush(self) -> None:
        """Return when the file holds what was kept and taken before."""
        while (writer := self._writer) is not None:
            writer.join()

    def _changed(self) -> None:
        self._dirty = True
        if self._writer is None:
            # No daemon: the interpreter waits for it, so the last change is written, too.
            self._writer = threading.Thread(target=self._write, name="sessions", daemon=False)
            self._writer.start()

    def _write(self) -> None:
        while True:
            with self._lock:
                if not self._dirty:
                    self._writer = None
                    return
                self._dirty = False
                servers = [
                    _Entry(key, list(kept.sessions), list(kept.tokens))
                    for key, kept in self._servers.items()
                ]
            try:
                atomic_file.replace(self._path, _encoded(servers), OWNER_ONLY, durable=False)
            except OSError as error:
                _logger.warning(
                    "the ticket file %s cannot be written: %s", self._path, error.strerror
                )


class _Entry(NamedTuple):
    key: ServerKey
    sessions: Sequence[TlsSession]
    tokens: Sequence[bytes]


class _Shared(PermissionError):
    """Others than its owner, us, have something to do with a file."""


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise _Shared("it belongs to another user")
        if status.st_mode & OTHERS:
            raise _Shared("other users may read or write it")
        return file.read()


def _encoded(servers: Sequence[_Entry]) -> bytes:
    entries = [
        {
            "key": list(key),
            "sessions": [{**asdict(each), "state": _text(each.state)} for each in sessions],
            "tokens": [_text(token) for token in tokens],
        }
        for key, sessions, tokens in servers
    ]
    return json.dumps({"version": VERSION, "servers": entries}).encode()


def _decoded(data: bytes) -> OrderedDict[ServerKey, ServerSessions]:
    document = json.loads(data)
    if document["version"] != VERSION:
        raise ValueError("another version")
    servers: OrderedDict[ServerKey, ServerSessions] = OrderedDict()
    for entry in document["servers"]:
        name, port, alpn, trust = entry["key"]
        servers[ServerKey(str(name), int(port), str(alpn), str(trust))] = ServerSessions(
            deque(map(_session, entry["sessions"]), PER_SERVER),
            deque((_bytes(token) for token in entry["tokens"]), PER_SERVER),
        )
    return servers


def _session(fields: dict[str, Any]) -> TlsSession:
    shown, until = fields["fingerprint"], fields["trusted_until"]
    return TlsSession(
        stack=str(fields["stack"]),
        state=_bytes(fields["state"]),
        expires=float(fields["expires"]),
        early_data=fields["early_data"] is True,
        host=str(fields["host"]),
        fingerprint=None if shown is None else str(shown),
        trusted_until=None if until is None else float(until),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

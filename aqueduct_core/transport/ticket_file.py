"""Sessions and tokens in a file, so that a program started again can use them."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections import OrderedDict, deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aqueduct_core.transport.tickets import (
    PER_SERVER,
    SERVERS,
    Kept,
    MemoryTickets,
    ServerKey,
    Session,
)

VERSION = 1

_logger = logging.getLogger(__name__)


class FileTickets(MemoryTickets):
    """A ``TicketStore`` in the file ``path``, for its owner only and written whole at each change.

    A file that is not there or cannot be read begins an empty store: what it held only saves
    round trips. When several processes share a file the last one to write wins.
    """

    def __init__(self, path: Path, servers: int = SERVERS) -> None:
        super().__init__(servers)
        self._path = path
        try:
            self._servers = _decoded(path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            # The text of such an error could quote secrets.
            _logger.warning("the ticket file %s is not used: %s", path, type(error).__name__)

    def _changed(self) -> None:
        text = json.dumps({"version": VERSION, "servers": _encoded(self._servers)})
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.unlink(missing_ok=True)
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            new.replace(self._path)
        except OSError as error:
            _logger.warning("the ticket file %s cannot be written: %s", self._path, error.strerror)


def _encoded(servers: OrderedDict[ServerKey, Kept]) -> list[dict[str, Any]]:
    return [
        {
            "key": list(key),
            "sessions": [
                {**asdict(session), "state": _text(session.state)} for session in kept.sessions
            ],
            "tokens": [_text(token) for token in kept.tokens],
        }
        for key, kept in servers.items()
    ]


def _decoded(data: bytes) -> OrderedDict[ServerKey, Kept]:
    document = json.loads(data)
    if document["version"] != VERSION:
        raise ValueError("another version")
    servers: OrderedDict[ServerKey, Kept] = OrderedDict()
    for entry in document["servers"]:
        name, port, alpn, trust = entry["key"]
        servers[ServerKey(str(name), int(port), str(alpn), str(trust))] = Kept(
            deque(
                (
                    Session(**{**session, "state": _bytes(session["state"])})
                    for session in entry["sessions"]
                ),
                PER_SERVER,
            ),
            deque((_bytes(token) for token in entry["tokens"]), PER_SERVER),
        )
    return servers


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

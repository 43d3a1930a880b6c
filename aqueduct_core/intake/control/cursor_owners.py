"""To which query each cursor of a spool belongs, for good: kept beside the spool."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.status import CursorOwner
from aqueduct_core.intake.storage.layout import named_by_users
from aqueduct_core.primitives import json_file

log = logging.getLogger(__name__)

FILE = "owners.json"


class CursorOwners:
    """The owners of cursors, in ``owners.json`` of the spool directory.

    A query has an id, which is in its checkpoint. The first one that claims a cursor owns it: no
    other query may hold, commit or drop it, until an operator lets it go (`forget`). So a claim is
    made only with an id that is in a checkpoint already: one that was lost with its process owns
    nothing, and can lock nobody out. "" stands for a query that has no such id yet; it may have a
    cursor that nobody owns, for as long as its hold lasts.

    Raises SpoolFailed where it is made: CORRUPT, VERSION, IO.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._owners = owners_in(directory)

    @property
    def all(self) -> Mapping[str, CursorOwner]:
        return dict(self._owners)

    def check(self, cursor: str, query: str) -> None:
        """Whether the query may have the cursor.

        Raises:
            SpoolFailed: CURSOR_IN_USE: it belongs to another one.
        """
        owner = self._owners.get(cursor)
        if owner is None or owner.query == query:
            return
        spool = named_by_users(self._directory)
        raise SpoolFailed(
            "CURSOR_IN_USE",
            f"cursor {cursor!r} of {spool} belongs to query {owner.query} ({owner.where}, since "
            f"{_moment(owner.since)})"
            + (f", not to query {query}" if query else ", and this query has no checkpoint of it"),
            "Go on from that query's checkpoint, or give this query another name with option "
            "cursor; where that query is gone for good, let its cursor go to the next one that "
            f"comes: aqueduct spool cursors {shlex.quote(str(spool))} --give {shlex.quote(cursor)}",
        )

    def claim(self, cursor: str, query: str, where: str, now: float) -> None:
        """The query owns the cursor from now on; durable when this returns. No effect for "".

        Args:
            where: for people: who asks.
            now: seconds since 1970.

        Raises:
            SpoolFailed: CURSOR_IN_USE; FULL or IO where a new owner cannot be noted.
        """
        self.check(cursor, query)
        owner = self._owners.get(cursor)
        if not query or (owner is not None and owner.where == where):
            return
        try:
            self._keep({**self._owners, cursor: CursorOwner(query, where, now)})
        except SpoolFailed as error:
            if owner is None:
                raise
            log.warning("where the owner of cursor %r is now is not noted: %s", cursor, error)

    def forget(self, cursor: str) -> None:
        """The cursor belongs to whoever claims it next; durable when this returns.

        Raises:
            SpoolFailed: FULL, IO.
        """
        if cursor in self._owners:
            self._keep({name: each for name, each in self._owners.items() if name != cursor})

    def _keep(self, owners: dict[str, CursorOwner]) -> None:
        content = {name: owner.to_json() for name, owner in sorted(owners.items())}
        json_file.save(self._directory / FILE, {"owners": content})
        self._owners = owners


def owners_in(directory: Path) -> dict[str, CursorOwner]:
    """The owner of each cursor that has one, as the file says it now.

    Raises: SpoolFailed: CORRUPT, VERSION, IO.
    """

    def parse(content: Mapping[str, Any]) -> dict[str, CursorOwner]:
        return {
            str(name): CursorOwner.from_json(owner) for name, owner in content["owners"].items()
        }

    path = directory / FILE
    remedy = f"Let each cursor go to the first query that comes for it: rm {shlex.quote(str(path))}"
    return json_file.load(path, parse, remedy) or {}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

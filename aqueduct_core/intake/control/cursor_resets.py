"""Where queries are to go on by order of an operator: kept beside the spool until they have."""

from __future__ import annotations

import logging
import shlex
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.flight.status import CursorReset
from aqueduct_core.flight.tickets import CANCELS
from aqueduct_core.primitives import json_file
from aqueduct_core.spool import Spool

log = logging.getLogger(__name__)

FILE = "resets.json"


class CursorResets:
    """The resets of cursors that their queries have not obeyed yet, in ``resets.json`` of the spool
    directory.

    A query learns of a reset by the status of the intake, enters it in its offsets with an empty
    batch, and commits that one with the id of the reset, which is over then (`obeyed`). Until then
    the cursor stays at or before both where it was and where it is to go on: a batch that was
    planned before the reset, and is done again after it, finds its rows, and so does the first one
    behind it (`bounded`).

    Raises SpoolFailed where it is made: CORRUPT, VERSION, IO, FULL.
    """

    def __init__(self, spool: Spool) -> None:
        self._path = spool.directory / FILE
        self._resets = resets_in(spool.directory)
        cursors = spool.cursors()
        for cursor, reset in self._resets.items():
            # the catalog that knew of it may be lost
            if cursor in cursors:
                spool.lower(cursor, _spread(cursors[cursor], reset.to))

    @property
    def all(self) -> Mapping[str, CursorReset]:
        return dict(self._resets)

    def order(self, spool: Spool, cursor: str, to: Sequence[int], now: float) -> CursorReset:
        """Have the query of a cursor go on at ``to``, an offset for each log that the cursor reads;
        one that is not stored becomes the next that is. Durable when this returns.

        A look for cancels is no query: its cursor just stands there from now on.

        Raises:
            InvalidOption: BAD_VALUE where there is no such cursor, or it reads another number of
                logs.
            SpoolFailed: FULL, IO.
        """
        position = spool.cursors().get(cursor)
        if position is None:
            raise InvalidOption(
                "BAD_VALUE",
                f"there is no cursor {cursor!r}",
                f"The cursors are {', '.join(sorted(spool.cursors())) or 'none'}",
            )
        logs = [log for log, at in enumerate(position) if at is not None]
        if len(logs) != len(to):
            raise InvalidOption(
                "BAD_VALUE",
                f"{len(to)} offsets are given for cursor {cursor!r}, which reads {len(logs)} logs",
                "Give one for each",
            )
        starts, ends = spool.starts(), spool.ends()
        stored = tuple(
            min(max(at, starts[log]), ends[log]) for log, at in zip(logs, to, strict=True)
        )
        reset = CursorReset(uuid.uuid4().hex, stored, now)
        asked = _spread(position, stored)
        if cursor.endswith(CANCELS):
            spool.lower(cursor, asked)
            spool.commit(cursor, asked)
            return reset
        self._keep({**self._resets, cursor: reset})
        spool.lower(cursor, asked)
        log.info("cursor %r is to go on at %s, it was at %s", cursor, asked, position)
        return reset

    def bounded(self, cursor: str, obeyed: str, ends: Sequence[int]) -> tuple[int, ...]:
        """How far a commit with these ends may take a cursor, of a query that has ``obeyed`` the
        reset of this id last."""
        reset = self._resets.get(cursor)
        if reset is None or reset.id == obeyed or len(ends) != len(reset.to):
            return tuple(ends)
        return tuple(map(min, ends, reset.to))

    def obeyed(self, cursor: str, id: str) -> None:
        """The query has this reset in its checkpoint. Where that finds no space it is noted with a
        later commit."""
        reset = self._resets.get(cursor)
        if reset is None or reset.id != id:
            return
        try:
            self.forget(cursor)
        except SpoolFailed as error:
            log.warning("that cursor %r was reset is not noted: %s", cursor, error)

    def forget(self, cursor: str) -> None:
        """
        Raises:
            SpoolFailed: FULL, IO.
        """
        if cursor in self._resets:
            self._keep({name: each for name, each in self._resets.items() if name != cursor})

    def _keep(self, resets: dict[str, CursorReset]) -> None:
        content = {name: reset.to_json() for name, reset in sorted(resets.items())}
        json_file.save(self._path, {"resets": content})
        self._resets = resets


def resets_in(directory: Path) -> dict[str, CursorReset]:
    """The resets that are not obeyed yet, as the file says it now.

    Raises: SpoolFailed: CORRUPT, VERSION, IO.
    """

    def parse(content: Mapping[str, Any]) -> dict[str, CursorReset]:
        return {
            str(name): CursorReset.from_json(reset) for name, reset in content["resets"].items()
        }

    path = directory / FILE
    remedy = (
        f"Give the resets up, and order them anew where they count: rm {shlex.quote(str(path))}"
    )
    return json_file.load(path, parse, remedy) or {}


def _spread(position: Sequence[int | None], to: Sequence[int]) -> list[int | None]:
    """The offsets ``to`` at the logs that the cursor reads."""
    offsets = iter(to)
    return [None if at is None else next(offsets) for at in position]

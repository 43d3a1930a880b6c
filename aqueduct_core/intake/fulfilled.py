"""Which channels have finished for good: kept beside the spool, so that an intake that comes back
does not ask for them again and store their messages once more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake import json_file
from aqueduct_core.intake.host_port import canonical

log = logging.getLogger(__name__)

FILE = "finished.json"


class Fulfilled:
    """Names of finished channels for each endpoint, in ``finished.json`` of the spool directory.

    A name is written after the channel's last message is durable. A process that dies in between
    asks for that channel once more. Raises SpoolFailed where it is made: CORRUPT, VERSION, IO.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._before = finished_in(directory)
        self._now: dict[str, Sequence[str]] = {}
        self._written: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def of(self, endpoint: str) -> Sequence[str]:
        return self._before.get(endpoint, ())

    def note(self, endpoint: str, names: Sequence[str]) -> None:
        """All that have finished at ``endpoint``, a list that may grow; written soon."""
        self._now[endpoint] = names
        if self._writing is None and self._fresh:
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="finished")

    async def close(self) -> None:
        """Return when all is written."""
        if self._writing is not None:
            await self._writing

    @property
    def _fresh(self) -> bool:
        return any(len(names) != self._written.get(key, 0) for key, names in self._now.items())

    async def _write(self) -> None:
        try:
            while self._fresh:
                self._written = {endpoint: len(names) for endpoint, names in self._now.items()}
                names = {
                    endpoint: sorted({*self.of(endpoint), *self._now.get(endpoint, ())})
                    for endpoint in {*self._before, *self._now}
                }
                await asyncio.to_thread(json_file.save, self._path, {"finished": names})
        except SpoolFailed as error:
            log.warning("%s", error)
        finally:
            self._writing = None


def finished_in(directory: Path) -> Mapping[str, tuple[str, ...]]:
    """The finished channels of each endpoint, as the last intake of a spool directory wrote them.

    Raises: SpoolFailed: CORRUPT, VERSION, IO.
    """

    def parse(content: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        finished: Mapping[str, Sequence[str]] = content["finished"]
        found: dict[str, tuple[str, ...]] = {}
        for endpoint, names in finished.items():
            key = canonical(str(endpoint))  # earlier releases kept what they were given
            found[key] = (*found.get(key, ()), *map(str, names))
        return found

    remedy = f"Let channels that had finished be asked for once more: rm {directory / FILE}"
    return json_file.load(directory / FILE, parse, remedy) or {}

"""Which channels have finished for good: kept beside the spool, so that an intake that comes back
does not ask for them again and store their messages once more."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives import json_file
from aqueduct_core.primitives.host_port import canonical

log = logging.getLogger(__name__)

FILE = "finished.json"


class FinishedChannels:
    """Names of finished channels for each endpoint, in ``finished.json`` of the spool directory,
    each with a digest of its request.

    Another request under the same name has not finished; what an earlier release wrote without a
    digest has: None stands for it.

    A name is written after the channel's last message is durable. A process that dies in between
    asks for that channel once more. Raises SpoolFailed where it is made: CORRUPT, VERSION, IO.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._before = finished_in(directory)
        self._now: dict[str, Mapping[str, str]] = {}
        self._written: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def of(self, endpoint: str) -> Mapping[str, str | None]:
        """What had finished there when this was made: digests by name."""
        return self._before.get(endpoint, {})

    def note(self, endpoint: str, finished: Mapping[str, str]) -> None:
        """All that have finished at ``endpoint``, with their digests; it may grow. Written soon."""
        self._now[endpoint] = finished
        if self._writing is None and self._fresh:
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="finished")

    async def close(self) -> None:
        """Return when all is written."""
        if self._writing is not None:
            await self._writing

    @property
    def _fresh(self) -> bool:
        return any(len(names) != self._written.get(key, 0) for key, names in self._now.items())

    def _content(self) -> dict[str, Any]:
        finished: dict[str, Mapping[str, str | None]] = dict(self._before)
        for endpoint, now in self._now.items():
            finished[endpoint] = {**finished.get(endpoint, {}), **now}
        return {
            "finished": {endpoint: sorted(names) for endpoint, names in finished.items()},
            "requests": {
                endpoint: {name: digest for name, digest in names.items() if digest is not None}
                for endpoint, names in finished.items()
            },
        }

    async def _write(self) -> None:
        try:
            while self._fresh:
                self._written = {endpoint: len(names) for endpoint, names in self._now.items()}
                content = self._content()
                await asyncio.to_thread(json_file.save, self._path, content)
        except SpoolFailed as error:
            log.warning("%s", error)
        finally:
            self._writing = None


def finished_in(directory: Path) -> Mapping[str, Mapping[str, str | None]]:
    """The finished channels of each endpoint, as the last intake of a spool directory wrote them,
    each with the digest of its request; None where an earlier release kept none.

    Raises: SpoolFailed: CORRUPT, VERSION, IO.
    """

    def parse(content: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
        finished: Mapping[str, Sequence[str]] = content["finished"]
        requests: Mapping[str, Mapping[str, str]] = content.get("requests", {})
        found: dict[str, dict[str, str | None]] = {}
        for endpoint, names in finished.items():
            digests = requests.get(endpoint, {})
            each = {str(name): digests.get(name) for name in names}
            # earlier releases kept the endpoint as it was given
            found.setdefault(canonical(str(endpoint)), {}).update(each)
        return found

    path = directory / FILE
    remedy = f"Let channels that had finished be asked for once more: rm {shlex.quote(str(path))}"
    return json_file.load(path, parse, remedy) or {}

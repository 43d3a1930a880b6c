"""Which channels have finished for good: kept beside the spool, so that an intake that comes back
does not ask for them again and store their messages once more."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed

log = logging.getLogger(__name__)

FILE = "finished.json"
VERSION = 1


class Fulfilled:
    """Names of finished channels for each endpoint, in ``finished.json`` of the spool directory.

    A name is written after the channel's last message is durable. A process that dies in between
    asks for that channel once more. Raises SpoolFailed where it is made: CORRUPT, VERSION, IO.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._before = _load(self._path)
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
                text = json.dumps({"v": VERSION, "finished": names})
                await asyncio.to_thread(_replace, self._path, text.encode())
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)
        finally:
            self._writing = None


def _load(path: Path) -> dict[str, tuple[str, ...]]:
    try:
        value: Any = json.loads(path.read_bytes())
        if value["v"] != VERSION:
            raise SpoolFailed(
                "VERSION",
                f"{path} has version {value['v']}, this release reads {VERSION}",
                "Use the release that wrote it",
            )
        return {
            str(endpoint): tuple(map(str, names)) for endpoint, names in value["finished"].items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SpoolFailed(
            "IO", f"{path} cannot be read: {error.strerror}", "Make it readable for the intake"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SpoolFailed(
            "CORRUPT",
            f"{path} is damaged",
            "Remove it: channels that had finished are then asked for once more",
        ) from None


def _replace(path: Path, content: bytes) -> None:
    """A crash leaves the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

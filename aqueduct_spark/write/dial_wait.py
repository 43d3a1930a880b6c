"""A task that waits for an endpoint to answer says so in its log, which is its executor's."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from aqueduct_core.errors import ConnectFailed
from aqueduct_core.flight.stalls import Stall, lasted

log = logging.getLogger(__name__)

TOLD_AFTER = 2.0
"""Seconds of dialling before it is told."""


class DialWait:
    """Around the dialling of ``endpoint``: one line when it takes long, and one when it is over.

    ``failure`` is why the last attempt failed. Both are warnings: nothing else of a task is seen
    where nobody has set up its log.
    """

    def __init__(self, endpoint: str) -> None:
        self.failure: ConnectFailed | None = None
        self._subject = f"endpoint {endpoint}"
        self._told = False

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._timer = self._loop.call_later(TOLD_AFTER, self._tell)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._told and kind is None:
            log.warning("%s is connected, after %s", self._subject, self._waited)

    @property
    def _waited(self) -> str:
        return lasted(self._loop.time() - self._began)

    def _tell(self) -> None:
        self._told = True
        silent = ConnectFailed("NO_REPLY", "it has not answered yet", "")
        stall = Stall.of("endpoint-down", self._subject, self.failure or silent)
        log.warning("waiting for %s: %s", self._waited, stall)

    def over(self, option: str) -> ConnectFailed:
        """What is raised when the limit of that name is reached."""
        failure = self.failure
        assert failure is not None
        what = f"{failure.what} (for {self._waited}, as '{option}' allows)"
        return ConnectFailed(failure.subclass, what, failure.remedy)

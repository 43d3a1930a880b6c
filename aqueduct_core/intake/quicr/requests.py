"""Which media one endpoint is asked for: those that are named, or those below a prefix.

Repeats are known by their positions, so what is asked for again becomes no row twice. A media with
an object that is too large would end so again, after all before it has come again: it is asked for
rarely, as there may be another one under its URL by then.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.quicr.settings import QuicrConnect
from aqueduct_core.intake.sessions.requests import EndpointRequests, RequestPhase
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.quicr.urls import url_bytes

TOO_LARGE_WAIT = 60.0
LONGEST_TOO_LARGE_WAIT = 3_600.0
"""Seconds until a media is asked for again that had an object which is too large, and at most, as
it may have it each time."""


class MediaRequests(EndpointRequests):
    """Of one endpoint, by the texts of their URLs.

    Args:
        finished: as of `EndpointRequests`: for other objects a URL has not finished.
    """

    def __init__(
        self, connect: QuicrConnect, media: MediaIntake, finished: Mapping[str, str | None]
    ) -> None:
        self.prefix: bytes | None = None
        if connect.subscribe_prefix is not None:
            self.prefix = url_bytes(connect.subscribe_prefix)
        self._refused = 0
        self._too_large: dict[str, Backoff] = {}
        digest = f"{media.start_group}.{media.start_object}"
        super().__init__(connect, connect.urls, finished, digest)

    @property
    def requested(self) -> int:
        """URLs, and the prefix as one that never finishes."""
        return super().requested + (self.prefix is not None)

    @property
    def settled(self) -> bool:
        return self.prefix is None and super().settled

    def add(self, name: str) -> None:
        """There is such a media; said more than once it counts once (Q25)."""
        if name not in self._requests and len(self._requests) >= MAX_URLS:
            self._refused += 1
            if self._refused == 1:
                self._fail(name, "refused", f"more than {MAX_URLS} media have its prefix")
            return
        super().add(name)

    def too_large(self, name: str, reason: str, now: float) -> None:
        """One of its objects is larger than we take: it fails, and with it a read that ends."""
        request = self._requests[name]
        if request.phase is not RequestPhase.OPEN:
            return
        self._fail(name, "too large", reason)
        if name not in self._too_large:
            backoff = Backoff(TOO_LARGE_WAIT, LONGEST_TOO_LARGE_WAIT, random.random)
            self._too_large[name] = backoff
        self._ask_again(request, now + self._too_large[name].next())

"""Which media one endpoint is asked for: those that are named, or those below a prefix.

Repeats are known by their positions, so what is asked for again becomes no row twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.quicr.settings import QuicrConnect
from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.quicr.urls import url_bytes


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

"""Which media one endpoint is asked for, what is open, and how that ended.

Pure: times are monotonic seconds that the caller gives. A media is finished when all of it is
durable. What ended otherwise is asked for again, on the same connection after a back-off: repeats
are known by their positions, so nothing becomes a row twice. One with an object that is too large
would end so again, after all before it has come again: it is asked for rarely, as there may be
another one under its URL by then.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

from aqueduct_core.flight.subscription_status import FAILURES, Failure
from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_core.intake.quicr.settings import QuicrConnect
from aqueduct_core.primitives.backoff import Backoff
from aqueduct_core.quicr.urls import url_bytes, url_text

TOO_LARGE_WAIT = 60.0
LONGEST_TOO_LARGE_WAIT = 3_600.0
"""Seconds until a media is asked for again that had an object which is too large, and at most, as
it may have it each time."""


class RequestPhase(Enum):
    WAITING = auto()
    """To be asked for at its time, when there is a connection."""
    OPEN = auto()
    FINISHED = auto()
    FAILED = auto()


@dataclass(slots=True)
class MediaRequest:
    """One URL. ``at``: when it is to be asked for, while it waits."""

    url: bytes
    backoff: Backoff = field(repr=False)
    too_large: Backoff = field(repr=False)
    phase: RequestPhase = RequestPhase.WAITING
    at: float = 0.0


class MediaRequests:
    """Of one endpoint, over all connections to it (`sessions.remote.Requests`).

    Args:
        finished: texts of URLs that were finished in an earlier life of the intake, each with a
            digest of its request: for other objects it has not finished.
    """

    def __init__(
        self, connect: QuicrConnect, media: MediaIntake, finished: Mapping[str, str | None]
    ) -> None:
        self.failures = 0
        self.failed: deque[Failure] = deque(maxlen=FAILURES)
        self.finished_requests: dict[str, str] = {}
        self.prefix: bytes | None = None
        if connect.subscribe_prefix is not None:
            self.prefix = url_bytes(connect.subscribe_prefix)
        self._connect = connect
        self._digest = f"{media.start_group}.{media.start_object}"
        self._before = finished
        self._requests: dict[bytes, MediaRequest] = {}
        self._counts = dict.fromkeys(RequestPhase, 0)
        self._refused = 0
        for text in connect.urls:
            self.add(url_bytes(text))

    @property
    def requested(self) -> int:
        """URLs, and the prefix as one that never finishes."""
        return len(self._requests) + (self.prefix is not None)

    @property
    def open(self) -> int:
        return self._counts[RequestPhase.OPEN]

    @property
    def waiting(self) -> int:
        """To be asked for, now or later."""
        return self._counts[RequestPhase.WAITING]

    @property
    def finished(self) -> int:
        return self._counts[RequestPhase.FINISHED]

    @property
    def settled(self) -> bool:
        """Nothing will be asked for any more, and nothing is open."""
        left = self._counts[RequestPhase.WAITING] + self._counts[RequestPhase.OPEN]
        return self.prefix is None and not left

    def add(self, url: bytes) -> None:
        """There is such a media; said more than once it counts once (Q25)."""
        if url in self._requests:
            return
        text = url_text(url)
        if len(self._requests) >= MAX_URLS:
            self._refused += 1
            if self._refused == 1:
                self._fail(text, "refused", f"more than {MAX_URLS} media have its prefix")
            return
        backoff = Backoff(self._connect.first_wait, self._connect.longest_wait, random.random)
        too_large = Backoff(TOO_LARGE_WAIT, LONGEST_TOO_LARGE_WAIT, random.random)
        request = self._requests[url] = MediaRequest(url, backoff, too_large)
        self._counts[request.phase] += 1
        if self._before.get(text, "") in (None, self._digest):
            self._finish(request)

    def take(self, now: float, most: int | None = None) -> list[MediaRequest]:
        """Those that are to be asked for now, the first ``most`` of them; they are open from then
        on."""
        if not self._counts[RequestPhase.WAITING]:
            return []
        waiting = (e for e in self._requests.values() if e.phase is RequestPhase.WAITING)
        due = list(islice((each for each in waiting if each.at <= now), most))
        for request in due:
            self._move(request, RequestPhase.OPEN)
        return due

    @property
    def next_at(self) -> float | None:
        """When there is something to ask for; None: not before something changes."""
        if not self._counts[RequestPhase.WAITING]:
            return None
        waiting = (e.at for e in self._requests.values() if e.phase is RequestPhase.WAITING)
        return min(waiting)

    def received(self, url: bytes) -> None:
        """Objects came that are to be stored."""
        self._requests[url].backoff.reset()

    def recorded(self, url: bytes) -> None:
        """All of it is durable."""
        self._finish(self._requests[url])

    def cancelled(self, url: bytes, now: float) -> None:
        """Its sender gave it up. A read that ends has it not whole then, and says so."""
        request = self._requests[url]
        if request.phase is not RequestPhase.OPEN:
            return
        if self._connect.bounded:
            self._fail(url_text(url), "cancelled", "its sender gave it up before its final point")
            self._move(request, RequestPhase.FAILED)
        else:
            request.at = now + request.backoff.next()
            self._move(request, RequestPhase.WAITING)

    def too_large(self, url: bytes, reason: str, now: float) -> None:
        """One of its objects is larger than we take: it fails, and with it a read that ends."""
        request = self._requests[url]
        if request.phase is not RequestPhase.OPEN:
            return
        self._fail(url_text(url), "too large", reason)
        if self._connect.bounded:
            self._move(request, RequestPhase.FAILED)
        else:
            request.at = now + request.too_large.next()
            self._move(request, RequestPhase.WAITING)

    def lost(self, now: float) -> None:
        """The connection is over: what was open is asked for on the next one."""
        for request in self._requests.values():
            if request.phase is RequestPhase.OPEN:
                request.at = now
                self._move(request, RequestPhase.WAITING)

    def _finish(self, request: MediaRequest) -> None:
        self._move(request, RequestPhase.FINISHED)
        text = url_text(request.url)
        self.finished_requests[text] = self._digest
        self._forget_failure(text)

    def _move(self, request: MediaRequest, phase: RequestPhase) -> None:
        self._counts[request.phase] -= 1
        self._counts[phase] += 1
        request.phase = phase

    def _fail(self, url: str, end: str, reason: str) -> None:
        self.failures += 1
        self._forget_failure(url)
        self.failed.append(Failure(url, end, reason))

    def _forget_failure(self, url: str) -> None:
        """Another one follows, or it came to its end at last."""
        known = next((each for each in self.failed if each.channel == url), None)
        if known is not None:
            self.failed.remove(known)

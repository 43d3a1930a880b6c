"""What one endpoint is asked for by name, what is open, and how that ended.

Pure: times are monotonic seconds that the caller gives. A request has finished when all of it is
durable. What ended otherwise is asked for again, on the same connection after a back-off.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice

from aqueduct_core.flight.subscription_status import FAILURES, Failure
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.primitives.backoff import Backoff


class RequestPhase(Enum):
    WAITING = auto()
    """To be asked for at its time, when there is a connection."""
    OPEN = auto()
    FINISHED = auto()
    FAILED = auto()


@dataclass(slots=True)
class EndpointRequest:
    """One of them. ``at``: when it is to be asked for, while it waits."""

    name: str
    backoff: Backoff = field(repr=False)
    phase: RequestPhase = RequestPhase.WAITING
    at: float = 0.0


class EndpointRequests:
    """Of one endpoint, over all connections to it (`sessions.remote.Requests`).

    Args:
        names: what is asked for from the start; `add` brings more.
        finished: names that were finished in an earlier life of the intake, each with a digest of
            its request: one of another digest has not finished.
        digest: of the requests of this life.
    """

    def __init__(
        self,
        connect: ConnectSettings,
        names: Iterable[str],
        finished: Mapping[str, str | None],
        digest: str = "",
    ) -> None:
        self.failures = 0
        self.failed: deque[Failure] = deque(maxlen=FAILURES)
        self.finished_requests: dict[str, str] = {}
        self._connect = connect
        self._digest = digest
        self._before = finished
        self._requests: dict[str, EndpointRequest] = {}
        self._counts = dict.fromkeys(RequestPhase, 0)
        for name in names:
            self.add(name)

    @property
    def requested(self) -> int:
        return len(self._requests)

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
        return not (self._counts[RequestPhase.WAITING] + self._counts[RequestPhase.OPEN])

    def add(self, name: str) -> None:
        """There is such a one; said more than once it counts once."""
        if name in self._requests:
            return
        backoff = Backoff(self._connect.first_wait, self._connect.longest_wait, random.random)
        request = self._requests[name] = EndpointRequest(name, backoff)
        self._counts[request.phase] += 1
        if name in self._before and self._before[name] in (None, self._digest):
            self._finish(request)

    def take(self, now: float, most: int | None = None) -> list[str]:
        """Those that are to be asked for now, the first ``most`` of them; they are open from then
        on."""
        if not self._counts[RequestPhase.WAITING]:
            return []
        waiting = (e for e in self._requests.values() if e.phase is RequestPhase.WAITING)
        due = list(islice((each for each in waiting if each.at <= now), most))
        for request in due:
            self._move(request, RequestPhase.OPEN)
        return [each.name for each in due]

    @property
    def next_at(self) -> float | None:
        """When there is something to ask for; None: not before something changes."""
        if not self._counts[RequestPhase.WAITING]:
            return None
        waiting = (e.at for e in self._requests.values() if e.phase is RequestPhase.WAITING)
        return min(waiting)

    def received(self, name: str) -> None:
        """Something of it came that is to be stored."""
        self._requests[name].backoff.reset()

    def recorded(self, name: str) -> None:
        """All of it is durable."""
        self._finish(self._requests[name])

    def cancelled(self, name: str, now: float, reason: str) -> None:
        """It ended before it was whole. A read that ends has it not whole then, and says so."""
        request = self._requests[name]
        if request.phase is RequestPhase.OPEN:
            if self._connect.bounded:
                self._fail(name, "cancelled", reason)
            self._ask_again(request, now + request.backoff.next())

    def lost(self, now: float) -> None:
        """The connection is over: what was open is asked for on the next one."""
        for request in self._requests.values():
            if request.phase is RequestPhase.OPEN:
                request.at = now
                self._move(request, RequestPhase.WAITING)

    def _ask_again(self, request: EndpointRequest, at: float) -> None:
        """Not before ``at``; a read that ends does not wait for that."""
        if self._connect.bounded:
            self._move(request, RequestPhase.FAILED)
        else:
            request.at = at
            self._move(request, RequestPhase.WAITING)

    def _finish(self, request: EndpointRequest) -> None:
        self._move(request, RequestPhase.FINISHED)
        self.finished_requests[request.name] = self._digest
        self._forget_failure(request.name)

    def _move(self, request: EndpointRequest, phase: RequestPhase) -> None:
        self._counts[request.phase] -= 1
        self._counts[phase] += 1
        request.phase = phase

    def _fail(self, name: str, end: str, reason: str) -> None:
        self.failures += 1
        self._forget_failure(name)
        self.failed.append(Failure(name, end, reason))

    def _forget_failure(self, name: str) -> None:
        """Another one follows, or it came to its end at last."""
        known = next((each for each in self.failed if each.channel == name), None)
        if known is not None:
            self.failed.remove(known)

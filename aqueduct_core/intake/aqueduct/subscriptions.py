"""What is subscribed to at one endpoint: what to ask for, what is open, how that ended.

Pure: no socket and no clock; times are monotonic seconds that the caller gives. A *tree* is one
channel that was asked for, with every channel below it that flows to us. A subscription is
finished when a tree of it came to its end with nothing missing. What happens to one that was not:

| its tree                                     | stream          | bounded                      |
|----------------------------------------------|-----------------|------------------------------|
| cancelled, lost, closed, overflow             | asked for again | failed for good              |
| connection lost, every row would be known    | asked for again | asked for again              |
| connection lost, rows might come twice       | asked for again | failed for good              |
| connection lost when nothing was missing     | finished, once that is durable                 |
| finished, and a channel below it did not     | finished; noted | failed for good              |

Asked for again means: after a back-off of the subscription, which starts anew once messages come. A
stream is to go on without an operator, and to the remote a cancel that it did not mean for ever
looks no different from one that it did; the back-off bounds what a wrong guess costs.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

from aqueduct_core.aqueduct.events import Counts, End
from aqueduct_core.flight.subscription_status import FAILURES, Failure
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from aqueduct_core.primitives.backoff import Backoff

INCOMPLETE = "incomplete"

LAST_WRITE = 5.0
"""Seconds for the last messages of a tree to become durable after its connection is gone. They
take a group commit, unless the spool is full: then they are not stored, and asked for again."""


class Phase(Enum):
    WAITING = auto()
    """To be asked for at its time, when there is a connection."""
    REQUESTED = auto()
    FINISHED = auto()
    FAILED = auto()


@dataclass(slots=True, eq=False)
class SubscriptionState:
    """One subscription of one endpoint."""

    subscription: Subscription
    backoff: Backoff = field(repr=False)
    phase: Phase = Phase.WAITING


@dataclass(slots=True, eq=False)
class ChannelTree:
    """``open`` channels have not ended; of those in ``complete`` nothing is missing, and of those
    in ``durable`` that is on disk. ``exact``: a repeat would not bring a row twice. ``spoilt``: a
    channel below the first one did not finish."""

    state: SubscriptionState
    root: int
    open: set[int] = field(default_factory=set)
    complete: set[int] = field(default_factory=set)
    durable: set[int] = field(default_factory=set)
    exact: bool = True
    spoilt: bool = False


class Subscriptions:
    """Of one endpoint. ``failures`` counts all failures, ``failed`` keeps the newest.

    Args:
        finished: names that were finished in an earlier life of the intake, with the digests of
            their requests: another request under the same name has not finished. What an earlier
            release noted has no digest.
    """

    def __init__(
        self,
        endpoint: str,
        settings: AqueductConnect,
        *,
        finished: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self.failures = 0
        self.failed: deque[Failure] = deque(maxlen=FAILURES)
        self.finished_requests: dict[str, str] = {}
        self._endpoint = endpoint
        self._bounded = settings.bounded
        self._trees: dict[int, ChannelTree] = {}  # of each channel that has not ended
        self._counts = dict.fromkeys(Phase, 0)
        self._serial = itertools.count()
        self._waiting: list[tuple[float, int, SubscriptionState, bool]] = []
        for subscription in settings.subscriptions:
            state = SubscriptionState(
                subscription, Backoff(settings.first_wait, settings.longest_wait, random.random)
            )
            self._counts[Phase.WAITING] += 1
            if finished.get(subscription.name, "") in (None, subscription.digest):
                self._finish(state)
            else:
                self._wait(state, 0.0)

    @property
    def requested(self) -> int:
        return sum(self._counts.values())

    @property
    def open(self) -> int:
        """Those that were asked for and wait for messages or an end."""
        return self._counts[Phase.REQUESTED]

    @property
    def finished(self) -> int:
        return self._counts[Phase.FINISHED]

    @property
    def settled(self) -> bool:
        """Nothing will be asked for any more, and nothing is open."""
        waiting = self._counts[Phase.WAITING] + self._counts[Phase.REQUESTED]
        return waiting == 0 and not self._trees

    @property
    def next_at(self) -> float | None:
        """When there is something to ask for; None: not before an open channel ends."""
        return self._waiting[0][0] if self._waiting else None

    def take(self, now: float) -> SubscriptionState | None:
        """The next to ask for; None: none at this time."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, state, final = heapq.heappop(self._waiting)
            if state.phase is not Phase.WAITING:
                continue  # finished after all
            if not final:
                self._move(state, Phase.REQUESTED)
                return state
            self._fail(state.subscription.name, INCOMPLETE, "its last messages were not stored")
            self._move(state, Phase.FAILED)
        return None

    def put_back(self, state: SubscriptionState, now: float) -> None:
        """It could not be asked for yet, or its request went down with its connection."""
        self._wait(state, now)

    def opened(self, state: SubscriptionState, channel: int) -> None:
        """The request left; ``channel`` is the one that hangs on it."""
        self._trees[channel] = ChannelTree(state, channel, {channel})

    def received(self, channel: int, *, resumes: bool) -> None:
        """Messages came on a channel; ``resumes``: a repeat of them is recognised."""
        tree = self._trees.get(channel)
        if tree is not None:
            tree.exact = tree.exact and resumes
            tree.state.backoff.reset()

    def attached(self, parent: int, channel: int) -> None:
        """One more channel flows to us, in a message of ``parent``."""
        tree = self._trees.get(parent)
        if tree is not None:
            tree.open.add(channel)
            self._trees[channel] = tree

    def completed(self, channel: int) -> None:
        """The channel finished and nothing of it is missing; it is not durable yet."""
        tree = self._trees.get(channel)
        if tree is not None:
            tree.complete.add(channel)

    def recorded(self, channel: int) -> None:
        """What was completed is durable; the channel's end is near."""
        tree = self._trees.get(channel)
        if tree is not None:
            tree.durable.add(channel)

    def refused(self, state: SubscriptionState, reason: str) -> None:
        """It cannot be asked for at all: the request breaks a limit."""
        self._fail(state.subscription.name, "refused", reason)
        self._move(state, Phase.FAILED)

    def unread(self, parent: int, name: str, reason: str) -> None:
        """A channel in a message of ``parent`` that flows to us cannot be read; it was closed."""
        tree = self._trees.get(parent)
        if tree is not None:
            tree.spoilt = True
            self._fail(name, End.CLOSED.value, reason)

    def ended(self, channel: int, name: str, end: End, counts: Counts, now: float) -> None:
        """A channel ended. For a lost connection, see `lost`."""
        if end is End.CONNECTION_LOST:
            return
        tree = self._trees.pop(channel, None)
        if tree is None:
            return
        missing = _missing(counts) if end is End.FINISHED else None
        good = end is End.FINISHED and missing is None
        if not good:
            kind = INCOMPLETE if missing else end.value
            self._fail(name, kind, missing or f"{_WORDS[end]} at {self._endpoint}")
        if channel == tree.root and not good:
            for other in tree.open:
                self._trees.pop(other, None)
            self._again(tree.state, now, final=self._bounded)
            return
        tree.spoilt = tree.spoilt or not good
        tree.open.discard(channel)
        if not tree.open:
            if tree.spoilt and self._bounded:
                self._move(tree.state, Phase.FAILED)
            else:
                self._finish(tree.state)

    def lost(self, reason: str, now: float) -> list[ChannelTree]:
        """The connection is gone, and with it every channel on it. Returns the trees of which
        nothing is missing but that their end is durable: `settle` is to be called for these."""
        trees, self._trees = list(dict.fromkeys(self._trees.values())), {}
        whole: list[ChannelTree] = []
        for tree in trees:
            if tree.spoilt or not tree.open <= tree.complete:
                self._cut(tree, reason, now)
            elif tree.open <= tree.durable:
                self._finish(tree.state)
            else:
                self._wait(tree.state, now + LAST_WRITE, final=self._bounded)
                whole.append(tree)
        return whole

    def settle(self, tree: ChannelTree, channel: int) -> None:
        """A channel of a tree that `lost` returned is durable now."""
        tree.durable.add(channel)
        if tree.open <= tree.durable and tree.state.phase is Phase.WAITING:
            self._finish(tree.state)

    def _cut(self, tree: ChannelTree, reason: str, now: float) -> None:
        final = self._bounded and not (tree.exact and not tree.spoilt)
        if final:
            self._fail(tree.state.subscription.name, End.CONNECTION_LOST.value, reason)
        self._again(tree.state, now, final=final, pause=False)

    def _again(
        self, state: SubscriptionState, now: float, *, final: bool, pause: bool = True
    ) -> None:
        if final:
            self._move(state, Phase.FAILED)
        else:
            self._wait(state, now + state.backoff.next() if pause else now)

    def _wait(self, state: SubscriptionState, at: float, *, final: bool = False) -> None:
        """``final``: it is given up, not asked for, at that time."""
        self._move(state, Phase.WAITING)
        heapq.heappush(self._waiting, (at, next(self._serial), state, final))

    def _finish(self, state: SubscriptionState) -> None:
        self._move(state, Phase.FINISHED)
        subscription = state.subscription
        self.finished_requests[subscription.name] = subscription.digest

    def _move(self, state: SubscriptionState, phase: Phase) -> None:
        self._counts[state.phase] -= 1
        self._counts[phase] += 1
        state.phase = phase

    def _fail(self, channel: str, end: str, reason: str) -> None:
        self.failures += 1
        self.failed.append(Failure(channel, end, reason))


_WORDS = {
    End.FINISHED: "finished",
    End.CANCELLED: "cancelled by the remote",
    End.CLOSED: "closed",
    End.LOST: "lost: the remote did not take the request, or forgot the channel",
    End.OVERFLOW: "closed on this side: more piled up than its credit allows",
    End.CONNECTION_LOST: "lost with its connection",
}


def _missing(counts: Counts) -> str | None:
    """Why a finished channel is not complete; None: it is."""
    if counts.reliable_received != counts.reliable_sent:
        return f"{counts.reliable_received} of {counts.reliable_sent} messages came"
    sent = counts.reliable_sent + counts.unreliable_sent
    if counts.acked + counts.nacked != sent:
        return f"of {sent} messages {counts.acked} are stored and {counts.nacked} known to be lost"
    return None

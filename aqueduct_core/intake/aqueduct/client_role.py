"""The role of the client: it asks for channels on the entrypoint, and the remote sends on them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from aqueduct_core.aqueduct.conventions.headers import BadHeader, channel_headers, read_connection
from aqueduct_core.aqueduct.conventions.refusals import broke_protocol
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach
from aqueduct_core.aqueduct.events import Closed, Complete, Ended, Event, Numbered
from aqueduct_core.aqueduct.faults import LocalError, TooMany
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.intake.aqueduct.open_channels import SessionChannel
from aqueduct_core.intake.aqueduct.session import AqueductSession, Role
from aqueduct_core.intake.aqueduct.subscriptions import (
    ChannelTree,
    Subscriptions,
    SubscriptionState,
)
from aqueduct_core.intake.sessions.remote import ConnectionEvents

log = logging.getLogger(__name__)


class ClientRole(Role):
    """Asks on one connection for what ``subscriptions`` want, and reports what became of that.

    The remote may name itself (connection headers ``producer`` and ``sequence-start``): then the
    channels that we ask for begin at that logical number, and what it sends again after a
    reconnect is recognised. Without both, what it repeats is stored again.

    Args:
        later: ``later(seconds, call)`` as of an event loop.
    """

    def __init__(
        self,
        engine: AqueductEngine,
        subscriptions: Subscriptions,
        *,
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        events: ConnectionEvents,
    ) -> None:
        self.left = False
        """The entrypoint has ended."""
        self.progress = False
        """Messages came on this connection."""
        self._engine = engine
        self._subscriptions = subscriptions
        self._clock = clock
        self._later = later
        self._events = events
        self._session: AqueductSession | None = None
        self._start: int | None = None
        self._waiting: deque[SubscriptionState] = deque()  # sent, without credit (AQ-FLOW-5)
        self._blocked = False
        self._timer: float | None = None
        self._completed: dict[int, ChannelTree] = {}  # whose end is not durable yet

    @property
    def idle(self) -> bool:
        """Nothing is open, and nothing can be asked for on this connection any more."""
        if self._subscriptions.open or self._session is None:
            return False
        return self.left or self._subscriptions.settled

    def opened(self, session: AqueductSession, headers: Headers) -> None:
        try:
            claims = read_connection(headers)
        except BadHeader as error:
            session.refuse(str(error))
            return
        self._session = session
        self._start = claims.sequence_start
        session.admit(headers, claims.producer)
        self._events.opened()
        self.request()
        self._events.changed()

    def request(self) -> None:
        """Ask for all that is to be asked for now; come back when more is."""
        session = self._session
        if session is None or self.left or self._engine.closed is not None:
            return
        now = self._clock()
        self._blocked = False
        requested = False
        while not self._blocked and (state := self._subscriptions.take(now)) is not None:
            requested = self._request(session, state, now) or requested
        if requested:
            session.kick()
        self._request_later(now)

    def leave(self) -> None:
        """Finish the entrypoint: no more requests come (AQ-LIFE-24)."""
        if self._session is not None and not self.left:
            try:
                self._engine.finish(chanid.ENTRYPOINT, self._clock())
                self._session.kick()
            except LocalError as error:
                log.debug("%s: %s", self._session, error)

    def received(self, channel: SessionChannel) -> None:
        self.progress = True
        self._subscriptions.received(channel.source.channel_id, resumes=channel.resumes)

    def handle(self, event: Event) -> None:
        if isinstance(event, Numbered) and event.channel == chanid.ENTRYPOINT and event.attached:
            self._reading(self._waiting.popleft(), event.attached[0])
        elif isinstance(event, Complete):
            self._subscriptions.completed(event.channel)
        elif self._blocked:
            self.request()

    def attached(self, channel: SessionChannel) -> None:
        source = channel.source
        assert source.parent_channel_id is not None
        self._subscriptions.attached(source.parent_channel_id, source.channel_id)

    def recorded(self, channels: list[int]) -> None:
        for channel in channels:
            tree = self._completed.pop(channel, None)
            if tree is None:
                self._subscriptions.recorded(channel)
            else:
                self._subscriptions.settle(tree, channel)
                self._events.changed()

    def unread(self, parent: SessionChannel, path: str, reason: str) -> None:
        self._subscriptions.unread(parent.source.channel_id, path, reason)

    def ended(self, ended: Ended, channel: SessionChannel | None) -> None:
        if channel is not None:
            self._subscriptions.ended(
                ended.channel,
                channel.source.channel,
                ended.end,
                ended.counts,
                self._clock(),
            )
        elif ended.channel == chanid.ENTRYPOINT:
            self.left = True
            self._return_waiting()
        self.request()
        self._events.changed()

    def closed(self, session: AqueductSession, closed: Closed) -> None:
        self._return_waiting()
        for tree in self._subscriptions.lost(_reason(closed), self._clock()):
            self._completed |= dict.fromkeys(tree.open - tree.durable, tree)
        self._session = None
        self._events.closed(closed)

    def _request(self, session: AqueductSession, state: SubscriptionState, now: float) -> bool:
        """Whether the request left, or waits for credit."""
        subscription = state.subscription
        try:
            attach = Attach(False, headers=channel_headers(name=subscription.name or None))
            sent = self._engine.send(
                chanid.ENTRYPOINT,
                subscription.request_payload,
                now=now,
                headers=subscription.request_headers,
                attach=[attach],
            )
        except TooMany as error:
            log.debug("%s: %s", session, error)
            self._blocked = True
            self._subscriptions.put_back(state, now)
            return False
        except LocalError as error:
            self._subscriptions.refused(state, str(error))
            return False
        if sent.attached:
            self._reading(state, sent.attached[0])
        else:
            self._waiting.append(state)
        return True

    def _reading(self, state: SubscriptionState, channel: int) -> None:
        assert self._session is not None
        name = state.subscription.name
        self._subscriptions.opened(state, channel)
        headers = channel_headers(name=name or None)
        self._session.read(channel, name or str(channel), self._start, headers)

    def _return_waiting(self) -> None:
        now = self._clock()
        while self._waiting:
            self._subscriptions.put_back(self._waiting.popleft(), now)

    def _request_later(self, now: float) -> None:
        next_at = self._subscriptions.next_at
        if self._blocked or next_at is None or (self._timer is not None and self._timer <= next_at):
            return
        self._timer = next_at
        self._later(max(0.0, next_at - now), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.request()


def _reason(closed: Closed) -> str:
    if closed.origin is not CloseOrigin.APPLICATION:
        return f"the connection was lost: {how_lost(closed)[:400]}"
    text = f": {closed.reason[:200]}" if closed.reason else ""
    if closed.by_peer:
        return f"the remote closed the connection, code {closed.code}{text}"
    if broke_protocol(closed):
        return f"the remote broke the protocol, code {closed.code}{text}"
    return f"the connection was lost{text}"

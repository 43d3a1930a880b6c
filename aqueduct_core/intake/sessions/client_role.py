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
from aqueduct_core.intake.sessions.context import SessionChannel
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.sessions.subscriptions import Subscriptions, SubscriptionState, Tree

log = logging.getLogger(__name__)


class ClientRole:
    """Asks on one connection for what ``demand`` wants, and tells it what became of that.

    The remote may name itself (connection headers ``producer`` and ``sequence-start``): then the
    channels that we ask for begin at that logical number, and what it sends again after a
    reconnect is recognised. Without both, what it repeats is stored again.

    Args:
        later: ``later(seconds, call)`` as of an event loop.
        opened: called when the remote accepted the connection.
        stirred: called when something came, or ended; the connection may have nothing to do now.
        over: called at the end of the connection.
    """

    def __init__(
        self,
        engine: AqueductEngine,
        demand: Subscriptions,
        *,
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        opened: Callable[[], None],
        stirred: Callable[[], None],
        over: Callable[[Closed], None],
    ) -> None:
        self.entrypoint_ended = False
        self.progress = False
        """Messages came on this connection."""
        self._engine = engine
        self._demand = demand
        self._clock = clock
        self._later = later
        self._opened = opened
        self._stirred = stirred
        self._over = over
        self._session: Session | None = None
        self._start: int | None = None
        self._numberless: deque[SubscriptionState] = (
            deque()
        )  # sent, and waiting for credit (AQ-FLOW-5)
        self._blocked = False
        self._timer: float | None = None
        self._whole: dict[int, Tree] = {}  # channels that lack only that their end is durable

    @property
    def idle(self) -> bool:
        """Nothing is open, and nothing can be asked for on this connection any more."""
        if self._demand.open or self._session is None:
            return False
        return self.entrypoint_ended or self._demand.settled

    def opened(self, session: Session, headers: Headers) -> None:
        try:
            claims = read_connection(headers)
        except BadHeader as error:
            session.refuse(str(error))
            return
        self._session = session
        self._start = claims.sequence_start
        session.admit(headers, claims.producer)
        self._opened()
        self.ask()
        self._stirred()

    def ask(self) -> None:
        """Ask for all that is due; come back when more is."""
        session = self._session
        if session is None or self.entrypoint_ended or self._engine.closed is not None:
            return
        now = self._clock()
        self._blocked = False
        asked = False
        while not self._blocked and (wish := self._demand.take(now)) is not None:
            asked = self._ask(session, wish, now) or asked
        if asked:
            session.kick()
        self._ask_later(now)

    def finish(self) -> None:
        """Say on the entrypoint that no more requests come."""
        if self._session is not None and not self.entrypoint_ended:
            try:
                self._engine.finish(chanid.ENTRYPOINT, self._clock())
                self._session.kick()
            except LocalError as error:
                log.debug("%s: %s", self._session, error)

    def received(self, channel: SessionChannel) -> None:
        self.progress = True
        self._demand.received(channel.source.channel_id, resumes=channel.resumes)

    def told(self, event: Event) -> None:
        if isinstance(event, Numbered) and event.channel == chanid.ENTRYPOINT and event.attached:
            self._reading(self._numberless.popleft(), event.attached[0])
        elif isinstance(event, Complete):
            self._demand.completed(event.channel)
        elif self._blocked:
            self.ask()

    def attached(self, channel: SessionChannel) -> None:
        source = channel.source
        assert source.parent_channel_id is not None
        self._demand.attached(source.parent_channel_id, source.channel_id)

    def recorded(self, channels: list[int]) -> None:
        for channel in channels:
            tree = self._whole.pop(channel, None)
            if tree is None:
                self._demand.recorded(channel)
            else:
                self._demand.settle(tree, channel)
                self._stirred()

    def unread(self, parent: SessionChannel, path: str, reason: str) -> None:
        self._demand.unread(parent.source.channel_id, path, reason)

    def ended(self, ended: Ended, channel: SessionChannel | None) -> None:
        if channel is not None:
            self._demand.ended(
                ended.channel,
                channel.source.channel,
                ended.end,
                ended.counts,
                self._clock(),
            )
        elif ended.channel == chanid.ENTRYPOINT:
            self.entrypoint_ended = True
            self._return_numberless()
        self.ask()
        self._stirred()

    def closed(self, session: Session, closed: Closed) -> None:
        self._return_numberless()
        for tree in self._demand.lost(_reason(closed), self._clock()):
            self._whole |= dict.fromkeys(tree.open - tree.durable, tree)
        self._session = None
        self._over(closed)

    def _ask(self, session: Session, wish: SubscriptionState, now: float) -> bool:
        """Whether the request left, or waits for credit."""
        subscription = wish.subscription
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
            self._demand.put_back(wish, now)
            return False
        except LocalError as error:
            self._demand.refused(wish, str(error))
            return False
        if sent.attached:
            self._reading(wish, sent.attached[0])
        else:
            self._numberless.append(wish)
        return True

    def _reading(self, wish: SubscriptionState, channel: int) -> None:
        assert self._session is not None
        name = wish.subscription.name
        self._demand.opened(wish, channel)
        headers = channel_headers(name=name or None)
        self._session.read(channel, name or str(channel), self._start, headers)

    def _return_numberless(self) -> None:
        now = self._clock()
        while self._numberless:
            self._demand.put_back(self._numberless.popleft(), now)

    def _ask_later(self, now: float) -> None:
        due = self._demand.due
        if self._blocked or due is None or (self._timer is not None and self._timer <= due):
            return
        self._timer = due
        self._later(max(0.0, due - now), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.ask()


def _reason(closed: Closed) -> str:
    if closed.origin is not CloseOrigin.APPLICATION:
        return f"the connection was lost: {how_lost(closed)[:400]}"
    text = f": {closed.reason[:200]}" if closed.reason else ""
    if closed.by_peer:
        return f"the remote closed the connection, code {closed.code}{text}"
    if broke_protocol(closed):
        return f"the remote broke the protocol, code {closed.code}{text}"
    return f"the connection was lost{text}"

"""The driver of one engine on one link: the only place that reads a clock and pumps bytes.

One turn is: datagrams in → inputs → timers that are due → actions → datagrams out → timer → events;
actions and datagrams out again where what left made room for more.
A turn starts when a burst was read, when a timer is due, or after ``kick``. What a turn costs
hardly depends on how much it carries, so those that an application asks for in quick succession are
joined.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from aqueduct_core.engine.actions import CloseLink
from aqueduct_core.engine.close_codes import CONNECTION_REFUSED, CloseOrigin, how_lost
from aqueduct_core.engine.engine import Engine, Footprint
from aqueduct_core.engine.inputs import Input, LinkLost
from aqueduct_core.errors import AqueductError, ConnectFailed
from aqueduct_core.transport.alarm import Alarm
from aqueduct_core.transport.link import Address, Link, LinkCounts

INTERNAL = 10
"""Application error code for a fault of our own (AQ-ERR-2), where the protocol names no other."""
ROUNDS_PER_TURN = 16
"""Inputs that actions bring about (a datagram refused) are handled in the same turn, so often,
and so are those that come with what was sent (datagrams left)."""
HIGH_WATER = 4 * 1024 * 1024
JOIN = 0.002
"""Seconds between two turns that an application asks for by itself, in answer to nothing that came:
a tenth of the 20 ms after which acknowledgements are due, so that a message sent by itself is no
later than that, and a thousand of them a second take half as many turns. The first one after so
much quiet is not put off."""
DRIVER_BYTES = 4 << 10
"""A driver, its timer, and its places in the tables of a listener."""

OnEvents: TypeAlias = Callable[["Driver", list[Any]], None]
"""Called once a turn with all events, inside the event loop's thread; must not block."""
Send: TypeAlias = Callable[[list[tuple[bytes, Address]]], int | None]
"""Sends datagrams; the size of the smallest that the network interface does not take, if any."""
MakeEngine: TypeAlias = Callable[["Driver", float], tuple[Engine[Any], OnEvents]]

_logger = logging.getLogger(__name__)


class Driver:
    """Runs one engine on one link.

    Ends when the link is closed: after an orderly close, an error of either side, or silence past
    the idle timeout. Then ``wait_closed`` returns and no timer or reference is left.
    The engine is made when the TLS handshake is complete, so strangers cost no engine and nothing
    that could be replayed is processed (AQ-0RTT-3); at a client that writes 0-RTT data, at once.

    ``on_due`` is called when a deadline has come, and gives the driver a ``turn`` when others had
    theirs; without it, it has one at once. ``unread`` says whether something has arrived that
    nobody has looked at yet, as ``Alarm`` asks.

    Usage: call the commands of ``engine``, then ``kick``; await ``writable`` before the next
    large amount. All calls belong to the thread of the event loop.
    """

    def __init__(
        self,
        link: Link,
        peer: Address,
        *,
        make_engine: MakeEngine,
        send: Send,
        on_turn: Callable[[Driver], None],
        on_due: Callable[[Driver], None] | None = None,
        unread: Callable[[], bool] = lambda: False,
        explain: Callable[[Driver], AqueductError] | None = None,
    ) -> None:
        self.link = link
        self.peer = peer
        self.failure: Exception | None = None
        """What ``make_engine`` raised, if it did."""
        self.held: Callable[[], int] | None = None
        """Says how much memory the application holds for this connection, beside the messages that
        it has not consumed; asked after a turn. For the application to set."""
        self.internal_error = INTERNAL
        """The code of the protocol for a fault of ours. For those who know the protocol to set."""
        self._explain = explain or lost_before_ready
        self._loop = asyncio.get_running_loop()
        self._make_engine = make_engine
        self._engine: Engine[Any] | None = None
        self._on_events: OnEvents | None = None
        self._send = send
        self._on_turn = on_turn
        self._on_due = on_due
        self._alarm = Alarm(self._loop, link, unread, self._rung)
        self._kick: asyncio.Handle | None = None
        self._kick_at = 0.0
        self._kicked_last = -JOIN
        self._answers = False  # the application has learnt something since the last kick
        self.turns = 0
        """How many there were."""
        self._faulty = False
        self._done = False
        self._closed = asyncio.Event()
        self._ready = asyncio.Event()
        self._writers: list[tuple[int, asyncio.Future[None]]] = []

    def __repr__(self) -> str:
        state = "closed" if self.closed else "lost" if self.link.lost else "open"
        return f"<Driver {self.peer[0]}:{self.peer[1]} {state}>"

    @property
    def engine(self) -> Any:
        """The engine, once there is one (before: RuntimeError)."""
        if self._engine is None:
            raise RuntimeError("the link is not ready, so it has no engine yet")
        return self._engine

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def lost(self) -> LinkLost | None:
        """Why the link is gone; None while it is there."""
        return self.link.lost

    @property
    def ready(self) -> bool:
        """The handshake is complete."""
        return self.link.ready

    @property
    def early(self) -> bool:
        """What is sent leaves before the handshake is complete (0-RTT)."""
        return self.link.early

    @property
    def early_accepted(self) -> bool | None:
        """Whether the server took that; None: nothing was sent so, or it is not known yet."""
        return self.link.early_accepted

    @property
    def peer_certificate_fingerprint(self) -> str | None:
        """SHA-256 of the peer's certificate as colon-separated hex; None if it showed none."""
        return self.link.peer_fingerprint

    @property
    def statistics(self) -> LinkCounts:
        return self.link.counts

    @property
    def unsent(self) -> int:
        """Bytes handed to the link and not acknowledged by the peer yet."""
        return self.link.unsent

    @property
    def footprint(self) -> Footprint:
        """Memory that the connection takes, about: of link, engine and application."""
        held = 0 if self.held is None else self.held()
        own = DRIVER_BYTES + self.link.footprint + held
        if self._engine is None:
            return Footprint(own)
        size, waiting = self._engine.footprint
        return Footprint(own + size, waiting)

    def now(self) -> float:
        """Monotonic seconds: the clock of the engine."""
        return self._loop.time()

    def why_not_ready(self) -> AqueductError:
        """The error for a link that was lost before its handshake was complete."""
        return self._explain(self)

    def probe(self) -> bool:
        """Ask the peer's host whether it is there (``Link.probe``)."""
        return self.link.probe()

    def kick(self, *, urgent: bool = False) -> None:
        """Run actions, transmit and events at the end of this turn of the event loop; or up to
        ``JOIN`` later where that was done just now, for something that is not ``urgent`` and cannot
        be an answer, as there was no event since."""
        now = self._loop.time()
        if urgent or self._answers:
            self._answers = False
            self._kick_by(now, now)
        else:
            self._kick_by(max(now, self._kicked_last + JOIN), now)

    def kick_later(self) -> None:
        """The same, ``JOIN`` later, where nobody waits for it: credit, for instance, of which there
        is more. Often there is a turn by then for another reason."""
        now = self._loop.time()
        self._kick_by(now + JOIN, now)

    def _kick_by(self, at: float, now: float) -> None:
        """Have a turn at ``at``, if none is to come sooner."""
        if self._done:
            return
        if self._kick is not None:
            if self._kick_at <= at:
                return
            self._kick.cancel()
        self._kick_at = at
        if at <= now:
            self._kick = self._loop.call_soon(self._kicked)
        else:
            self._kick = self._loop.call_at(at, self._kicked)

    async def writable(self, high: int = HIGH_WATER) -> None:
        """Return when fewer than ``high`` bytes are unsent, or the link is lost."""
        if self._kick is not None:
            # Actions of commands given just now are not in the link's account yet.
            self._kick.cancel()
            self._kicked()
        if self.link.unsent < high or self.link.lost is not None or self._done:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        entry = (high, waiter)
        self._writers.append(entry)
        try:
            await waiter
        finally:
            if entry in self._writers:
                self._writers.remove(entry)

    async def wait_ready(self) -> None:
        """Return when there is an engine or the link is lost, whichever is first."""
        await self._ready.wait()

    async def wait_closed(self) -> None:
        """Return when the link is closed and everything about it is freed."""
        await self._closed.wait()

    def close(
        self,
        code: int = 0,
        reason: str = "",
        origin: CloseOrigin = CloseOrigin.APPLICATION,
    ) -> None:
        """Close the link at once, without asking the engine; it learns ``LinkLost``."""
        if not self._done:
            self.link.close(code, reason, origin)
            self.turn((), self.now())

    def refuse(self, reason: str) -> None:
        """Close it by the transport's CONNECTION_REFUSED: the peer may come again."""
        self.close(CONNECTION_REFUSED, reason, CloseOrigin.TRANSPORT)

    def fail(self, what: str) -> None:
        """Close it for an exception of the application, which is handled just now."""
        if self._done:
            _logger.exception("%s: %s", self, what)
        else:
            self._fault(what, self.now())

    def abandon(self, reason: str = "abandoned") -> None:
        """Forget the link without a word to the peer."""
        if self._done:
            return
        self.link.abandon(reason)
        self._handle(self.link.inputs(), self.now())
        self._emit()
        self._finish()

    def turn(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        """One whole turn, with a burst of datagrams or none. Never raises."""
        if self._done:
            return
        try:
            self._run(datagrams, now)
        except Exception:
            # The link itself failed, so there is no way left to tell the peer.
            _logger.exception("%s: the transport failed; forgetting the connection", self)
            self.abandon()

    def _run(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        link = self.link
        self.turns += 1
        if self._kick is not None:
            # This turn does all that it was to do.
            self._kick.cancel()
            self._kick = None
        if datagrams:
            link.receive(datagrams, now)
        self._handle(link.inputs(), now)
        if self._alarm.link_is_due(now):
            # What arrived just now has only put deadlines off, so the last ``_due`` decides.
            link.fire(now)
            self._handle(link.inputs(), now)
        self._tick(now)
        self._act_all(now)
        for _ in range(ROUNDS_PER_TURN):
            out = link.transmit(now)
            if out and (size := self._send(out)):
                link.too_large(size, now)
            inputs = link.inputs()
            self._handle(inputs, now)
            if not inputs or link.backlogged or not self._act_all(now):
                break
        self._emit()
        self._on_turn(self)
        if link.closed:
            self._finish()
            return
        self._arm()
        self._release()

    def _handle(self, inputs: list[Input], now: float) -> None:
        if not inputs:
            return
        usable = self.link.ready or self.link.early
        if self._engine is None and usable and not self._faulty:
            try:
                self._engine, self._on_events = self._make_engine(self, now)
            except Exception as error:
                self.failure = error
                self._fault("making the engine failed", now)
            self._ready.set()
        if self.link.lost is not None:
            self._ready.set()
        engine = self._engine
        if engine is None or self._faulty:
            return
        try:
            for input in inputs:
                engine.handle(input, now)
        except Exception:
            self._fault("the engine failed on what arrived", now)

    def _tick(self, now: float) -> None:
        engine = self._engine
        if engine is None or self._faulty or self.link.lost is not None:
            return
        try:
            due = engine.wake_at
            if due is not None and now >= due:
                engine.tick(now)
        except Exception:
            self._fault("the engine failed on a deadline", now)

    def _act_all(self, now: float) -> bool:
        """Carry out actions until they bring about no more inputs; whether there were any."""
        given = False
        for _ in range(ROUNDS_PER_TURN):
            given = self._act(now) or given
            inputs = self.link.inputs()
            if not inputs:
                break
            self._handle(inputs, now)
        return given

    def _act(self, now: float) -> bool:
        engine = self._engine
        if engine is None or self._faulty:
            return False
        try:
            actions = engine.actions()
            if actions:
                self.link.apply(actions, now)
            return bool(actions)
        except Exception:
            self._fault("the engine gave an action that cannot be carried out", now)
            return True

    def _emit(self) -> None:
        engine = self._engine
        if engine is None or self._on_events is None:
            return
        try:
            events = engine.events()
            if events:
                self._answers = True
                self._on_events(self, events)
        except Exception:
            self._fault("taking the events failed", self.now())

    def _fault(self, what: str, now: float) -> None:
        """A bug of ours ends this connection and no other; the engine learns it, if it can."""
        _logger.exception("%s: %s; closing the connection", self, what)
        if self._faulty:
            return
        self._faulty = True
        self.link.apply([CloseLink(self.internal_error, "internal error")], now)
        inputs = self.link.inputs()
        if self._engine is not None and inputs:
            try:
                for input in inputs:
                    self._engine.handle(input, now)
            except Exception:
                _logger.debug("%s: the engine could not take in its own end", self)
        self._ready.set()
        self.kick(urgent=True)

    def _kicked(self) -> None:
        self._kick = None
        self._kicked_last = now = self.now()
        self.turn((), now)

    def _arm(self) -> None:
        engine = self._engine
        if engine is None or self._faulty or self.link.lost is not None:
            self._alarm.set(None)
        else:
            self._alarm.set(engine.wake_at)

    def _rung(self) -> None:
        if self._on_due is None:
            self.turn((), self.now())
        else:
            self._on_due(self)

    def _release(self) -> None:
        if not self._writers:
            return
        unsent = self.link.unsent
        gone = self.link.lost is not None
        for high, waiter in self._writers:
            if (gone or unsent < high) and not waiter.done():
                waiter.set_result(None)

    def _finish(self) -> None:
        self._done = True
        self._alarm.cancel()
        if self._kick is not None:
            self._kick.cancel()
            self._kick = None
        self._release()
        self._ready.set()
        self._closed.set()
        self._on_turn(self)
        self.link.free()
        # Those who are told of the end hold this driver, and must not be held by it any more.
        del self._make_engine, self._on_turn, self._on_due, self._send
        self._on_events = self.held = None


def lost_before_ready(driver: Driver) -> AqueductError:
    """The error for a link that ended in its handshake without a reason of TLS."""
    lost = driver.lost
    where = f"{driver.peer[0]}:{driver.peer[1]}"
    return ConnectFailed(
        "NO_REPLY",
        f"the handshake with {where} failed: {how_lost(lost) if lost is not None else 'closed'}",
        "Check that an Aqueduct server of a matching version listens there",
    )

"""What a protocol engine is to whatever drives it (sans-IO), in five verbs.

An engine holds no socket, no clock and no event loop. Its driver calls, in each turn,

1. ``handle(input, now)`` for everything that has arrived, one call an input;
2. ``tick(now)`` when ``wake_at`` is due, and only then: a late timer must not beat data that is
   already here;
3. ``actions()``, and carries them out in their order;
4. ``handle`` for what they brought about (a datagram that the link refused), and 3 again;
5. ``events()``, for the application.

After what, what:

- after a command of the application (send, finish, stored …; methods of each engine), steps 3 to 5;
- after ``pause``, inputs as ever: bytes of streams wait, datagrams are lost; ``resume`` takes in
  what has waited, and is a command;
- after a command that raised, nothing has changed;
- after ``shutdown``, or what a peer must not do: ``closed`` is set, and 3 and 5 once, for the last
  actions, which end in a ``CloseLink``, and the last events;
- after ``LinkLost``: ``closed`` is set, and 5 once; there are no more actions;
- after that nothing is due: ``wake_at`` is None, there are no actions and events, inputs and
  ``tick`` change nothing, as do ``consumed``, ``pause``, ``resume`` and ``shutdown``; other
  commands raise the engine's exception that says so (``ConnectionOver`` of Aqueduct).

``now`` is a monotonic time in seconds and never goes back. Inputs and actions are immutable tuples:
one for each burst and stream, not for each message.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from aqueduct_core.engine.actions import Action
from aqueduct_core.engine.close_codes import ConnectionEnd
from aqueduct_core.engine.inputs import Input

EventT = TypeVar("EventT")


class Footprint(NamedTuple):
    """Memory that a peer makes this side hold: bytes, about, with the overhead of objects.

    ``waiting`` of the ``size`` are messages that the application is not done with: for these the
    peer waits for us, and has no more of them where it is given less credit. All else is its own
    making.
    """

    size: int
    waiting: int = 0


class Engine(Protocol[EventT]):
    """What every protocol engine offers its driver."""

    def handle(self, input: Input, now: float) -> None:
        """Take in one input. Never raises for anything that a peer sent."""

    def tick(self, now: float) -> None:
        """Act on every deadline that is due at ``now``."""

    @property
    def wake_at(self) -> float | None:
        """When ``tick`` is wanted next; None: never, unless something happens."""

    @property
    def footprint(self) -> Footprint:
        """What the engine holds now for its peer. Asked often, so it comes from counters."""

    def actions(self) -> list[Action]:
        """Take what the link has to do since the last call."""

    def events(self) -> list[EventT]:
        """Take what the application should learn since the last call."""


class StorageEngine(Engine[EventT], Protocol[EventT]):
    """An engine whose messages are stored before they are acked: the commands that an intake needs.

    ``channel`` is the engine's own number of a channel, as it stands in its events. All commands
    are without effect on a channel that has ended.
    """

    @property
    def closed(self) -> ConnectionEnd | None:
        """How the connection ended; None while it is there."""

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        """Messages ``[first, stop)`` are durable: they may be acked."""

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """Datagram messages ``[first, stop)`` will not be stored: to their sender they are lost."""

    def consumed(self, channel: int, size: int, now: float) -> None:
        """``size`` bytes of messages are done with: credit for as many may go back."""

    def confirm(self, channel: int, now: float) -> None:
        """The end of the channel is durable: its sender may learn that it is complete."""

    def pause(self) -> None:
        """Take nothing in until ``resume``; the peer comes to rest for want of credit."""

    def resume(self, now: float) -> None:
        """Take in what has waited."""

    def shutdown(self, code: int, reason: str, now: float) -> None:
        """Close the link behind the actions that are due, with a code of the application."""

"""What both halves of a channel have in common, and halves on their way inside messages."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from aqueduct_core.aio.outcomes import Misuse, Outcome
from aqueduct_core.aqueduct.conventions.headers import NAME
from aqueduct_core.engine.message_batch import Headers


class CarriedHalf(Protocol):
    """The state behind a half that may be on its way inside a message."""

    loop: asyncio.AbstractEventLoop
    headers: Headers
    in_transit: bool

    def abandon(self) -> None:
        """Close (a receiver) or cancel (a sender), if it is still open."""


class HalfState(CarriedHalf, Protocol):
    """What stays the same of a half when its channel becomes networked."""

    channel: int | None

    def notify(self) -> None:
        """Wake whoever waits for anything of it."""

    @property
    def outcome(self) -> Outcome | None:
        """How the channel ended, if it did and not in good order."""


State = TypeVar("State", bound=HalfState)


class Half(Generic[State]):
    """One end of a channel, as an application holds it: a ``Sender`` or a ``Receiver``.

    Until it is sent away in a message; every call raises Misuse then. One that is dropped is given
    up.
    """

    __slots__ = ("__weakref__", "_finalizer", "_state")

    def __init__(self, state: State) -> None:
        self._state: State | None = state
        self._finalizer = weakref.finalize(self, abandon_later, state.loop, [state])
        self._finalizer.atexit = False

    @property
    def name(self) -> str | None:
        """The stable name that the creator of the channel gave it, if any."""
        headers = self._present().headers
        value = next((value for key, value in headers if key == NAME), None)
        return None if value is None else value.decode(errors="replace")

    @property
    def headers(self) -> Headers:
        """The headers of the channel, as its creator gave them."""
        return self._present().headers

    @property
    def channel_id(self) -> int | None:
        """The number of the channel on its connection; None while it is local."""
        return self._present().channel

    @property
    def outcome(self) -> Outcome | None:
        """How the channel ended, if it did and not in good order by a call on this side.

        Messages may still be queued at a receiver.
        """
        return self._present().outcome

    def _present(self) -> State:
        if self._state is None:
            raise Misuse(
                f"this {type(self).__name__.lower()} was sent away in a message: "
                "it is no longer here"
            )
        return self._state

    def _here(self) -> State:
        """As ``_present``, for calls that act. Raises: Misuse in another event loop."""
        state = self._present()
        if asyncio.get_running_loop() is not state.loop:
            raise Misuse(
                f"this {type(self).__name__.lower()} belongs to another event loop: call it in "
                "the one in which its channel was made"
            )
        return state

    def _leave(self) -> None:
        """The half is sent away: it is no longer ours to give up."""
        state = self._present()
        self._finalizer.detach()
        self._state = None
        state.notify()


def abandon(carried: Iterable[CarriedHalf]) -> None:
    """Give up halves that nobody took out of their message (AQ-LIFE-20)."""
    for half in carried:
        half.in_transit = False
        half.abandon()


def abandon_later(loop: asyncio.AbstractEventLoop, carried: list[CarriedHalf]) -> None:
    """As ``abandon``, from a finalizer: any thread, any moment, and never inside another call."""
    if carried and not loop.is_closed():
        left = tuple(carried)
        try:
            loop.call_soon_threadsafe(abandon, left)
        except RuntimeError:  # the loop closed in between: its connections are gone with it
            pass

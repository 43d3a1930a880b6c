"""A received message, and a run of them, with the halves that travelled inside.

A half that nobody takes is given up by itself: a receiver is closed, a sender cancelled
(AQ-LIFE-20). Reading ``Message.attachments`` takes all halves of the message; what was not taken
when the ``with`` block of the message ends, or when the message is dropped, is given up.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from aqueduct_core.engine.message_batch import Headers, MessageBatch

if TYPE_CHECKING:
    from aqueduct_core.aio.halves import Half


class CarriedHalves(Protocol):
    """The state behind a half on its way inside a message."""

    loop: asyncio.AbstractEventLoop
    headers: Headers
    aboard: bool

    def abandon(self) -> None:
        """Close (a receiver) or cancel (a sender), if it is still open."""


Wrap: TypeAlias = "Callable[[CarriedHalves], Half]"
"""Makes the half that an application holds; passed in, so that imports have one direction."""


def abandon(cargo: Iterable[CarriedHalves]) -> None:
    for core in cargo:
        core.aboard = False
        core.abandon()


def abandon_later(loop: asyncio.AbstractEventLoop, cargo: list[CarriedHalves]) -> None:
    """As ``abandon``, from a finalizer: any thread, any moment, and never inside another call."""
    if cargo and not loop.is_closed():
        left = tuple(cargo)
        try:
            loop.call_soon_threadsafe(abandon, left)
        except RuntimeError:  # the loop closed in between: its connections are gone with it
            pass


class Message:
    """One message. ``number`` counts from 0 in the space that ``reliable`` names (AQ-SEND-4)."""

    __slots__ = (
        "__weakref__",
        "_cargo",
        "_halves",
        "_wrap",
        "headers",
        "number",
        "payload",
        "reliable",
    )

    def __init__(
        self,
        payload: bytes,
        headers: Headers,
        number: int,
        reliable: bool,
        cargo: tuple[CarriedHalves, ...],
        wrap: Wrap,
    ) -> None:
        self.payload = payload
        self.headers = headers
        self.number = number
        self.reliable = reliable
        self._halves: tuple[Half, ...] | None = None
        self._wrap = wrap
        self._cargo = list(cargo)
        if cargo:
            finalizer = weakref.finalize(self, abandon_later, cargo[0].loop, self._cargo)
            finalizer.atexit = False

    @property
    def attachments(self) -> tuple[Half, ...]:
        """The halves that came with the message; they are yours from now on."""
        if self._halves is None:
            self._halves = tuple(map(self._wrap, self._cargo))
            self._cargo.clear()
        return self._halves

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = tuple(self._cargo)
        self._cargo.clear()
        abandon(left)

    def header(self, key: str | bytes) -> bytes | None:
        """The first header of that key; None where there is none."""
        wanted = key.encode() if isinstance(key, str) else key
        return next((value for k, value in self.headers if k == wanted), None)

    def __repr__(self) -> str:
        kind = "reliable" if self.reliable else "unreliable"
        return f"<Message {self.number} {kind}, {len(self.payload)} bytes>"


class Batch:
    """Consecutive messages of one channel as columns, for those who want no object a message.

    ``run`` has the columns (payloads, offsets, headers); ``first`` is the number of the first
    message as this side counts. Iterating makes the messages one by one, and may be done once.
    Halves in ``cargo`` that were not taken are given up with the batch.
    """

    __slots__ = ("__weakref__", "_wrap", "cargo", "first", "run")

    def __init__(
        self, run: MessageBatch, first: int, cargo: dict[int, tuple[CarriedHalves, ...]], wrap: Wrap
    ) -> None:
        self.run = run
        self.first = first
        self.cargo = cargo
        self._wrap = wrap
        if cargo:
            loop = next(iter(cargo.values()))[0].loop
            finalizer = weakref.finalize(self, _abandon_cargo, loop, cargo)
            finalizer.atexit = False

    @property
    def count(self) -> int:
        return self.run.count

    @property
    def reliable(self) -> bool:
        return self.run.reliable

    def attachments(self, index: int) -> tuple[Half, ...]:
        """Take the halves of message ``index`` of the run (0 is its first)."""
        return tuple(map(self._wrap, self.cargo.pop(index, ())))

    def __len__(self) -> int:
        return self.run.count

    def __iter__(self) -> Iterator[Message]:
        shift = self.first - self.run.first
        for i, single in enumerate(self.run.messages()):
            yield Message(
                single.payload,
                single.headers,
                single.number + shift,
                self.run.reliable,
                self.cargo.pop(i, ()),
                self._wrap,
            )

    def __repr__(self) -> str:
        return f"<Batch of {self.count} messages from {self.first}, {len(self.run.payload)} bytes>"


def single_run(
    payload: bytes, headers: Headers, number: int, reliable: bool, size: int
) -> MessageBatch:
    """A run of one message."""
    return run_of((payload,), number, reliable, size, {0: headers} if headers else {})


def run_of(
    payloads: Iterable[bytes],
    first: int,
    reliable: bool,
    size: int,
    headers: Mapping[int, Headers],
) -> MessageBatch:
    """A run of these payloads, numbered from ``first``."""
    parts = list(payloads)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    return MessageBatch(-1, reliable, first, len(parts), payload, offsets, size, headers)


def rest_of(run: MessageBatch, start: int, size: int) -> MessageBatch:
    """The messages of ``run`` from index ``start`` on; ``size`` is their part of its size."""
    if start == 0:
        return run
    begin = int(run.offsets[start])
    return MessageBatch(
        run.channel,
        run.reliable,
        run.first + start,
        run.count - start,
        run.payload[begin:],
        run.offsets[start:] - begin,
        size,
        {i - start: headers for i, headers in run.headers.items() if i >= start},
        {i - start: entries for i, entries in run.attachments.items() if i >= start},
    )


def _abandon_cargo(
    loop: asyncio.AbstractEventLoop, cargo: dict[int, tuple[CarriedHalves, ...]]
) -> None:
    abandon_later(loop, [core for cores in cargo.values() for core in cores])

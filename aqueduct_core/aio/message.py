"""Messages as an application gets them, one by one or in batches, with the halves inside, and
headers as it may write them.

A half that nobody takes is given up by itself: a receiver is closed, a sender cancelled
(AQ-LIFE-20). Reading ``Message.attachments`` takes all halves of the message; what was not taken
when the ``with`` block of the message ends, or when the message is dropped, is given up.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np

from aqueduct_core.aio.half import CarriedHalf, Half, abandon, abandon_later
from aqueduct_core.engine.message_batch import Headers, MessageBatch, ReceivedHeaders

Wrap: TypeAlias = Callable[[CarriedHalf], Half[Any]]
"""Makes the half that an application holds; passed in, so that imports have one direction."""

Text: TypeAlias = str | bytes
HeadersLike: TypeAlias = Mapping[str, Text] | Mapping[bytes, Text] | Iterable[tuple[Text, Text]]
"""A mapping or pairs; keys and values may be text (UTF-8) or bytes. Order and repeats are kept."""


class Message:
    """One message. ``number`` counts from 0 in the space that ``reliable`` names (AQ-SEND-4)."""

    __slots__ = (
        "__weakref__",
        "_carried",
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
        carried: tuple[CarriedHalf, ...],
        wrap: Wrap,
    ) -> None:
        self.payload = payload
        self.headers = headers
        self.number = number
        self.reliable = reliable
        self._halves: tuple[Half[Any], ...] | None = None
        self._wrap = wrap
        self._carried = list(carried)
        if carried:
            finalizer = weakref.finalize(self, abandon_later, carried[0].loop, self._carried)
            finalizer.atexit = False

    @property
    def attachments(self) -> tuple[Half[Any], ...]:
        """The halves that came with the message; they are yours from now on."""
        if self._halves is None:
            self._halves = tuple(map(self._wrap, self._carried))
            self._carried.clear()
        return self._halves

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = tuple(self._carried)
        self._carried.clear()
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

    ``columns`` has payloads, offsets and headers; ``first`` is the number of the first
    message as this side counts. Iterating makes the messages one by one, and may be done once.
    Halves in ``carried`` that were not taken are given up with the batch.
    """

    __slots__ = ("__weakref__", "_wrap", "carried", "columns", "first")

    def __init__(
        self,
        columns: MessageBatch,
        first: int,
        carried: dict[int, tuple[CarriedHalf, ...]],
        wrap: Wrap,
    ) -> None:
        self.columns = columns
        self.first = first
        self.carried = carried
        self._wrap = wrap
        if carried:
            loop = next(iter(carried.values()))[0].loop
            finalizer = weakref.finalize(self, _abandon_carried, loop, carried)
            finalizer.atexit = False

    @property
    def count(self) -> int:
        return self.columns.count

    @property
    def reliable(self) -> bool:
        return self.columns.reliable

    def attachments(self, index: int) -> tuple[Half[Any], ...]:
        """Take the halves of message ``index`` of the batch (0 is its first)."""
        return tuple(map(self._wrap, self.carried.pop(index, ())))

    def __len__(self) -> int:
        return self.columns.count

    def __iter__(self) -> Iterator[Message]:
        shift = self.first - self.columns.first
        for i, single in enumerate(self.columns.messages()):
            yield Message(
                single.payload,
                single.headers,
                single.number + shift,
                self.columns.reliable,
                self.carried.pop(i, ()),
                self._wrap,
            )

    def __repr__(self) -> str:
        return (
            f"<Batch of {self.count} messages from {self.first}, {len(self.columns.payload)} bytes>"
        )


def single_batch(
    payload: bytes, headers: Headers, number: int, reliable: bool, size: int
) -> MessageBatch:
    """A batch of one message."""
    return batch_of((payload,), number, reliable, size, {0: headers} if headers else {})


def batch_of(
    payloads: Iterable[bytes],
    first: int,
    reliable: bool,
    size: int,
    headers: Mapping[int, Headers],
) -> MessageBatch:
    """A batch of these payloads, numbered from ``first``."""
    parts = list(payloads)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    return MessageBatch(-1, reliable, first, len(parts), payload, offsets, size, headers)


def rest_of(batch: MessageBatch, start: int, size: int) -> MessageBatch:
    """The messages of ``batch`` from index ``start`` on; ``size`` is their part of its size."""
    if start == 0:
        return batch
    begin = int(batch.offsets[start])
    return MessageBatch(
        batch.channel,
        batch.reliable,
        batch.first + start,
        batch.count - start,
        batch.payload[begin:],
        batch.offsets[start:] - begin,
        size,
        {i - start: headers for i, headers in batch.headers.items() if i >= start},
        {i - start: entries for i, entries in batch.attachments.items() if i >= start},
    )


def _abandon_carried(
    loop: asyncio.AbstractEventLoop, carried: dict[int, tuple[CarriedHalf, ...]]
) -> None:
    abandon_later(loop, [half for halves in carried.values() for half in halves])


def as_headers(headers: HeadersLike) -> Headers:
    """Turn ``headers`` into pairs of bytes; those of a received message may be sent on as they are.

    Raises:
        ValueError: a key that is empty or not ASCII (AQ-HDRDATA-3).
        TypeError: a key or value that is neither text nor bytes, or no pairs of them.
    """
    if isinstance(headers, ReceivedHeaders):
        return headers
    if headers == ():
        return ()
    pairs = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    for each in pairs:
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise TypeError(f"headers are a dict, or pairs of key and value, and {each!r} is none")
    return tuple((_key(key), _bytes(value, "value")) for key, value in pairs)


def _key(key: Text) -> bytes:
    data = _bytes(key, "key")
    if not data or not data.isascii():
        raise ValueError(f"header key {key!r} is empty or not ASCII")
    return data


def _bytes(text: Text, what: str) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise TypeError(f"a header {what} is text or bytes, not {type(text).__name__}")

"""Messages on their way from an engine to whoever stores or reads them: batches, as columns.

The same for every protocol: a storage takes batches in and knows no engine. Header data and
attached channels are values here; what they mean is for the protocol to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Header data: a multimap in the order of the wire (AQ-HDRDATA-1)."""


class ReceivedHeaders(tuple[tuple[bytes, bytes], ...]):
    """Header data that came from a peer, whose keys may be any bytes: who passes a message on may
    send it as it is, though our own keys are plain (AQ-HDRDATA-3)."""

    __slots__ = ()


def loggable(headers: Headers) -> str:
    """Header data for logs: values may be secrets, so only the keys are shown."""
    return repr([key for key, _ in headers])


class Attachment(NamedTuple):
    """A channel that travelled inside a message; ``channel`` is its number on the wire."""

    channel: int
    headers: Headers

    def __repr__(self) -> str:
        return f"Attachment(channel={self.channel}, headers={loggable(self.headers)})"


class BatchItem(NamedTuple):
    """One message of a batch."""

    number: int
    payload: bytes
    headers: Headers
    attachments: tuple[Attachment, ...]

    def __repr__(self) -> str:
        return (
            f"BatchItem(number={self.number}, payload=<{len(self.payload)} bytes>, "
            f"headers={loggable(self.headers)}, attachments={self.attachments})"
        )


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Consecutive messages of one channel and number space, as columns.

    Message ``first + i`` has the payload ``payload[offsets[i]:offsets[i + 1]]``; ``offsets`` has
    ``count + 1`` entries of int64 and starts at 0. ``headers`` and ``attachments`` are keyed by
    ``i`` and hold only the messages that have any. ``size`` is the bytes of the messages on the
    wire, with their heads: hand it to ``StorageEngine.consumed`` when done (AQ-FLOW-3). ``absent``
    are those, by ``i``, that stand for one that was given up on the way: they have no content, so
    there is nothing that could differ from what is stored.
    """

    channel: int
    reliable: bool
    first: int
    count: int
    payload: bytes = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    size: int
    headers: Mapping[int, Headers] = field(default_factory=dict, repr=False)
    attachments: Mapping[int, tuple[Attachment, ...]] = field(default_factory=dict)
    absent: Sequence[int] = ()

    def messages(self) -> Iterator[BatchItem]:
        """The messages one by one; each is cut out when it is its turn."""
        ends = self.offsets.tolist()
        for i in range(self.count):
            yield BatchItem(
                self.first + i,
                self.payload[ends[i] : ends[i + 1]],
                self.headers.get(i, ()),
                self.attachments.get(i, ()),
            )

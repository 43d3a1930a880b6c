"""The frames of Aqueduct as frozen values (reference §2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.engine.header_column import encode_pairs
from aqueduct_core.engine.message_batch import Attachment, Headers, loggable
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.cursor import encode_varbytes

NO_HEADERS: Mapping[int, Headers] = {}
"""Of every block without; never changed."""


class Tag(IntEnum):
    """The first byte of a frame."""

    ACK_VERSION = 0x01
    CONNECTION_HEADERS = 0x02
    ROUTE_TO = 0x03
    MESSAGE = 0x04
    SENT_UNRELIABLE = 0x05
    FINISH_SENDER = 0x06
    CANCEL_SENDER = 0x07
    ACK_RELIABLE = 0x08
    ACK_NACK_UNRELIABLE = 0x09
    CLOSE_RECEIVER = 0x0A
    FORGET_CHANNEL = 0x0B
    DEQUEUED = 0x0C
    VERSION = 0xEF


class Version(NamedTuple):
    pass


class AckVersion(NamedTuple):
    pass


class ConnectionHeaders(NamedTuple):
    headers: Headers

    def __repr__(self) -> str:
        return f"ConnectionHeaders({loggable(self.headers)})"


class RouteTo(NamedTuple):
    channel: int


class MessageFrame(NamedTuple):
    """``size`` is the length of the frame on the wire, tag to end of payload."""

    number: int
    headers: Headers
    attachments: tuple[Attachment, ...]
    payload: bytes
    size: int

    def __repr__(self) -> str:
        return (
            f"MessageFrame(number={self.number}, headers={len(self.headers)}, "
            f"attachments={[a.channel for a in self.attachments]}, "
            f"payload=<{len(self.payload)} bytes>)"
        )


class Block(NamedTuple):
    """Two or more MESSAGE frames in a row, numbers consecutive, no attachments.

    ``payload`` holds their payloads end to end, ``lengths`` the length of each; ``headers`` are
    keyed by place in the block, and hold only the messages that have any.
    """

    first: int
    lengths: NDArray[np.int64]
    payload: bytes
    size: int
    headers: Mapping[int, Headers] = NO_HEADERS

    def messages(self) -> Iterator[MessageFrame]:
        """The same frames one by one."""
        start = 0
        for i, length in enumerate(self.lengths.tolist()):
            number, stop = self.first + i, start + length
            headers = self.headers.get(i, ())
            head = 2 + len(varint.encode(number)) + len(varint.encode(length))
            head += len(encode_varbytes(encode_pairs(headers)))
            yield MessageFrame(number, headers, (), self.payload[start:stop], head + length)
            start = stop

    def __repr__(self) -> str:
        return f"Block(first={self.first}, count={len(self.lengths)}, size={self.size})"


class Skipped(NamedTuple):
    """A MESSAGE of an ignored sequence; its payload is thrown away unseen."""


class SentUnreliable(NamedTuple):
    additional: int


class FinishSender(NamedTuple):
    sent_reliable: int


class CancelSender(NamedTuple):
    pass


class AckReliable(NamedTuple):
    """``ranges`` are half-open, ascending and apart."""

    ranges: tuple[tuple[int, int], ...]


class AckNackUnreliable(NamedTuple):
    """Lengths of ranges, in turn acked and nacked, from where the last such frame ended."""

    lengths: tuple[int, ...]


class CloseReceiver(NamedTuple):
    pass


class ForgetChannel(NamedTuple):
    pass


class Dequeued(NamedTuple):
    num_bytes: int


Preamble: TypeAlias = Version | AckVersion | ConnectionHeaders
Routed: TypeAlias = (
    MessageFrame
    | Block
    | Skipped
    | SentUnreliable
    | FinishSender
    | CancelSender
    | AckReliable
    | AckNackUnreliable
    | CloseReceiver
    | ForgetChannel
    | Dequeued
)
Frame: TypeAlias = Preamble | RouteTo | Routed

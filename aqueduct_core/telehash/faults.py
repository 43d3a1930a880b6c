"""Why a packet of the peer was dropped (`PacketFault`), or a command refused (`TelehashError`).

A packet comes from anybody who can write to the socket, so a bad one costs itself alone: it is
counted by its fault, and its channel, others and the line go on.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class CloseCode(IntEnum):
    """Codes of the application with which a line is closed."""

    NO_ERROR = 0
    STREAM_OPENED = 1
    """There are no streams in this protocol."""
    NO_DATAGRAMS = 2
    """The peer takes no datagrams that a packet fits into."""


class PacketFault(Enum):
    """What was wrong with a packet, or with its ``ack`` or ``miss`` where the rest of it counts."""

    # no packet of a channel (P1)
    TOO_SHORT = "a packet has two bytes of head length"
    HEAD_TOO_LONG = "the head is longer than the packet"
    NOT_UTF8 = "the head is not UTF-8"
    NOT_JSON = "the head is not JSON"
    TOO_DEEP = "the head is nested too deeply"
    REPEATED_KEY = "the head has a key twice"
    NO_CHANNEL = "the head is no object with a channel"
    # fields that are not what they may be (P3-P6, T3, T6, T11)
    BAD_CHANNEL = "c is not a number from 1 to 4,294,967,295"
    BAD_SEQ = "seq is not a number from 0 to 4,294,967,295"
    BAD_ACK = "ack is not a number from 0 to 4,294,967,295"
    BAD_MISS = "miss is not an array of numbers from 0 to 4,294,967,295; the array is ignored"
    MISS_TOO_LONG = "miss has more than 100 entries; the array is ignored"
    BAD_END = "end is neither true nor false"
    BAD_ERR = "err is not text"
    BAD_TYPE = "type is not text, or empty"
    # channels (P3, P4, T1)
    WRONG_PARITY = "the channel is not of those that the peer opens"
    UNKNOWN_CHANNEL = "there is no such channel"
    REUSED_CHANNEL = "the channel was used before"
    NO_TYPE = "the first packet of a channel has no type"
    FIRST_SEQ = "the first packet has a seq other than 0"
    TYPE_AGAIN = "the channel is open, and has its type"
    TOO_MANY_CHANNELS = "as many channels are open as may be; answered by err"
    TOO_MANY_UNOPENED = "the opening packets of as many channels are missing as may be"
    # packets of channels that are there (T3, T5, T18, T20)
    NO_SEQ = "content without seq on a reliable channel"
    UNEXPECTED_SEQ = "seq on an unreliable channel"
    BEYOND_WINDOW = "so many packets before it are missing, or not processed"
    NO_ROOM = "as many bytes wait for packets that are missing as may"
    BEHIND_END = "content behind the end"
    ACK_BEYOND_SENT = "ack of what was not sent; the ack is ignored"
    PAUSED = "nothing is taken in now"


class TelehashError(Exception):
    """A command that cannot be carried out; nothing has changed. By itself: the line is over."""


class ChannelOver(TelehashError):
    """The channel has ended, by either side, or there was none of this number (T18)."""


class WindowFull(TelehashError):
    """As many packets are not acked as may be (T4); `ChannelWritable` comes when one may go."""


class PacketTooLarge(TelehashError):
    """A packet of ``size`` bytes, and ``limit`` fit (P1). It has no number, and was not sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a packet of {size} bytes: {limit} fit, and there is no fragmentation")
        self.size = size
        self.limit = limit


class SequenceExhausted(TelehashError):
    """Only an end may have the number 4,294,967,295 (T3): open another channel."""


class TooManyChannels(TelehashError):
    """All numbers of channels of this line are used (P3)."""

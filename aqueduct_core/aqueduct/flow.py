"""Flow control of messages: what we announce, and what the peer's receivers may still be sent.

Proposed §3.7 of the reference (AQ-FLOW-1…12). Both ends announce how many bytes they will buffer
as receivers; if both did, a sender keeps *outstanding* = sent − nacked − dequeued within what the
peer announced, for each channel and for all of them. One message of any size may always go where
nothing is outstanding, so no message is too large to be sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.faults import BadArgument, Code, PeerFault
from aqueduct_core.aqueduct.wire.blocks import LONGEST_HEAD, frame_sizes
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.primitives import varint

FLOW_CONTROL = b"flow-control-5a3c19"
"""Key of the connection header (two varints) and of the channel header (one)."""


UNORDERED_RUNS = b"unordered-runs"
"""Key of the connection header, with an empty value, by which an end takes several messages of an
UNORDERED channel on one stream: a departure from AQ-SEND-2 that only who gives it meets."""


class BadFlowHeader(ValueError):
    """A value that does not parse: it counts as absent (AQ-FLOW-1)."""


class Buffers(NamedTuple):
    """What an end will buffer as receiver, in bytes; 0: no limit."""

    per_channel: int
    all_channels: int

    def dequeue_threshold(self, override: int | None) -> int | None:
        """Bytes that gather before DEQUEUED goes at once (AQ-FLOW-6): a quarter of what binds,
        where ``override`` is the channel's own buffer. None: there is no limit."""
        per_channel = self.per_channel if override is None else override
        limits = [limit for limit in (per_channel, self.all_channels) if limit]
        return max(1, min(limits) // 4) if limits else None


def own_buffers(config: Config) -> Buffers | None:
    """What we announce; None: flow control is off."""
    if config.flow_per_channel is None:
        return None
    return Buffers(config.flow_per_channel, config.flow_all_channels)


def connection_header(buffers: Buffers) -> tuple[bytes, bytes]:
    return FLOW_CONTROL, varint.encode(buffers.per_channel) + varint.encode(buffers.all_channels)


def channel_header(per_channel: int) -> tuple[bytes, bytes]:
    """For an attachment whose receiver stays here: its own PER_CHANNEL (AQ-FLOW-10)."""
    return FLOW_CONTROL, varint.encode(per_channel)


def read_connection_header(headers: Headers) -> Buffers | None:
    """What the peer announced; None: nothing. Raises: BadFlowHeader."""
    numbers = _numbers(headers, 2)
    return None if numbers is None else Buffers(*numbers)


def read_channel_header(headers: Headers) -> int | None:
    """PER_CHANNEL of one channel; None: that of the connection. Raises: BadFlowHeader."""
    numbers = _numbers(headers, 1)
    return None if numbers is None else numbers[0]


def _numbers(headers: Headers, count: int) -> list[int] | None:
    values = [value for key, value in headers if key == FLOW_CONTROL]
    if not values:
        return None
    if len(values) > 1:
        raise BadFlowHeader("the flow control header is repeated")
    value, pos, numbers = values[0], 0, []
    try:
        for _ in range(count):
            number, pos = varint.decode(value, pos, len(value))
            numbers.append(number)
    except (varint.NeedMore, varint.Malformed):
        raise BadFlowHeader("the flow control header does not parse") from None
    if pos != len(value):
        raise BadFlowHeader("the flow control header has bytes left over")
    return numbers


class SendVerdict(Enum):
    """Whether a message may go now, and if not, for want of what."""

    GO = auto()
    CHANNEL = auto()
    """Its own channel's receiver has no room."""
    TOTAL = auto()
    """All channels together have too much outstanding."""
    STREAMS = auto()
    """It needs a stream, and the last ones are kept for control frames (H12)."""
    LINK = auto()
    """It is a datagram, and about a round trip's worth of them waits in the link."""


class Account:
    """What is outstanding on one channel that we send on.

    Holds: one size for each datagram message that was neither acked nor nacked, oldest first. Most
    channels have none, and an empty deque is larger than all else here.
    """

    __slots__ = ("channel", "datagrams", "limit", "outstanding")

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.outstanding = 0
        self.limit: int | None = None  # the channel's own PER_CHANNEL
        self.datagrams: deque[int] | None = None


class Flow:
    """Both ends' buffers; ``own`` is what we announce, ``total`` what is outstanding in the
    peer's over all channels.

    Until the peer's headers are here we may send ``initial_burst`` (AQ-FLOW-9). ``changed``:
    something happened by which any waiting message may go, since these were last looked at; where
    only those of certain channels may, these are in ``affected`` instead, and ``table_freed`` is
    for those that carry channels.
    ``head_of_line``: the channel whose message waits for room in the total; the others do not
    overtake it, or a large message would never find the total empty.
    ``peer_takes_runs``: of unordered messages, on one stream.
    """

    def __init__(self, config: Config) -> None:
        self.own = own_buffers(config)
        self.on = self.own is not None
        self.active = False
        self.total = 0
        self.head_of_line: int | None = None
        self.changed = False
        self.affected: dict[int, None] = {}
        self.table_freed = False
        self.peer_takes_runs = False
        self._takes_runs = config.unordered_runs
        self._per_channel = 0
        self._all = config.initial_burst

    def announce(self, headers: Headers) -> Headers:
        """Our connection headers with those that are our part in it (AQ-FLOW-1).

        Raises:
            BadArgument: the application's hold one; the configuration is the place for it.
        """
        if any(key == FLOW_CONTROL for key, _ in headers):
            raise BadArgument("flow control is announced by Config.flow_per_channel")
        if any(key == UNORDERED_RUNS for key, _ in headers):
            raise BadArgument("runs of unordered messages are announced by Config.unordered_runs")
        if self.own is not None:
            headers = (*headers, connection_header(self.own))
        return (*headers, (UNORDERED_RUNS, b"")) if self._takes_runs else headers

    def of_application(self, headers: Headers) -> Headers:
        """The peer's connection headers without those that are for us."""
        ours = {FLOW_CONTROL} if self.own is not None else set()
        if self._takes_runs:
            ours.add(UNORDERED_RUNS)
        return tuple(pair for pair in headers if pair[0] not in ours) if ours else headers

    def headers_came(self, headers: Headers) -> None:
        """The peer announced its buffers, or none: then nothing is counted (AQ-FLOW-2).

        Raises:
            BadFlowHeader: what it announced does not parse; it counts as none.
        """
        self.changed = True
        self.peer_takes_runs = any(key == UNORDERED_RUNS for key, _ in headers)
        if self.own is None:
            return
        peer = None
        try:
            peer = read_connection_header(headers)
        finally:
            self.active = self.on = peer is not None
            if peer is None:
                self.total = 0
                self.head_of_line = None
            else:
                self._per_channel, self._all = peer

    def verdict(self, account: Account, size: int) -> SendVerdict:
        """Whether a message of ``size`` bytes may go (AQ-FLOW-4)."""
        if not self.on:
            return SendVerdict.GO
        limit = self._per_channel if account.limit is None else account.limit
        if not self.active:
            limit = 0
        if limit and account.outstanding and account.outstanding + size > limit:
            return SendVerdict.CHANNEL
        if self._all:
            if self.head_of_line is not None and self.head_of_line != account.channel:
                return SendVerdict.TOTAL
            if self.total and self.total + size > self._all:
                return SendVerdict.TOTAL
        return SendVerdict.GO

    def _room(self, account: Account) -> int | None:
        """Bytes that may go without the exception for a single message; None: no limit."""
        if not self.on:
            return None
        limit = self._per_channel if account.limit is None else account.limit
        rooms = []
        if limit and self.active:
            rooms.append(limit - account.outstanding)
        if self._all:
            blocked = self.head_of_line is not None and self.head_of_line != account.channel
            rooms.append(0 if blocked else self._all - self.total)
        return min(rooms, default=None)

    def grant(
        self,
        account: Account,
        first: int,
        payloads: Sequence[bytes],
        headers: HeaderColumn | None,
    ) -> int:
        """How many of these messages without attachments, numbered from ``first``, may go."""
        room = self._room(account)
        count = len(payloads)
        if room is None:
            return count
        most = sum(map(len, payloads)) + LONGEST_HEAD * count
        if headers is not None:
            most += sum(map(len, headers.regions))
        if most <= room:
            return count
        for i, size in enumerate(frame_sizes(first, payloads, headers)):
            room -= size
            if room < 0:
                return i or int(self.verdict(account, size) is SendVerdict.GO)
        return count

    def sent(self, account: Account, size: int) -> None:
        if self.on:
            account.outstanding += size
            self.total += size

    def sent_datagram(self, account: Account, size: int) -> None:
        if self.on:
            if account.datagrams is None:
                account.datagrams = deque()
            account.datagrams.append(size)
            self.sent(account, size)

    def unsent_datagram(self, account: Account) -> int:
        """The last datagram message was not sent after all (AQ-SEND-5); its size."""
        if not self.on or account.datagrams is None:
            return 0
        size = account.datagrams.pop()
        self._back(account, size)
        return size

    def answered(self, account: Account, lengths: Iterable[int]) -> None:
        """Datagram messages were acked and nacked in turn: the nacked ones never arrived."""
        if not self.on or account.datagrams is None:
            return
        back = 0
        for i, length in enumerate(lengths):
            for _ in range(length):  # numbers of ours, each once
                size = account.datagrams.popleft()
                back += size if i % 2 else 0
        self._back(account, back)

    def dequeued(self, account: Account, count: int) -> None:
        """DEQUEUED came (AQ-FLOW-2, 8)."""
        if self.active:
            self._back(account, count)

    def _back(self, account: Account, count: int) -> None:
        if count > account.outstanding:
            raise PeerFault(Code.ACK, f"credit on channel {account.channel} for more than was sent")
        account.outstanding -= count
        self.total -= count
        self._affects(account)

    def closed(self, account: Account) -> None:
        """The channel has no receiver any more: all of its share comes back (AQ-FLOW-7)."""
        if self.on:
            self.total -= account.outstanding
        account.outstanding = 0
        account.datagrams = None
        self._affects(account)

    def _affects(self, account: Account) -> None:
        """Credit came back: to all, if there is a limit for all together."""
        if self._all:
            self.changed = True
        else:
            self.affected[account.channel] = None

    def leave_line(self, channel: int) -> None:
        """What waited first of this channel has gone, or will not go: it is for others to go."""
        if self.head_of_line == channel:
            self.head_of_line = None
            self.changed = True

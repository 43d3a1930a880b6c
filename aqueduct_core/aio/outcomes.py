"""How a half of a channel can end, each its own exception, and how a half can be misused.

    Outcome
    ├── Finished         the sender finished and all was read: the normal end of a receiver
    ├── Cancelled        the sender gave the channel up; what was unread is gone
    ├── ReceiverClosed   the receiver wants no more: what it did not ack is nacked
    ├── Overflowed       our own receiver was closed: more was unread than the limits allow
    ├── LostInTransit    the message that carried this channel, or one above it, never arrived
    └── ConnectionLost   the connection is gone: what was not acked is unknown, not nacked
    Misuse               yours: a call that the state of a half does not allow
    └── OverLimit        a message that is larger than what may be sent

``Cancelled``, ``Overflowed``, ``LostInTransit`` and ``ConnectionLost`` are also ``ChannelEnded``,
and ``ReceiverClosed`` is also ``SinkFailed``, so that their text has the form of all errors of the
project. Only ``Finished`` is no error. All can be pickled.
"""

from __future__ import annotations

from aqueduct_core.aqueduct.conventions.refusals import OVER_LIMIT_REMEDY, exceeded_limit
from aqueduct_core.engine.close_codes import CloseOrigin, how_lost
from aqueduct_core.errors import ChannelEnded, SinkFailed


class Outcome(Exception):
    """A half of a channel ended. ``channel`` names it for a reader of the text."""

    channel: str


class Finished(Outcome):
    """The sender finished, and every message was read. Iteration ends by itself here."""

    def __init__(self, channel: str) -> None:
        super().__init__(channel)
        self.channel = channel

    def __str__(self) -> str:
        return f"{self.channel} is finished: every message was read"


class Cancelled(Outcome, ChannelEnded):
    """The sender cancelled: what was not read yet was thrown away."""

    def __init__(self, channel: str) -> None:
        ChannelEnded.__init__(
            self,
            "CANCELLED",
            f"the sender of {channel} cancelled it",
            "Messages that were not read yet are gone; ask the peer why it gave up",
        )
        self.args = (channel,)
        self.channel = channel


class ReceiverClosed(Outcome, SinkFailed):
    """The receiver closed the channel. ``unacked`` messages that were sent are nacked."""

    def __init__(self, channel: str, unacked: int = 0) -> None:
        SinkFailed.__init__(
            self,
            "RECEIVER_CLOSED",
            f"the receiver of {channel} closed it with {unacked} messages not acked",
            "Send them again on a channel whose receiver reads to the end",
        )
        self.args = (channel, unacked)
        self.channel = channel
        self.unacked = unacked


class Overflowed(Outcome, ChannelEnded):
    """More was unread than ``Config`` allows, so this side closed the receiver (H5)."""

    def __init__(self, channel: str) -> None:
        ChannelEnded.__init__(
            self,
            "OVERFLOW",
            f"{channel} was closed on this side: too much of it was not read",
            "Read sooner, or raise max_channel_queue_bytes or max_connection_queue_bytes",
        )
        self.args = (channel,)
        self.channel = channel


class LostInTransit(Outcome, ChannelEnded):
    """The message that carried this channel, or one above it, did not arrive (AQ-LOST-3)."""

    def __init__(self, channel: str) -> None:
        ChannelEnded.__init__(
            self,
            "LOST",
            f"{channel} was lost in transit: the message that carried it was not received",
            "Attach a new channel to a message that is sent again",
        )
        self.args = (channel,)
        self.channel = channel


class ConnectionLost(Outcome, ChannelEnded):
    """The connection ended. ``code`` 0 with ``by_peer``: the peer closed it in good order.

    Where ``origin`` is not the application, nobody closed it: the code is QUIC's, or there is none.
    Where the peer closed it for what is over a limit of its own, as large headers, to send the same
    again is in vain (``conventions.refusals.exceeded_limit``).
    """

    def __init__(
        self,
        channel: str,
        code: int = 0,
        reason: str = "",
        by_peer: bool = False,
        origin: CloseOrigin = CloseOrigin.APPLICATION,
    ) -> None:
        self.channel = channel
        self.code = code
        self.reason = reason
        self.by_peer = by_peer
        self.origin = origin
        if origin is CloseOrigin.APPLICATION:
            who = "the peer" if by_peer else "this side"
            how = f"closed by {who} with code {code}" + (f" ({reason})" if reason else "")
        else:
            how = f"lost: {how_lost(self)}"
        again = "Messages without an ack may or may not have arrived; connect and send them again"
        ChannelEnded.__init__(
            self,
            "LOST",
            f"the connection of {channel} was {how}",
            OVER_LIMIT_REMEDY if exceeded_limit(self) else again,
        )
        self.args = (channel, code, reason, by_peer, origin)


class Misuse(RuntimeError):
    """A call that the state of a half does not allow: your program, not the peer."""


class OverLimit(Misuse):
    """A message whose payload, headers or attachments are over a limit of this side, or that does
    not fit into a datagram of the path; nothing of it was sent."""

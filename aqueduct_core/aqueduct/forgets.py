"""FORGET_CHANNEL frames that are due (AQ-LIFE-18, 19).

A trigger while one is due adds nothing, and sending empties the set: so each frame that leaves
is later than every trigger it answers, and a later trigger makes a new one. The order of calls
is the monotonic counter that the rule asks for.
"""

from __future__ import annotations

from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.outbox import Outbox, Rank
from aqueduct_core.aqueduct.wire import codec


class Forgets:
    """``lingering`` control streams (AQ-LIFE-11) carry the frame where one is open."""

    def __init__(self, outbox: Outbox, most: int) -> None:
        self._outbox = outbox
        self._most = most
        self._due: dict[int, None] = {}
        self._lingering: dict[int, int] = {}

    @property
    def due(self) -> bool:
        return bool(self._due)

    def add(self, channel: int) -> None:
        """We lost ``channel``."""
        self._due[channel] = None

    def add_for_peer(self, channel: int) -> None:
        """The peer routed to a channel of ours that is not here (AQ-LIFE-4).

        Raises:
            PeerFault: too many at once (H8).
        """
        if len(self._due) >= self._most and channel not in self._due:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many channels to forget")
        self._due[channel] = None

    def linger(self, channel: int, stream_id: int) -> None:
        """The closed receiver's control stream stays open for a while."""
        self._lingering[channel] = stream_id

    def linger_over(self, channel: int) -> None:
        self._outbox.write(self._lingering.pop(channel), b"", Rank.RECEIVER, end=True)

    def send(self) -> None:
        """Write every frame that is due."""
        for channel in self._due:
            stream_id = self._lingering.get(channel)
            if stream_id is not None:
                # in order behind CLOSE_RECEIVER, which no FORGET_CHANNEL of this time may
                # overtake, the second as little as the first (B20)
                self._outbox.write(stream_id, codec.FORGET_CHANNEL, Rank.RECEIVER)
                continue
            frames = codec.encode_route_to(channel) + codec.FORGET_CHANNEL
            self._outbox.write(self._outbox.open(Rank.FORGET), frames, Rank.FORGET, end=True)
        self._due.clear()

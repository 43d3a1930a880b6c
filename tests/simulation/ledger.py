"""What both sides did and were told, and the promises that tie the two together.

The ledger sees both ends, so it can say of every message whether what the sender was told is true.
A broken promise raises ``Broken`` at the moment at which it shows.
"""

from __future__ import annotations

from collections.abc import Iterable

from aqueduct_core.aqueduct.config import AckMode, Config, Mode
from aqueduct_core.aqueduct.events import Delivered, End, Ended, Nacked, Rerouted
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.message_batch import BatchItem, MessageBatch


class Broken(AssertionError):
    """A promise does not hold."""


def hold(promise: bool, *what: object) -> None:
    if not promise:
        raise Broken(" ".join(map(str, what)))


class Sent:
    """One message: what its sender knows (``acked``) and what its receiver did with it."""

    __slots__ = ("acked", "attached", "channel", "delivered", "nacked_here", "number", "payload",
                 "refused", "reliable", "stored")  # fmt: skip

    def __init__(
        self, channel: int, reliable: bool, number: int, payload: bytes, attached: tuple[int, ...]
    ) -> None:
        self.channel = channel
        self.reliable = reliable
        self.number = number
        self.payload = payload
        self.attached = attached
        self.acked: bool | None = None
        self.delivered = False
        self.stored = False
        self.refused = False
        self.nacked_here = False

    def __str__(self) -> str:
        kind = "reliable" if self.reliable else "datagram"
        return f"{kind} message {self.number} of channel {self.channel}"


class Channel:
    """One channel as both ends see it; ``number`` of the next ordered message."""

    __slots__ = ("carrier", "creator", "ended", "ended_at", "mode", "next", "receiver_side",
                 "revealed", "sender_side", "sent", "settled", "settled_acked",
                 "unseen")  # fmt: skip

    def __init__(self, creator: Side, sender_side: Side, carrier: Sent | None) -> None:
        self.creator = creator
        self.sender_side = sender_side
        self.receiver_side = sender_side.other
        self.carrier = carrier
        self.mode: Mode | None = None
        self.next = 0
        self.sent = 0
        self.settled = 0
        self.settled_acked = 0
        self.ended: dict[Side, Ended] = {}
        self.ended_at: dict[Side, float] = {}
        self.revealed = carrier is None
        self.unseen = False  # it ended before the peer of its creator knew it


class Ledger:
    """``messages`` counts what was sent, ``deliveries`` what was delivered."""

    def __init__(self, configs: dict[Side, Config]) -> None:
        self._linger = {side: config.close_linger for side, config in configs.items()}
        self._stores = {
            side: config.ack_mode is AckMode.ON_STORED for side, config in configs.items()
        }
        self.channels: dict[int, Channel] = {0: Channel(Side.CLIENT, Side.CLIENT, None)}
        self._sent: dict[tuple[int, bool, int], Sent] = {}
        self.messages = 0
        self.deliveries = 0

    # --- the sender ---------------------------------------------------------------------

    def sent(
        self,
        side: Side,
        channel: int,
        reliable: bool,
        number: int,
        payload: bytes,
        attached: Iterable[tuple[int, bool]],
        mode: Mode,
    ) -> None:
        """``side`` sent a message; ``attached`` channels as (channel, this side sends on it)."""
        of = self.channels[channel]
        hold(of.sender_side is side, side.name, "sends on", channel)
        hold(side not in of.ended, "a send on channel", channel, "after its end")
        of.mode = mode
        ids = tuple(attached)
        message = Sent(channel, reliable, number, payload, tuple(c for c, _ in ids))
        key = channel, reliable, number
        hold(key not in self._sent, "the number of", message, "is given twice")
        self._sent[key] = message
        of.sent += 1
        self.messages += 1
        for child, sends in ids:
            hold(child not in self.channels, "channel", child, "is made twice")
            self.channels[child] = Channel(side, side if sends else side.other, message)

    def rerouted(self, side: Side, events: Rerouted) -> None:
        message = self._sent.pop((events.channel, False, events.datagram))
        hold(
            message.acked is None and not message.delivered, "a refused datagram arrived:", message
        )
        message.reliable, message.number = True, events.reliable
        key = events.channel, True, events.reliable
        hold(key not in self._sent, "the number of", message, "is given twice")
        self._sent[key] = message

    def settled(self, side: Side, events: Delivered) -> None:
        """The sender was told of acks or nacks."""
        of = self.channels[events.channel]
        hold(of.sender_side is side, "acks for the wrong side on", events.channel)
        hold(side not in of.ended, "acks on channel", events.channel, "after its end")
        stores = self._stores[of.receiver_side]
        for number in range(events.first, events.stop):
            message = self._sent.get((events.channel, events.reliable, number))
            if message is None:
                raise Broken(f"an ack of a message never sent: {events}")
            hold(message.acked is None, message, "is acked or nacked twice")
            message.acked = events.acked
            if events.acked:
                of.settled_acked += 1
                hold(not stores or message.stored, message, "is acked and was not stored")
                hold(not message.refused, message, "is acked and was refused")
                hold(not message.nacked_here, message, "is acked here and nacked there")
        of.settled += events.stop - events.first

    # --- the receiver -------------------------------------------------------------------

    def message(self, channel: int, reliable: bool, number: int) -> Sent:
        return self._sent[channel, reliable, number]

    def revealed(self, side: Side, channel: int, by: Sent) -> None:
        """The application of ``side`` read a message that carries ``channel``."""
        of = self.channels.get(channel)
        if of is None:
            raise Broken(f"{by} carries channel {channel}, which nobody made")
        hold(of.creator is not side, "channel", channel, "comes back to its creator")
        hold(of.carrier is by, "channel", channel, "comes with", by, "and left with", of.carrier)
        hold(not of.revealed, "channel", channel, "comes twice")
        of.revealed = True

    def delivered(self, side: Side, batch: MessageBatch) -> list[tuple[BatchItem, Sent]]:
        """The application of ``side`` got a batch; each message with its record."""
        of = self.channels.get(batch.channel)
        if of is None:
            raise Broken(f"messages of channel {batch.channel}, which nobody made")
        hold(of.receiver_side is side, "messages of", batch.channel, "on the wrong side")
        hold(of.revealed, "messages of", batch.channel, "before the channel was known")
        hold(side not in of.ended, "messages of channel", batch.channel, "after its end")
        ordered = batch.reliable and of.mode is Mode.ORDERED
        out = []
        for single in batch.messages():
            message = self._sent.get((batch.channel, batch.reliable, single.number))
            if message is None:
                raise Broken(f"message {single.number} of {batch} was never sent")
            hold(not message.delivered, message, "is delivered twice")
            hold(
                message.acked is not False or not self._rooted(of),
                message, "is delivered after its nack",
            )  # fmt: skip
            hold(not message.nacked_here, message, "is delivered after its nack left")
            hold(message.payload == single.payload, message, "has another payload")
            carried = tuple(attachment.channel for attachment in single.attachments)
            hold(message.attached == carried, message, "carries", carried, "not", message.attached)
            if ordered:
                hold(single.number == of.next, message, "comes before message", of.next)
                of.next += 1
            message.delivered = True
            out.append((single, message))
        self.deliveries += len(out)
        return out

    def nacked(self, side: Side, events: Nacked) -> None:
        """The receiver says that it nacked datagram messages."""
        stores = self._stores[side]
        for number in range(events.first, events.stop):
            message = self._sent.get((events.channel, False, number))
            if message is None:
                raise Broken(f"a nack of a message never sent: {events}")
            hold(not message.nacked_here, message, "is nacked twice")
            hold(message.acked is not True, message, "is nacked here and acked there")
            kept = message.stored if stores else message.delivered
            hold(not kept, message, "is nacked and was kept")
            message.nacked_here = True

    def _rooted(self, of: Channel) -> bool:
        """Whether every message on the way from the entrypoint to this channel was kept: read,
        or stored where acks wait for it. An application that stores a message late can lose the
        channels in it, for their carrier may yet count as nacked."""
        carrier = of.carrier
        while carrier is not None:
            if not (carrier.stored if self._stores[of.creator.other] else carrier.delivered):
                return False
            of = self.channels[carrier.channel]
            carrier = of.carrier
        return True

    # --- the ends -----------------------------------------------------------------------

    def ended(self, side: Side, events: Ended, now: float, *, at_reveal: bool) -> None:
        of = self.channels.get(events.channel)
        if of is None:
            raise Broken(f"channel {events.channel} ended, which nobody made")
        hold(side not in of.ended, "channel", events.channel, "ends twice for", side.name)
        hold(of.creator is side or of.revealed, "channel", events.channel, "ends unknown")
        of.ended[side] = events
        of.ended_at[side] = now
        of.unseen = of.unseen or at_reveal
        if side is of.sender_side:
            self._sender_ended(of, events)
        elif events.end is End.FINISHED:
            self._complete(of, events)

    def _sender_ended(self, of: Channel, events: Ended) -> None:
        if events.end is End.CONNECTION_LOST:
            return
        hold(of.settled == of.sent, f"{of.sent - of.settled} messages of {events} are unknown")
        counts = events.counts
        hold(
            counts.reliable_sent + counts.unreliable_sent == of.sent, events, "of", of.sent, "sent"
        )
        seen = of.settled_acked, of.settled - of.settled_acked
        hold((counts.acked, counts.nacked) == seen, events, "but told were", seen)
        if events.end is End.FINISHED:
            for number in range(counts.reliable_sent):
                message = self._sent[events.channel, True, number]
                hold(message.acked is True, message, "is not acked and its channel finished")

    def _complete(self, of: Channel, events: Ended) -> None:
        """A finished receiver had every reliable message; with storing, it stored each."""
        stores = self._stores[of.receiver_side]
        for number in range(events.counts.reliable_sent):
            message = self._sent.get((events.channel, True, number))
            if message is None:
                raise Broken(f"{events} counts a message that was never sent")
            hold(message.delivered, message, "is missing and its channel finished")
            hold(message.stored or not stores, message, "is not stored and its channel finished")

    # --- at the very end ----------------------------------------------------------------

    def close(self, *, lost: bool, ends_arrive: bool) -> None:
        """Every promise that only shows in the end.

        ``lost``: the connection was lost. ``ends_arrive``: the link ate no acks and no ends of
        channels; where it does, a late FORGET_CHANNEL finds a sender that waits for them.
        """
        for message in self._sent.values():
            if message.acked:
                self._acked_is_there(message)
            elif message.acked is None:
                hold(lost, message, "was neither acked nor nacked")
        for channel, of in self.channels.items():
            if of.carrier is not None and ends_arrive:
                self._accessible(channel, of, of.carrier)
            if lost:
                continue
            for side in Side:
                knows = of.creator is side or of.revealed
                hold((side in of.ended) is knows, "channel", channel, "did not end at", side.name)

    def _acked_is_there(self, message: Sent) -> None:
        """Acked means delivered, unless the channel ended before its receiver knew of it."""
        of = self.channels[message.channel]
        hold(
            message.delivered or not of.revealed or (of.unseen and of.creator is of.sender_side),
            message,
            "is acked and was not delivered",
        )

    def _lingered(self, of: Channel) -> bool:
        """Its peer learned of the end later than the creator's control stream stays open."""
        creator = of.creator
        return of.ended_at[creator.other] - of.ended_at[creator] > self._linger[creator]

    def _accessible(self, channel: int, of: Channel, carrier: Sent) -> None:
        """A channel whose handle was read is not lost (AQ-LOST-6); nor is one whose carrier was
        acked on a channel that is there, and only the creator can lose one."""
        own, other = of.ended.get(of.creator), of.ended.get(of.creator.other)
        if own is not None and own.end is End.LOST:
            hold(not self._rooted(of), "channel", channel, "was read and is lost:", carrier)
        if other is not None and other.end is End.LOST:
            # a FORGET_CHANNEL behind the end throws away the record that waits (AQ-LIFE-6)
            waited = of.unseen and of.sender_side is not of.creator
            # one for a message that came when the control stream lingered no more may overtake the
            # CLOSE_RECEIVER on it (AQ-LIFE-4, 11)
            late = own is not None and own.end is End.CLOSED and self._lingered(of)
            both = own is None or waited or late or own.end in (End.LOST, End.CONNECTION_LOST)
            hold(both or not self._rooted(of), "channel", channel, "is lost at one end:", own)

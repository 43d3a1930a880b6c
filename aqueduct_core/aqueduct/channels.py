"""Birth and death of channels: routing to machines, attachments, ends, loss (reference §3.5, 3.6).

Holds every state machine of the connection by channel; for the peer's channels the tombstones
and claims, for ours the counters, lineage and due FORGET_CHANNELs. ``visible`` halves are those
that the application knows: the entrypoint, what it attached, and what came in a message that it
was told of. Only they make events.
"""

from __future__ import annotations

from collections.abc import Iterable

from aqueduct_core.aqueduct.context import Alarm, ConnectionContext
from aqueduct_core.aqueduct.event_queue import BatchBuilder
from aqueduct_core.aqueduct.events import Counts, End, Ended, Idle, Ignored
from aqueduct_core.aqueduct.faults import Code, PeerFault, TooMany
from aqueduct_core.aqueduct.flow import BadFlowHeader, read_channel_header
from aqueduct_core.aqueduct.forgets import Forgets
from aqueduct_core.aqueduct.idle import IdleWatch
from aqueduct_core.aqueduct.lineage import Lineage, Lost
from aqueduct_core.aqueduct.receiver import ReceiverHalf, ReceiverInput, ReceiverState
from aqueduct_core.aqueduct.remote_channels import RemoteChannel, RemoteChannels
from aqueduct_core.aqueduct.sender import SenderHalf, SenderInput, SenderState
from aqueduct_core.aqueduct.tombstones import Tombstones
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import Tag
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.primitives.ranges import Range

Half = SenderHalf | ReceiverHalf


class Channels:
    """The one owner of halves. Ends with the connection."""

    def __init__(self, side: Side, wiring: ConnectionContext) -> None:
        config = wiring.config
        self._side = side
        self._wiring = wiring
        self._counters = chanid.ChannelCounters(side)
        self._tombstones = Tombstones(config.max_tombstone_ranges, config.tombstone_age)
        self._claims = RemoteChannels(config)
        self._route_back: dict[int, None] = {}
        self.lineage = Lineage()
        self.idle = IdleWatch(wiring)
        self.forgets = Forgets(wiring.outbox, config.max_pending_forgets)
        self.halves: dict[int, Half] = {}
        if side is Side.CLIENT:
            self._make_sender(chanid.ENTRYPOINT, visible=True)
        else:
            self._make_receiver(chanid.ENTRYPOINT, visible=True)

    @property
    def ranges(self) -> int:
        """Ranges of channels that are remembered, whether they are there or not."""
        return self._tombstones.ranges + self._claims.ranges

    @property
    def unclaimed(self) -> tuple[int, int]:
        """Of messages on channels that no message carried: bytes, and pieces in the credit book."""
        return self._claims.bytes, self._claims.pieces

    @property
    def records(self) -> int:
        """What is kept of channels apart from their halves."""
        return self._claims.records + len(self.lineage) + len(self._wiring.heirs)

    def remote(self, channel: int) -> bool:
        """Whether the peer created it."""
        return chanid.creator(channel) is not self._side

    # --- birth -------------------------------------------------------------------------

    def _make_sender(self, channel: int, *, visible: bool) -> SenderHalf:
        half = self.halves[channel] = SenderHalf(channel, self._wiring, visible=visible)
        if self.remote(channel) or channel == chanid.ENTRYPOINT:
            self.lineage.sender_made(channel)
        return half

    def _make_receiver(self, channel: int, *, visible: bool) -> ReceiverHalf:
        half = self.halves[channel] = ReceiverHalf(
            channel, self._wiring, local=not self.remote(channel), visible=visible
        )
        if not self.remote(channel) or channel == chanid.ENTRYPOINT:
            self._wiring.heirs.root(channel, accessible=channel == chanid.ENTRYPOINT)
        return half

    def _make_remote(self, channel: int) -> Half:
        if len(self.halves) >= self._wiring.config.max_channels:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many channels")
        if chanid.sender(channel) is self._side:
            return self._make_sender(channel, visible=False)
        return self._make_receiver(channel, visible=False)

    def route(self, channel: int, reader: SequenceReader, now: float) -> Half | None:
        """Bind a sequence to its machine; None: its reader was told to ignore the rest."""
        half = self.halves.get(channel)
        if half is not None:
            return half
        if not self.remote(channel):
            if self._wiring.config.strict_unknown_local and not self._counters.allocated(channel):
                raise PeerFault(Code.STATE, f"channel {channel} was never made")
            self.forgets.add_for_peer(channel)
            self._forget_shortly(now)
            reader.discard()
            return None
        if channel in self._tombstones or reader.upcoming() == Tag.FORGET_CHANNEL:
            reader.ghost()
            return None
        half = self._make_remote(channel)
        self._claims.made(channel)
        self._route_back[channel] = None
        return half

    def _forget_shortly(self, now: float) -> None:
        self._wiring.timers.sooner((Alarm.FORGET, 0), now + self._wiring.config.forget_delay)

    def check_room(self, attachments: int) -> None:
        """Raises TooMany unless a message with so many attachments may go out (H10, H11)."""
        lack = self._lack(attachments)
        if lack is not None:
            raise TooMany(lack)

    def has_room(self, attachments: int) -> bool:
        """As ``check_room``, for a message that has waited."""
        return self._lack(attachments) is None

    def _lack(self, attachments: int) -> str | None:
        config, lineage = self._wiring.config, self.lineage
        if len(self.halves) + attachments > config.max_channels:
            return f"{config.max_channels} channels are open"
        if lineage.links + attachments > config.max_links:
            return f"the fate of {lineage.links} channels is open"
        if lineage.carriers >= config.max_unacked_attachment_messages:
            return f"{lineage.carriers} messages with attachments are not acked"
        return None

    def upcoming(self, kinds: list[tuple[Side, bool]]) -> list[int]:
        """The identifiers of the next channels of ours, not taken yet (AQ-CHANID-4)."""
        try:
            return self._counters.upcoming(kinds)
        except ValueError:
            raise TooMany("the channel indexes are used up") from None

    def attach(
        self,
        parent: int,
        reliable: bool,
        number: int,
        kinds: list[tuple[Side, bool]],
        attachments: tuple[Attachment, ...],
    ) -> None:
        """The message left: make a machine for each attachment and link it (AQ-SEND-11)."""
        self._counters.take(kinds)
        sends = [sent_by is self._side for sent_by, _ in kinds]
        channels = [attachment.channel for attachment in attachments]
        self.lineage.attached(parent, reliable, number, zip(channels, sends, strict=True))
        for (channel, headers), sending in zip(attachments, sends, strict=True):
            if sending:
                self._make_sender(channel, visible=True)
            else:
                half = self._make_receiver(channel, visible=True)
                half.buffer = read_channel_header(headers)

    def claim(self, attachments: Iterable[Attachment], now: float) -> None:
        """A message came: make a machine for each attachment that has none (AQ-LIFE-8, 9)."""
        for channel, headers in attachments:
            self._claims.claim(channel, alive=channel in self.halves)
            if channel not in self.halves and channel not in self._tombstones:
                self._make_remote(channel)
                if self._wiring.config.route_back_on_attach:
                    self._route_back[channel] = None
            half = self.halves.get(channel)
            if half is not None:
                self.idle.touched(channel, now)
            if headers and isinstance(half, SenderHalf):
                self._buffer_of(half, headers)

    def _buffer_of(self, half: SenderHalf, headers: Headers) -> None:
        """The receiver that we send to may have a buffer size of its own (AQ-FLOW-10)."""
        try:
            half.account.limit = read_channel_header(headers)
        except BadFlowHeader as error:
            self._wiring.bulletin.tell(Ignored(f"channel {half.channel}: {error}"))

    def wait(self, size: int, pieces: int) -> None:
        """A message of ``size`` bytes waits on a channel that the application does not know."""
        self._claims.hold(size, pieces)

    def reveal(
        self, parent: int, reliable: bool, number: int, attachments: Iterable[Attachment]
    ) -> None:
        """The application is told of these channels: their queues and ends follow."""
        heirs = self._wiring.heirs
        work = self._inherit(parent, reliable, number, attachments)
        while work:
            channel = work.pop()
            half = self.halves.get(channel)
            if half is not None:
                half.visible = True
                if isinstance(half, ReceiverHalf):
                    work.extend(self._tell(half.take_queue(), half))
                    if half.state is ReceiverState.FINISHING:
                        self._wiring.due[channel] = None  # it may be complete already
                continue
            record = self._claims.take(channel)
            if record is None:
                self._wiring.bulletin.tell(Ended(channel, End.LOST, Counts()))
            else:
                work.extend(self._tell(record.queue, None))
                self._wiring.bulletin.tell(record.ended)
            heirs.ended(channel)

    def _inherit(
        self, parent: int, reliable: bool, number: int, attachments: Iterable[Attachment]
    ) -> list[int]:
        """Note what a message that is told carries; its channels."""
        channels = [attachment.channel for attachment in attachments]
        sends = [chanid.sender(channel) is not self._side for channel in channels]
        self._wiring.heirs.told(parent, reliable, number, zip(channels, sends, strict=True))
        return channels

    def _tell(self, queue: list[BatchBuilder], half: ReceiverHalf | None) -> list[int]:
        """Tell runs that waited; the channels that they carry. ``half`` None: it has ended, and
        all of its queue was acked."""
        self._release(queue)
        self._wiring.bulletin.drafts(queue)
        told: list[int] = []
        for draft in queue:
            channel, reliable, first = draft.channel, draft.reliable, draft.first
            for i, attachments in draft.attachments.items():
                told += self._inherit(channel, reliable, first + i, attachments)
            if draft.attachments:
                stop = first + draft.count
                acked = [(first, stop)] if half is None else half.acked(reliable, first, stop)
                self._wiring.heirs.answered(channel, reliable, acked, True)
        return told

    def _release(self, queue: list[BatchBuilder]) -> None:
        """Runs of one channel, which waited, do so no longer: told, or thrown away."""
        if queue:
            self._claims.release(queue, self._wiring.credit.pieces_of(queue[0].channel))

    # --- death -------------------------------------------------------------------------

    def drop(self, channels: Iterable[int], now: float) -> None:
        """Nobody will use these attachments: close or cancel each (AQ-LIFE-20)."""
        work = list(channels)
        while work:
            channel = work.pop()
            half = self.halves.get(channel)
            if half is not None:
                half.forsaken = True
            if isinstance(half, ReceiverHalf):
                work.extend(self._close(half, ReceiverInput.CLOSE, End.CLOSED, now))
            elif half is not None:
                if half.state is SenderState.OPEN:
                    half.cancel()
            else:
                record = self._claims.take(channel)
                if record is not None:
                    self._throw_away(channel, record.queue, work)

    def _throw_away(self, channel: int, queue: list[BatchBuilder], work: list[int]) -> None:
        """Forget runs that waited; what they carry joins ``work``, to be dropped as well."""
        self._release(queue)
        self._wiring.credit.thrown_away(channel)
        work.extend(_carried(queue))

    def close(self, half: ReceiverHalf, cause: ReceiverInput, end: End, now: float) -> None:
        """Acks and CLOSE_RECEIVER, then the machine is gone."""
        self.drop(self._close(half, cause, end, now), now)

    def _close(self, half: ReceiverHalf, cause: ReceiverInput, end: End, now: float) -> list[int]:
        """As ``close``; the channels carried by messages that are thrown away unread."""
        lingering = half.shut(cause)
        if lingering is not None:
            self.forgets.linger(half.channel, lingering)
            self._wiring.timers.set(
                (Alarm.LINGER, half.channel), now + self._wiring.config.close_linger
            )
        queue = half.take_queue()
        carried: list[int] = []
        if end is not End.FINISHED:
            self._throw_away(half.channel, queue, carried)
            queue = []
        self._gone(half, RemoteChannel(queue, Ended(half.channel, end, half.counts())), now)
        return carried

    def finish_check(self, half: ReceiverHalf, now: float) -> None:
        """End a finishing receiver whose messages are complete (AQ-LIFE-15)."""
        if half.state is not ReceiverState.FINISHING:
            return
        half.announce()
        if half.complete:
            self.close(half, ReceiverInput.COMPLETE, End.FINISHED, now)

    def closed_by_peer(self, half: SenderHalf, now: float) -> None:
        """CLOSE_RECEIVER: what is not acked is nacked, the machine is gone (AQ-LIFE-13)."""
        end = half.closed_by_peer()
        self._tell_nacked(half)
        self._gone(half, RemoteChannel([], Ended(half.channel, end, half.counts())), now)

    def forgotten(self, channel: int, now: float) -> None:
        """FORGET_CHANNEL: overrides all else, and is never answered (AQ-LIFE-6, 7)."""
        work: list[int] = []
        half = self.halves.get(channel)
        if half is None:
            record = self._claims.take(channel)
            if record is not None:
                self._throw_away(channel, record.queue, work)
            if channel not in self._tombstones:
                self._tombstones.add(channel, now)
        else:
            self._destroy(half, SenderInput.FORGET, ReceiverInput.FORGET, work)
            self._gone(half, None, now)
        self.drop(work, now)

    def _destroy(
        self, half: Half, sender: SenderInput, receiver: ReceiverInput, work: list[int]
    ) -> None:
        if isinstance(half, SenderHalf):
            self._tell_nacked(half)
            half.destroy(sender)
        else:
            self._throw_away(half.channel, half.take_queue(), work)
            half.destroy(receiver)

    def _tell_nacked(self, half: SenderHalf) -> None:
        if half.visible:
            for reliable, ranges in zip((True, False), half.open_numbers(), strict=True):
                for first, stop in ranges:
                    self._wiring.bulletin.delivered(half.channel, reliable, first, stop, False)

    def _gone(self, half: Half, record: RemoteChannel | None, now: float) -> None:
        """Take the machine out; ``record`` says how it ended (None: lost)."""
        channel = half.channel
        del self.halves[channel]
        self.idle.gone(channel)
        self._wiring.flow.stirred = True  # room for what carries channels
        self._route_back.pop(channel, None)
        self._wiring.heirs.ended(channel)
        if self.remote(channel):
            self._tombstones.add(channel, now)
        ended = Ended(channel, End.LOST, half.counts()) if record is None else record.ended
        if half.visible:
            self._wiring.bulletin.tell(ended)
        else:
            self._claims.ended(channel, None if half.forsaken else record)
        self.lose(self.lineage.ended(channel, routed=half.routed), now)

    def idle_passed(self, channel: int, now: float) -> None:
        """Tell of a channel on which nothing happened for too long."""
        if self.idle.due(channel, now) and self.halves[channel].visible:
            self._wiring.bulletin.tell(Idle(channel))

    def lose(self, lost: list[Lost], now: float) -> None:
        """These channels of ours are lost (AQ-LOST-4): destroy, reset, forget if ever routed."""
        for channel, routed in lost:
            half = self.halves.pop(channel, None)
            if half is not None:
                self.idle.gone(channel)
                routed = half.routed
                self._destroy(half, SenderInput.LOST, ReceiverInput.LOST, [])
                self._wiring.bulletin.tell(Ended(channel, End.LOST, half.counts()))
            self._wiring.heirs.orphaned(channel)
            if routed:
                self.forgets.add(channel)
                self._forget_shortly(now)

    # --- acks ---------------------------------------------------------------------------

    def delivered(
        self, half: SenderHalf, reliable: bool, ranges: list[Range], acked: bool, now: float
    ) -> None:
        """Messages of ours were acked or nacked: tell, and settle what they carried."""
        if half.visible:
            for first, stop in ranges:
                self._wiring.bulletin.delivered(half.channel, reliable, first, stop, acked)
        self._wiring.flow.stirred = True  # room for what carries channels
        if acked:
            self.lineage.acked(half.channel, reliable, ranges)
            for channel in self.lineage.take_opened():
                self._wiring.heirs.opened(channel)
        else:
            self.lose(self.lineage.nacked(half.channel, reliable, ranges), now)

    # --- once a burst -------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Write what is due: ROUTE_TO back, acks of what was stored."""
        for channel in self._route_back:
            self.halves[channel].route_back()
        self._route_back.clear()
        due, self._wiring.due = self._wiring.due, {}
        for channel in due:
            half = self.halves.get(channel)
            if isinstance(half, ReceiverHalf):
                half.flush()
                self.finish_check(half, now)
        heirs = self._wiring.heirs
        while lost := heirs.take_lost():
            for channel in lost:
                self._bereaved(channel, now)
        orphans = heirs.take_orphans()
        self.drop(orphans, now)
        for channel in orphans:
            half = self.halves.get(channel)
            if isinstance(half, SenderHalf) and half.state is SenderState.FINISHING:
                # its FINISH_SENDER may have met a sequence whose machine was gone already
                half.ask()

    def _bereaved(self, channel: int, now: float) -> None:
        """We did not ack the message that carried this channel of the peer, so its creator holds
        it for lost, and says so only if it had used it. Here it ends as if it had been said."""
        half = self.halves.get(channel)
        if half is not None:
            self._destroy(half, SenderInput.FORGET, ReceiverInput.FORGET, [])
            self._gone(half, None, now)

    def connection_lost(self) -> None:
        """The connection is over: every half that the application knows ends (AQ-ERR-3)."""
        for channel, half in self.halves.items():
            if isinstance(half, SenderHalf):
                half.drop_queue()
            if half.visible:
                self._wiring.bulletin.tell(Ended(channel, End.CONNECTION_LOST, half.counts()))
        self.halves.clear()
        self._route_back.clear()


def _carried(queue: list[BatchBuilder]) -> list[int]:
    """The channels that the messages of these runs carry."""
    return [
        attachment.channel
        for draft in queue
        for attachments in draft.attachments.values()
        for attachment in attachments
    ]

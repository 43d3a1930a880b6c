"""Birth and death of channels: routing to machines, attachments, ends, loss (reference §3.5, 3.6).

Holds every state machine of the connection by channel; for the peer's channels the tombstones
and claims, for ours the counters, lineage and due FORGET_CHANNELs. ``visible`` halves are those
that the application knows: the entrypoint, what it attached, and what came in a message that it
was given. Only they make events.
"""

from __future__ import annotations

from collections.abc import Iterable

from aqueduct_core.aqueduct.context import ConnectionContext, Timer
from aqueduct_core.aqueduct.event_queue import BatchBuilder
from aqueduct_core.aqueduct.events import Counts, End, Ended, Idle, Ignored
from aqueduct_core.aqueduct.faults import Code, PeerFault, TooMany
from aqueduct_core.aqueduct.flow import BadFlowHeader, read_channel_header
from aqueduct_core.aqueduct.forgets import Forgets
from aqueduct_core.aqueduct.idle import IdleWatch
from aqueduct_core.aqueduct.lineage import Lineage, Lost
from aqueduct_core.aqueduct.receiver import ReceiverHalf, ReceiverInput, ReceiverState
from aqueduct_core.aqueduct.remote_channels import RemoteChannel, RemoteChannels
from aqueduct_core.aqueduct.sender import SenderHalf
from aqueduct_core.aqueduct.sender_table import SenderInput, SenderState
from aqueduct_core.aqueduct.tombstones import Tombstones
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import Tag
from aqueduct_core.aqueduct.wire.grammar import SequenceReader
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.primitives.ranges import Range

ChannelHalf = SenderHalf | ReceiverHalf


class Channels:
    """The one owner of halves. Ends with the connection."""

    def __init__(self, side: Side, context: ConnectionContext) -> None:
        config = context.config
        self._side = side
        self._context = context
        self._counters = chanid.ChannelCounters(side)
        self._tombstones = Tombstones(config.max_tombstone_ranges, config.tombstone_age)
        self._remote_channels = RemoteChannels(config)
        self._route_back: dict[int, None] = {}
        self.lineage = Lineage()
        self.idle = IdleWatch(context)
        self.forgets = Forgets(context.outbox, config.max_pending_forgets)
        self.halves: dict[int, ChannelHalf] = {}
        if side is Side.CLIENT:
            self._make_sender(chanid.ENTRYPOINT, visible=True)
        else:
            self._make_receiver(chanid.ENTRYPOINT, visible=True)

    @property
    def ranges(self) -> int:
        """Ranges of channels that are remembered, whether they are there or not."""
        return self._tombstones.ranges + self._remote_channels.ranges

    @property
    def unclaimed(self) -> tuple[int, int]:
        """Of messages on channels that no message carried: bytes, and pieces of credit."""
        return self._remote_channels.bytes, self._remote_channels.pieces

    @property
    def records(self) -> int:
        """What is kept of channels apart from their halves."""
        return self._remote_channels.records + len(self.lineage) + len(self._context.remote_lineage)

    def remote(self, channel: int) -> bool:
        """Whether the peer created it."""
        return chanid.creator(channel) is not self._side

    # --- birth -------------------------------------------------------------------------

    def _make_sender(self, channel: int, *, visible: bool) -> SenderHalf:
        half = self.halves[channel] = SenderHalf(channel, self._context, visible=visible)
        if self.remote(channel) or channel == chanid.ENTRYPOINT:
            self.lineage.sender_made(channel)
        return half

    def _make_receiver(self, channel: int, *, visible: bool) -> ReceiverHalf:
        half = self.halves[channel] = ReceiverHalf(
            channel, self._context, local=not self.remote(channel), visible=visible
        )
        if not self.remote(channel) or channel == chanid.ENTRYPOINT:
            self._context.remote_lineage.add_root(channel, accessible=channel == chanid.ENTRYPOINT)
        return half

    def _make_remote(self, channel: int) -> ChannelHalf:
        if len(self.halves) >= self._context.config.max_channels:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many channels")
        if chanid.sender(channel) is self._side:
            return self._make_sender(channel, visible=False)
        return self._make_receiver(channel, visible=False)

    def route(self, channel: int, reader: SequenceReader, now: float) -> ChannelHalf | None:
        """Bind a sequence to its machine; None: there is none, and its reader ignores the rest."""
        half = self.halves.get(channel)
        if half is not None:
            return half
        if not self.remote(channel):
            if self._context.config.strict_unknown_local and not self._counters.allocated(channel):
                raise PeerFault(Code.STATE, f"channel {channel} was never made")
            self.forgets.add_for_peer(channel)
            self._forget_shortly(now)
            reader.discard()
            return None
        if channel in self._tombstones or reader.upcoming() == Tag.FORGET_CHANNEL:
            reader.skip()
            return None
        half = self._make_remote(channel)
        self._remote_channels.made(channel)
        self._route_back[channel] = None
        return half

    def _forget_shortly(self, now: float) -> None:
        self._context.timers.sooner((Timer.FORGET, 0), now + self._context.config.forget_delay)

    def check_room(self, attachments: int) -> None:
        """Raises TooMany unless a message with so many attachments may go out (H10, H11)."""
        full = self._full_table(attachments)
        if full is not None:
            raise TooMany(full)

    def has_room(self, attachments: int) -> bool:
        """As ``check_room``, for a message that has waited."""
        return self._full_table(attachments) is None

    def _full_table(self, attachments: int) -> str | None:
        config, lineage = self._context.config, self.lineage
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
        *,
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
            self._remote_channels.claim(channel, alive=channel in self.halves)
            if channel not in self.halves and channel not in self._tombstones:
                self._make_remote(channel)
                if self._context.config.route_back_on_attach:
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
            self._context.events.emit(Ignored(f"channel {half.channel}: {error}"))

    def wait(self, size: int, pieces: int) -> None:
        """A message of ``size`` bytes waits on a channel that the application does not know."""
        self._remote_channels.hold(size, pieces)

    def reveal(
        self, parent: int, reliable: bool, number: int, attachments: Iterable[Attachment]
    ) -> None:
        """The application was given these channels: their queues and ends follow."""
        remote_lineage = self._context.remote_lineage
        work = self._note_carrier(parent, reliable, number, attachments)
        while work:
            channel = work.pop()
            half = self.halves.get(channel)
            if half is not None:
                half.visible = True
                if isinstance(half, ReceiverHalf):
                    work.extend(self._emit_queue(half.take_queue(), half))
                    if half.state is ReceiverState.FINISHING:
                        self._context.due[channel] = None  # it may be complete already
                continue
            record = self._remote_channels.take(channel)
            if record is None:
                self._context.events.emit(Ended(channel, End.LOST, Counts()))
            else:
                work.extend(self._emit_queue(record.queue, None))
                self._context.events.emit(record.ended)
            remote_lineage.ended(channel)

    def _note_carrier(
        self, parent: int, reliable: bool, number: int, attachments: Iterable[Attachment]
    ) -> list[int]:
        """Note what a message that the application gets carries; its channels."""
        channels = [attachment.channel for attachment in attachments]
        sends = [chanid.sender(channel) is not self._side for channel in channels]
        self._context.remote_lineage.attached(
            parent, reliable, number, zip(channels, sends, strict=True)
        )
        return channels

    def _emit_queue(self, queue: list[BatchBuilder], half: ReceiverHalf | None) -> list[int]:
        """Give the application batches that waited; the channels that they carry. ``half`` None:
        it has ended, and all of its queue was acked."""
        self._release(queue)
        self._context.events.emit_waiting(queue)
        carried: list[int] = []
        for builder in queue:
            channel, reliable, first = builder.channel, builder.reliable, builder.first
            for i, attachments in builder.attachments.items():
                carried += self._note_carrier(channel, reliable, first + i, attachments)
            if builder.attachments:
                stop = first + builder.count
                acked = [(first, stop)] if half is None else half.acked(reliable, first, stop)
                self._context.remote_lineage.answered(channel, reliable, acked, acked=True)
        return carried

    def _release(self, queue: list[BatchBuilder]) -> None:
        """Batches of one channel, which waited, do so no longer: given out, or thrown away."""
        if queue:
            self._remote_channels.release(queue, self._context.credit.pieces_of(queue[0].channel))

    # --- death -------------------------------------------------------------------------

    def drop(self, channels: Iterable[int], now: float) -> None:
        """Nobody will use these attachments: close or cancel each (AQ-LIFE-20)."""
        work = list(channels)
        while work:
            channel = work.pop()
            half = self.halves.get(channel)
            if half is not None:
                half.discarded = True
            if isinstance(half, ReceiverHalf):
                work.extend(self._close(half, ReceiverInput.CLOSE, End.CLOSED, now))
            elif half is not None:
                if half.state is SenderState.OPEN:
                    half.cancel()
            else:
                record = self._remote_channels.take(channel)
                if record is not None:
                    self._throw_away(channel, record.queue, work)

    def _throw_away(self, channel: int, queue: list[BatchBuilder], work: list[int]) -> None:
        """Forget batches that waited; what they carry joins ``work``, to be dropped as well."""
        self._release(queue)
        self._context.credit.thrown_away(channel)
        work.extend(_carried(queue))

    def close(self, half: ReceiverHalf, cause: ReceiverInput, end: End, now: float) -> None:
        """Acks and CLOSE_RECEIVER, then the machine is gone."""
        self.drop(self._close(half, cause, end, now), now)

    def _close(self, half: ReceiverHalf, cause: ReceiverInput, end: End, now: float) -> list[int]:
        """As ``close``; the channels carried by messages that are thrown away unread."""
        lingering = half.shut(cause)
        if lingering is not None:
            self.forgets.linger(half.channel, lingering)
            self._context.timers.set(
                (Timer.LINGER, half.channel), now + self._context.config.close_linger
            )
        queue = half.take_queue()
        carried: list[int] = []
        if end is not End.FINISHED:
            self._throw_away(half.channel, queue, carried)
            queue = []
        self._gone(half, RemoteChannel(queue, Ended(half.channel, end, half.counts())), now)
        return carried

    def end_if_complete(self, half: ReceiverHalf, now: float) -> None:
        """End a finishing receiver whose messages are complete (AQ-LIFE-15)."""
        if half.complete():
            self.close(half, ReceiverInput.COMPLETE, End.FINISHED, now)

    def closed_by_peer(self, half: SenderHalf, stream_id: int, now: float) -> None:
        """CLOSE_RECEIVER: what is not acked is nacked, the machine is gone (AQ-LIFE-13)."""
        end = half.closed_by_peer(stream_id)
        self._emit_nacked(half)
        self._gone(half, RemoteChannel([], Ended(half.channel, end, half.counts())), now)

    def forgotten(self, channel: int, now: float) -> None:
        """FORGET_CHANNEL: overrides all else, and is never answered (AQ-LIFE-6, 7)."""
        work: list[int] = []
        half = self.halves.get(channel)
        if half is None:
            record = self._remote_channels.take(channel)
            if record is not None:
                self._throw_away(channel, record.queue, work)
            if channel not in self._tombstones:
                self._tombstones.add(channel, now)
        else:
            self._destroy(half, SenderInput.FORGET, ReceiverInput.FORGET, work)
            self._gone(half, None, now)
        self.drop(work, now)

    def _destroy(
        self, half: ChannelHalf, sender: SenderInput, receiver: ReceiverInput, work: list[int]
    ) -> None:
        if isinstance(half, SenderHalf):
            self._emit_nacked(half)
            half.destroy(sender)
        else:
            self._throw_away(half.channel, half.take_queue(), work)
            half.destroy(receiver)

    def _emit_nacked(self, half: SenderHalf) -> None:
        if half.visible:
            for reliable, ranges in zip((True, False), half.open_numbers(), strict=True):
                for first, stop in ranges:
                    self._context.events.emit_delivered(
                        half.channel, reliable, first, stop, acked=False
                    )

    def _gone(self, half: ChannelHalf, record: RemoteChannel | None, now: float) -> None:
        """Take the machine out; ``record`` says how it ended (None: lost)."""
        channel = half.channel
        del self.halves[channel]
        self.idle.gone(channel)
        self._context.flow.table_freed = True
        self._route_back.pop(channel, None)
        self._context.remote_lineage.ended(channel)
        if self.remote(channel):
            self._tombstones.add(channel, now)
        ended = Ended(channel, End.LOST, half.counts()) if record is None else record.ended
        if half.visible:
            self._context.events.emit(ended)
        else:
            self._remote_channels.ended(channel, None if half.discarded else record)
        self.lose(self.lineage.ended(channel, routed=half.routed), now)

    def idle_passed(self, channel: int, now: float) -> None:
        """Emit ``Idle`` for a channel on which nothing happened for too long."""
        if self.idle.due(channel, now) and self.halves[channel].visible:
            self._context.events.emit(Idle(channel))

    def lose(self, lost: list[Lost], now: float) -> None:
        """These channels of ours are lost (AQ-LOST-4): destroy, reset, forget if ever routed."""
        for channel, routed in lost:
            half = self.halves.pop(channel, None)
            if half is not None:
                self.idle.gone(channel)
                routed = half.routed
                self._destroy(half, SenderInput.LOST, ReceiverInput.LOST, [])
                self._context.events.emit(Ended(channel, End.LOST, half.counts()))
            self._context.remote_lineage.root_lost(channel)
            if routed:
                self.forgets.add(channel)
                self._forget_shortly(now)

    # --- acks ---------------------------------------------------------------------------

    def answered(
        self, half: SenderHalf, ranges: list[Range], *, reliable: bool, acked: bool, now: float
    ) -> None:
        """Messages of ours were acked or nacked: so is what they carried."""
        if half.visible:
            emit = self._context.events.emit_delivered
            for first, stop in ranges:
                emit(half.channel, reliable, first, stop, acked=acked)
        self._context.flow.table_freed = True
        if acked:
            self.lineage.acked(half.channel, reliable, ranges)
            for channel in self.lineage.take_opened():
                self._context.remote_lineage.root_accessible(channel)
        else:
            self.lose(self.lineage.nacked(half.channel, reliable, ranges), now)

    # --- once a burst -------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Write what is due: ROUTE_TO back, acks of what was stored."""
        for channel in self._route_back:
            self.halves[channel].control_stream()
        self._route_back.clear()
        due, self._context.due = self._context.due, {}
        for channel in due:
            half = self.halves.get(channel)
            if isinstance(half, ReceiverHalf):
                half.flush()
                self.end_if_complete(half, now)
        remote_lineage = self._context.remote_lineage
        while lost := remote_lineage.take_lost():
            for channel in lost:
                self._carrier_nacked(channel, now)
        orphans = remote_lineage.take_orphans()
        self.drop(orphans, now)
        for channel in orphans:
            half = self.halves.get(channel)
            if isinstance(half, SenderHalf) and half.state is SenderState.FINISHING:
                # its FINISH_SENDER may have met a sequence whose machine was gone already
                half.ask()

    def _carrier_nacked(self, channel: int, now: float) -> None:
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
                self._context.events.emit(Ended(channel, End.CONNECTION_LOST, half.counts()))
        self.halves.clear()
        self._route_back.clear()


def _carried(queue: list[BatchBuilder]) -> list[int]:
    """The channels that the messages of these batches carry."""
    return [
        attachment.channel
        for builder in queue
        for attachments in builder.attachments.values()
        for attachment in attachments
    ]

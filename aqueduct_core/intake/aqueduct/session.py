"""One Aqueduct connection of an intake: admits it, knows its channels, stores their messages."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from aqueduct_core.aqueduct.conventions.dedupe.questions import BadQuestion
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import RowNumbers
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
    BadHeader,
    without_secrets,
)
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import (
    Closed,
    Complete,
    End,
    Ended,
    Event,
    Nacked,
    Opened,
    StreamsTaken,
    Writable,
)
from aqueduct_core.aqueduct.faults import Code, LocalError
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.close_codes import CloseOrigin, how_ended
from aqueduct_core.engine.message_batch import Attachment, BatchItem, Headers, MessageBatch
from aqueduct_core.intake.aqueduct.answering import Answering, position_questions, questions
from aqueduct_core.intake.aqueduct.config import check_row_headers
from aqueduct_core.intake.aqueduct.event_recorder import EventRecorder
from aqueduct_core.intake.aqueduct.open_channels import (
    OpenChannels,
    PeerIdentity,
    SessionChannel,
    asked_source,
    attached_source,
    path_below,
)
from aqueduct_core.intake.aqueduct.receipts_sender import ReceiptsSender
from aqueduct_core.intake.sessions.channel_owners import run_number
from aqueduct_core.intake.sessions.context import REFUSED, Fault, SessionContext
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.pending import PendingBatch
from aqueduct_core.logs.json_lines import named

log = logging.getLogger(__name__)


class Role(ABC):
    """What differs between a connection that was accepted and one that was dialled."""

    @abstractmethod
    def opened(self, session: AqueductSession, headers: Headers) -> None:
        """The peer's connection headers are here: `AqueductSession.admit` or `refuse` it."""

    def received(self, channel: SessionChannel) -> None:
        """Messages of a channel came, and are to be stored."""

    def handle(self, event: Event) -> None:
        """Events of channels on which we send; and ``Complete``."""

    def recorded(self, channels: list[int]) -> None:
        """The finishes of these channels are durable, with all their messages. It may come after
        `closed`."""

    def attached(self, channel: SessionChannel) -> None:
        """One more channel flows to us, in a message of another one that does."""

    def unread(self, parent: SessionChannel, path: str, reason: str) -> None:
        """A channel in a message of ``parent`` flows to us and cannot be read: it is closed."""

    def ended(self, ended: Ended, channel: SessionChannel | None) -> None:
        """A half has ended; ``channel`` None: not one that flowed to us."""

    def closed(self, session: AqueductSession, closed: Closed) -> None:
        """The connection is over, and so is everything on it."""


class AqueductSession(Session[AqueductEngine]):
    """Reads every channel of one connection that flows towards us.

    Halves that flow away are finished at once, but for one that wants receipts. The peer learns
    that a channel has finished only after that is durable itself. Ends with ``Closed``: what
    stands in an open group is stored all the same, and the producer's repeat of it is recognised.
    """

    def __init__(self, peer: str, engine: AqueductEngine, context: SessionContext, role: Role):
        super().__init__(peer, engine, context)
        self._role = role
        self._channels = OpenChannels()
        self._receipts = ReceiptsSender(engine, context.commits, context.clock, self.kick)
        self._answering = Answering(engine, context.groups, context.owners, context.clock)
        self._recorder = EventRecorder(self, self.id, context.groups, context.wall_microseconds)
        self._admitted = False
        self._identity = PeerIdentity(self.id)
        self._fenced = False
        self._unanswered: Headers | None = None
        self._closed_for: dict[int, str] = {}

    @property
    def channels(self) -> int:
        return len(self._channels)

    @property
    def memory(self) -> int:
        return self._channels.memory + self._answering.memory

    def is_open(self, channel: int) -> bool:
        return channel in self._channels

    def handle(self, events: list[Event]) -> None:
        timestamp = self._context.wall_microseconds()
        for item in events:
            if self._fenced and isinstance(item, MessageBatch | Complete):
                continue
            if isinstance(item, MessageBatch):
                self._store(item, timestamp)
            elif isinstance(item, Opened):
                self._opened(item.headers)
            elif isinstance(item, Complete):
                self._complete(item)
            elif isinstance(item, Ended):
                self._ended(item)
            elif isinstance(item, Nacked):
                self._nacked(item)
            elif isinstance(item, Closed):
                self._close(item)
            elif isinstance(item, StreamsTaken):
                log.warning("%s: %s", self, item)
            else:
                if isinstance(item, Writable):
                    self._receipts.writable(item.channel)
                self._role.handle(item)

    def refuse(self, reason: str) -> None:
        """Close the connection because of headers of ours; the peer hears the reason."""
        self._context.counters.rejected += 1
        self._context.refusals.add(REFUSED, "%s refused: %s", self, reason)
        self._recorder.rejected(reason)
        self.shutdown(CODE_REJECTED, reason)

    def admit(self, headers: Headers, producer: str | None, run: str | None = None) -> None:
        """The connection is good; ``producer`` is the identity that its peer claims, and ``run``
        the process that it is."""
        self._context.counters.accepted += 1
        self._admitted = True
        number = None if run is None else run_number(run)
        self._identity = PeerIdentity(self.id, producer, number, without_secrets(headers))
        if producer is not None:
            self._context.owners.join(self, producer)
        self._recorder.connected(producer)
        opened = named("connection-opened", id=self.id, peer=self.peer, producer=producer)
        log.info("%s opened, producer %r", self, producer, extra=opened)
        self.kick()

    def read(
        self, number: int, name: str, start: int | None, headers: Headers = ()
    ) -> SessionChannel:
        """Channel ``number``, which no message of a peer brought, flows to us. ``start`` is the
        logical number of its reliable message 0, if the peer keeps such numbers."""
        source, resumes = asked_source(number, name, start, headers, self._identity)
        channel = self._channels[number] = SessionChannel(
            source, resumes, str(number), self._tally(source)
        )
        if self._context.owners.admits(self, source.track, source.run_number):
            self._recorder.opened(source, resumes)
        return channel

    def recorded(self, channels: list[int]) -> None:
        self._role.recorded(channels)
        super().recorded(channels)

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        if self._engine.closed is not None:
            return
        self._context.counters.not_repeatable += 1
        whose = f" of {source.producer!r}" if source.by_source else ""
        what = (
            f"channel {source.channel!r}{whose} repeats {tally.deduped} of the numbers "
            f"{tally.first} to {tally.last} that are stored: {reason}"
        )
        self._context.refusals.add(REFUSED, "%s refused: %s", self, what)
        self._recorder.unrepeatable(source, tally, reason)
        self.shutdown(CODE_NOT_REPEATABLE, what)

    def resume(self) -> None:
        if self._engine.closed is None:
            headers, self._unanswered = self._unanswered, None
            if headers is not None:
                self._role.opened(self, headers)
        super().resume()

    def carries(self, producer: str, channel: str) -> bool:
        return any(
            each.resumes and (each.source.producer, each.source.channel) == (producer, channel)
            for each in self._channels.values()
        )

    def fence(self, channel: str) -> None:
        if self._fenced:
            return
        self._fenced = True
        self._context.counters.fenced += 1
        self._context.groups.withdraw(self)
        self.shutdown(CODE_FENCED, f"another run of the producer has taken channel {channel!r}")

    def _store(self, batch: MessageBatch, timestamp: int) -> None:
        channel = self._channels.get(batch.channel)
        if channel is None:
            self._engine.consumed(batch.channel, batch.size, self._context.clock())
            self.kick()
            return
        asked = questions(batch) if batch.headers and self._may_ask(channel) else []
        asking = {each.number - batch.first for each in asked}
        numbers = None
        try:
            if channel.rows is not None and batch.reliable:
                batch, numbers = channel.rows.take(batch)
            check_row_headers(batch, self._engine.config)
        except BadHeader as error:
            self._refuse_batch(channel, batch, str(error))
            return
        events: list[Callable[[], None]] = []  # behind the message, in the log of events too
        for index, attachments in batch.attachments.items():
            for attachment in attachments if index not in asking else ():
                self._attach(channel, channel.source.number(batch, index), attachment, events)
        if self._fenced:
            return
        self._role.received(channel)
        self._context.groups.add(
            PendingBatch(
                listener=self,
                batch=batch,
                source=channel.source,
                resumes=channel.resumes,
                timestamp=timestamp,
                receipts=self._receipts,
                tally=channel.tally,
                unstored=(*position_questions(batch), *asking),
                numbers=numbers,
            )
        )
        for record in events:
            record()
        self._answer(channel, asked)

    def _may_ask(self, channel: SessionChannel) -> bool:
        """A numbered entrypoint has no messages that leave no row."""
        number = channel.source.channel_id
        named = self._identity.producer is not None
        return number == chanid.ENTRYPOINT and named and not channel.resumes

    def _answer(self, channel: SessionChannel, asked: list[BatchItem]) -> None:
        for question in asked:
            try:
                self._answering.answer(question, channel.source.producer)
            except BadQuestion as error:
                self.refuse(f"a question that cannot be answered: {error}")
                return

    def _refuse_batch(self, channel: SessionChannel, batch: MessageBatch, reason: str) -> None:
        """Nothing of it is stored or acked, and the channel is closed."""
        line = ("%s: channel %s closed: %s", self, channel.path, reason)
        self._context.refusals.add("channels refused", *line)
        now = self._context.clock()
        self._closed_for[batch.channel] = reason
        self._engine.consumed(batch.channel, batch.size, now)
        self._command(lambda: self._engine.close(batch.channel, now))

    def _attach(
        self,
        parent: SessionChannel,
        message: int,
        attachment: Attachment,
        events: list[Callable[[], None]],
    ) -> None:
        """A channel came with a message; its event is added to ``events``."""
        number, identity = attachment.channel, self._identity
        now = self._context.clock()
        if chanid.sender(number) is self._engine.side:
            answered = self._answering.answer_position(
                attachment, self, identity.producer, identity.run_number
            )
            if not (answered or self._gives_receipts(attachment)):
                self._command(lambda: self._engine.finish(number, now))
            self.kick()
            return
        path = path_below(parent.path, number)
        try:
            attached = attached_source(parent, message, attachment, path, identity)
        except BadHeader as error:
            log.debug("%s: channel %s closed: %s", self, path, error)
            events.append(partial(self._recorder.unread, number, path, parent.source, str(error)))
            self._role.unread(parent, path, str(error))
            self._command(lambda: self._engine.close(number, now))
            return
        source, resumes = attached.source, attached.resumes
        owners = self._context.owners
        if not owners.admits(self, source.track, source.run_number, attached.stood_at):
            return
        self._channels[number] = SessionChannel(
            source,
            resumes or source.by_source,
            path,
            self._tally(source),
            RowNumbers() if source.by_source else None,
        )
        events.append(partial(self._recorder.opened, source, resumes, attached.run_start))
        self._role.attached(self._channels[number])

    def _tally(self, source: ChannelSource) -> ChannelTally:
        return ChannelTally(repeats=self._answering.repeats(source))

    def _gives_receipts(self, attachment: Attachment) -> bool:
        tracker = self._receipts.begin(attachment)
        if tracker is not None and self._identity.producer is not None:
            self._context.groups.recall(tracker, self._identity.producer)
        return tracker is not None

    def _command(self, command: Callable[[], None]) -> None:
        """A half may have ended in the same burst that brought it; then nothing is left to do."""
        try:
            command()
            self.kick()
        except LocalError as error:
            log.debug("%s: %s", self, error)

    def _opened(self, headers: Headers) -> None:
        if self._context.groups.crowded:
            # not answered, the peer's messages wait at its end
            self._unanswered = headers
            self._context.groups.rest(self)
        else:
            self._role.opened(self, headers)

    def _complete(self, complete: Complete) -> None:
        channel = self._channels.get(complete.channel)
        if channel is None:
            self._command(lambda: self._engine.confirm(complete.channel, self._context.clock()))
        else:
            self._role.handle(complete)
            self._recorder.complete(channel.source, channel.resumes, channel.tally, complete.counts)

    def _nacked(self, nacked: Nacked) -> None:
        self._context.counters.nacked += nacked.stop - nacked.first
        channel = self._channels.get(nacked.channel)
        if channel is not None:
            self._recorder.nacked(channel.source, nacked.first, nacked.stop)

    def _ended(self, ended: Ended) -> None:
        channel = self._channels.end(ended.channel)
        reason = self._closed_for.pop(ended.channel, None)
        if channel is None:
            self._answering.ended(ended.channel)
            self._receipts.ended(ended.channel)
            self._role.ended(ended, None)
            return
        counters = self._context.counters
        if ended.end is End.FINISHED:
            counters.finished += 1
        elif ended.end is End.CANCELLED:
            counters.cancelled += 1
            self._withdraw(channel)
        elif ended.end is End.LOST:
            counters.lost += 1
            self._withdraw(channel)
        self._recorder.ended(channel.source, channel.tally, ended.end, ended.counts, reason)
        log.debug("%s: channel %r %s", self, channel.source.channel, ended.end.value)
        self._role.ended(ended, channel)

    def _withdraw(self, channel: SessionChannel) -> None:
        """What is not written yet of a channel that was given up is dropped (AQ-LIFE-14)."""
        rows, finish = self._context.groups.withdraw(self, channel.source)
        channel.tally.stored -= rows
        if finish:
            self._recorder.unfinished(channel.source)

    def _close(self, closed: Closed) -> None:
        self._channels.clear()
        self._receipts.close()
        self._context.groups.withdraw(self)
        self._recorder.disconnected(closed)
        fault = fault_of_peer(closed)
        self._context.note_end(self, how_ended(closed, "us"), admitted=self._admitted, fault=fault)
        if self._identity.producer is not None:
            self._context.owners.leave(self, self._identity.producer)
        self._context.ended(self)
        self._role.closed(self, closed)


def fault_of_peer(closed: Closed) -> Fault | None:
    """For what the peer did we closed the connection; None: for nothing of that."""
    if closed.by_peer or closed.origin is not CloseOrigin.APPLICATION:
        return None
    if closed.code == Code.RESOURCE_LIMIT:
        return Fault.OVER_LIMITS
    return Fault.VIOLATION if Code.NO_ERROR < closed.code < Code.INTERNAL else None

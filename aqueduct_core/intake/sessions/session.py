"""One connection of an intake: admits it, knows its channels, offers its messages for storage."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from aqueduct_core.aqueduct.conventions.dedupe.identity import floor_of, sent_by
from aqueduct_core.aqueduct.conventions.dedupe.questions import BadQuestion
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import RowNumbers, source_of
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
    BadHeader,
    read_channel,
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
    Writable,
)
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Attachment, BatchItem, Headers, MessageBatch
from aqueduct_core.intake.sessions.answering import Answering, questions
from aqueduct_core.intake.sessions.channel_owners import position_questions, run_number
from aqueduct_core.intake.sessions.context import (
    Role,
    SessionChannel,
    SessionContext,
)
from aqueduct_core.intake.sessions.event_recorder import EventRecorder, how_ended
from aqueduct_core.intake.sessions.open_channels import OpenChannels, path_below
from aqueduct_core.intake.sessions.receipts_sender import ReceiptsSender
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.settings.engine import check_row_headers
from aqueduct_core.intake.storage.arrow import RowSource
from aqueduct_core.intake.storage.pending import PendingBatch, Receipt
from aqueduct_core.transport.driver import Driver

log = logging.getLogger(__name__)


class Session:
    """Reads every channel of one connection that flows towards us.

    Halves that flow away are finished at once, but for one that wants receipts. Messages are
    acked and their credit is returned only by `durable`, and the peer learns that a channel has
    finished only after that is durable itself. Ends with ``Closed``: then nothing more is acked;
    what stands in an open group is stored all the same, and the producer's repeat of it is
    recognised.
    """

    def __init__(self, peer: str, engine: AqueductEngine, around: SessionContext, role: Role):
        self.id = around.new_id()
        self.peer = peer
        self._role = role
        self._engine = engine
        self._driver: Driver | None = None
        self._around = around
        self._channels = OpenChannels()
        self._receipting = ReceiptsSender(engine, around.commits, around.clock, self.kick)
        self._answering = Answering(engine, around.groups, around.owners, around.clock)
        self._chronicle = EventRecorder(self, self.id, around.groups, around.wall_microseconds)
        self._admitted = False
        self._headers: Headers = ()
        self._producer: str | None = None
        self._run_number: int | None = None
        self._fenced = False
        self._unanswered: Headers | None = None

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.peer}>"

    @property
    def channels(self) -> int:
        """Channels that flow to us and have not ended."""
        return len(self._channels)

    def on_events(self, driver: Driver, events: list[Event]) -> None:
        """Take in all events of one turn."""
        self._driver = driver
        driver.held = self._memory
        timestamp = self._around.wall_microseconds()
        for item in events:
            if self._fenced and isinstance(item, MessageBatch | Complete):
                continue
            if isinstance(item, MessageBatch):
                self._run(item, timestamp)
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
            else:
                if isinstance(item, Writable):
                    self._receipting.writable(item.channel)
                self._role.told(item)

    def _memory(self) -> int:
        own = self._channels.memory + self._answering.memory
        return own + self._around.groups.memory_of(self)

    def refuse(self, reason: str) -> None:
        """Close the connection because of headers of ours; the peer is told the reason."""
        self._around.counters.rejected += 1
        self._around.refusals.add("connections refused", "%s refused: %s", self, reason)
        self._chronicle.rejected(reason)
        self._engine.shutdown(CODE_REJECTED, reason, self._around.clock())
        self.kick()

    def admit(self, headers: Headers, producer: str | None, run: str | None = None) -> None:
        """The connection is good; ``producer`` is the identity that its peer claims, and ``run``
        the process that it is."""
        self._around.counters.accepted += 1
        self._admitted = True
        self._headers = without_secrets(headers)
        self._producer = producer
        self._run_number = None if run is None else run_number(run)
        if producer is not None:
            self._around.owners.join(self, producer)
        self._chronicle.connected(producer)
        log.info("%s opened, producer %r", self, producer)
        self.kick()

    def read(
        self, number: int, name: str, start: int | None, headers: Headers = ()
    ) -> SessionChannel:
        """Channel ``number``, which no message of a peer brought, flows to us. ``start`` is the
        logical number of its reliable message 0, if the peer keeps such numbers."""
        producer = self._producer or self.id
        resumes = self._producer is not None and start is not None
        source = RowSource(
            channel=name,
            producer=producer,
            connection=self.id,
            channel_id=number,
            start=start or 0,
            run_number=self._run_number if resumes else None,
            channel_headers=headers,
            connection_headers=self._headers,
        )
        channel = self._channels[number] = SessionChannel(
            source, resumes, str(number), self._tally(source)
        )
        if self._around.owners.admits(self, source.track, source.run_number):
            self._chronicle.opened(source, resumes)
        return channel

    def durable(self, receipts: list[Receipt]) -> None:
        if self._engine.closed is not None:
            return
        now = self._around.clock()
        for receipt in receipts:
            if receipt.channel in self._channels:
                self._engine.stored(
                    receipt.channel,
                    receipt.first,
                    receipt.stop,
                    reliable=receipt.reliable,
                    now=now,
                )
            self._engine.consumed(receipt.channel, receipt.size, now)
        self.kick()

    def dropped(self, receipt: Receipt) -> None:
        if self._engine.closed is None:
            now = self._around.clock()
            if not receipt.reliable:
                self._engine.refused(receipt.channel, receipt.first, receipt.stop, now)
            self._engine.consumed(receipt.channel, receipt.size, now)
            self.kick()

    def recorded(self, channels: list[int]) -> None:
        self._role.recorded(channels)
        if self._engine.closed is None:
            now = self._around.clock()
            for channel in channels:
                self._engine.confirm(channel, now)
            self.kick()

    def unrepeatable(self, source: RowSource, tally: Tally, reason: str) -> None:
        if self._engine.closed is not None:
            return
        self._around.counters.not_repeatable += 1
        whose = f" of {source.producer!r}" if source.by_source else ""
        what = (
            f"channel {source.channel!r}{whose} repeats {tally.deduped} of the numbers "
            f"{tally.first} to {tally.last} that are stored: {reason}"
        )
        self._around.refusals.add("connections refused", "%s refused: %s", self, what)
        self._chronicle.unrepeatable(source, tally, reason)
        self._engine.shutdown(CODE_NOT_REPEATABLE, what, self._around.clock())
        self.kick()

    def pause(self) -> None:
        self._engine.pause()

    def resume(self) -> None:
        if self._engine.closed is None:
            headers, self._unanswered = self._unanswered, None
            if headers is not None:
                self._role.opened(self, headers)
            self._engine.resume(self._around.clock())
            self.kick()

    def shutdown(self, code: int, reason: str) -> None:
        """End the connection; code 0 when nothing of it is left to do here."""
        if self._engine.closed is None:
            self._engine.shutdown(code, reason, self._around.clock())
            self.kick()

    def carries(self, producer: str, channel: str) -> bool:
        return any(
            each.resumes and (each.source.producer, each.source.channel) == (producer, channel)
            for each in self._channels.values()
        )

    def fence(self, channel: str) -> None:
        if self._fenced:
            return
        self._fenced = True
        self._around.counters.fenced += 1
        self._around.groups.withdraw(self)
        self.shutdown(CODE_FENCED, f"another run of the producer has taken channel {channel!r}")

    @property
    def sent(self) -> bool:
        """Nothing is on its way to the peer."""
        return self._engine.closed is not None or self._driver is None or self._driver.unsent == 0

    def kick(self) -> None:
        """Have the driver carry out what the engine was told."""
        if self._driver is not None:
            self._driver.kick()

    def _run(self, run: MessageBatch, timestamp: int) -> None:
        channel = self._channels.get(run.channel)
        if channel is None:
            self._engine.consumed(run.channel, run.size, self._around.clock())
            self.kick()
            return
        asked = questions(run) if run.headers and self._may_ask(channel) else []
        asking = {each.number - run.first for each in asked}
        numbers = None
        try:
            if channel.rows is not None and run.reliable:
                run, numbers = channel.rows.take(run)
            check_row_headers(run, self._engine.config)
        except BadHeader as error:
            self._refuse_run(channel, run, str(error))
            return
        told: list[Callable[[], None]] = []  # behind the message, in the log of events too
        for index, attachments in run.attachments.items():
            for attachment in attachments if index not in asking else ():
                self._attach(channel, channel.source.number(run, index), attachment, told)
        if self._fenced:
            return
        self._role.received(channel)
        self._around.groups.offer(
            PendingBatch(
                self,
                run,
                channel.source,
                channel.resumes,
                timestamp,
                self._receipting,
                channel.tally,
                (*position_questions(run), *asking),
                numbers,
            )
        )
        for tell in told:
            tell()
        self._answer(channel, asked)

    def _may_ask(self, channel: SessionChannel) -> bool:
        """A numbered entrypoint has no messages that leave no row."""
        number = channel.source.channel_id
        return number == chanid.ENTRYPOINT and self._producer is not None and not channel.resumes

    def _answer(self, channel: SessionChannel, asked: list[BatchItem]) -> None:
        for question in asked:
            try:
                self._answering.answer(question, channel.source.producer)
            except BadQuestion as error:
                self.refuse(f"a question that cannot be answered: {error}")
                return

    def _refuse_run(self, channel: SessionChannel, run: MessageBatch, reason: str) -> None:
        """Nothing of it is stored or acked, and the channel is closed."""
        told = ("%s: channel %s closed: %s", self, channel.path, reason)
        self._around.refusals.add("channels refused", *told)
        now = self._around.clock()
        self._engine.consumed(run.channel, run.size, now)
        self._command(lambda: self._engine.close(run.channel, now))

    def _attach(
        self,
        parent: SessionChannel,
        message: int,
        attachment: Attachment,
        told: list[Callable[[], None]],
    ) -> None:
        number = attachment.channel
        now = self._around.clock()
        if chanid.sender(number) is self._engine.side:
            answered = self._answering.tells_position(
                attachment, self, self._producer, self._run_number
            )
            if not (answered or self._gives_receipts(attachment)):
                self._command(lambda: self._engine.finish(number, now))
            self.kick()
            return
        path = path_below(parent.path, number)
        try:
            claims = read_channel(attachment.headers)
            producer = sent_by(parent.source.producer, attachment.headers)
            floor = floor_of(attachment.headers, claims.sequence_start or 0)
            by_source = source_of(attachment.headers) is not None and self._producer is not None
        except BadHeader as error:
            log.debug("%s: channel %s closed: %s", self, path, error)
            told.append(partial(self._chronicle.unread, number, path, parent.source, str(error)))
            self._role.unread(parent, path, str(error))
            self._command(lambda: self._engine.close(number, now))
            return
        resumes = self._producer is not None and claims.sequence_start is not None
        source = RowSource(
            channel=claims.name or path,
            producer=producer,
            connection=self.id,
            channel_id=number,
            start=claims.sequence_start or 0,
            floor=floor,
            run_start=claims.run_start or 0,
            run_number=self._run_number if resumes else None,
            by_source=by_source,
            parent_channel_id=parent.source.channel_id,
            parent_message=message,
            channel_headers=attachment.headers,
            connection_headers=self._headers,
        )
        if not self._around.owners.admits(self, source.track, source.run_number, claims.stood_at):
            return
        self._channels[number] = SessionChannel(
            source,
            resumes or by_source,
            path,
            self._tally(source),
            RowNumbers() if by_source else None,
        )
        told.append(partial(self._chronicle.opened, source, resumes, claims.run_start))
        self._role.attached(self._channels[number])

    def _tally(self, source: RowSource) -> Tally:
        return Tally(repeats=self._answering.repeats(source))

    def _gives_receipts(self, attachment: Attachment) -> bool:
        book = self._receipting.begin(attachment)
        if book is not None and self._producer is not None:
            self._around.groups.recall(book, self._producer)
        return book is not None

    def _command(self, command: Callable[[], None]) -> None:
        """A half may have ended in the same burst that brought it; then nothing is left to do."""
        try:
            command()
            self.kick()
        except LocalError as error:
            log.debug("%s: %s", self, error)

    def _opened(self, headers: Headers) -> None:
        if self._around.groups.crowded:
            # not answered, the peer's messages wait at its end
            self._unanswered = headers
            self._around.groups.rest(self)
        else:
            self._role.opened(self, headers)

    def _complete(self, complete: Complete) -> None:
        channel = self._channels.get(complete.channel)
        if channel is None:
            self._command(lambda: self._engine.confirm(complete.channel, self._around.clock()))
        else:
            self._role.told(complete)
            self._chronicle.complete(
                channel.source, channel.resumes, channel.tally, complete.counts
            )

    def _nacked(self, nacked: Nacked) -> None:
        self._around.counters.nacked += nacked.stop - nacked.first
        channel = self._channels.get(nacked.channel)
        if channel is not None:
            self._chronicle.nacked(channel.source, nacked.first, nacked.stop)

    def _ended(self, ended: Ended) -> None:
        channel = self._channels.end(ended.channel)
        if channel is None:
            self._answering.ended(ended.channel)
            self._receipting.ended(ended.channel)
            self._role.ended(ended, None)
            return
        counters = self._around.counters
        if ended.end is End.FINISHED:
            counters.finished += 1
        elif ended.end is End.CANCELLED:
            counters.cancelled += 1
            self._withdraw(channel)
        elif ended.end is End.LOST:
            counters.lost += 1
            self._withdraw(channel)
        self._chronicle.ended(channel.source, channel.tally, ended.end, ended.counts)
        log.debug("%s: channel %r %s", self, channel.source.channel, ended.end.value)
        self._role.ended(ended, channel)

    def _withdraw(self, channel: SessionChannel) -> None:
        """What is not written yet of a channel that was given up is dropped (AQ-LIFE-14)."""
        rows, finish = self._around.groups.withdraw(self, channel.source)
        channel.tally.stored -= rows
        if finish:
            self._chronicle.unfinished(channel.source)

    def _close(self, closed: Closed) -> None:
        self._channels.clear()
        self._receipting.close()
        self._around.groups.withdraw(self)
        self._chronicle.disconnected(closed)
        self._around.note_close(self, closed, how_ended(closed, "us"), admitted=self._admitted)
        if self._producer is not None:
            self._around.owners.leave(self, self._producer)
        self._around.ended(self)
        self._role.closed(self, closed)

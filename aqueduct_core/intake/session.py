"""One connection of an intake: admits it, knows its channels, offers its messages for storage."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from aqueduct_core.aqueduct.connection import Connection
from aqueduct_core.aqueduct.conventions import (
    CODE_REJECTED,
    BadHeader,
    read_channel,
    read_connection,
    without_secrets,
)
from aqueduct_core.aqueduct.faults import LocalError
from aqueduct_core.aqueduct.news import (
    Attachment,
    Closed,
    End,
    Ended,
    Headers,
    Nacked,
    News,
    Opened,
    Run,
)
from aqueduct_core.intake.groups import GroupCommit, Offer, Receipt
from aqueduct_core.intake.records import Source, receives
from aqueduct_core.transport.driver import Driver

log = logging.getLogger(__name__)

SERVER_HEADERS: Headers = ()
"""We answer with no headers of our own: nothing of the intake is the producer's business."""

ENTRYPOINT_NAME = "0"

MAX_PATH = 256
"""Characters. The path of a channel deeper in the tree begins with an ellipsis, so that a deep
tree costs each channel the same; the number at its end is unique on the connection."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that flows to us. ``path`` is its place in the tree: ``0``, ``0/8``, …"""

    source: Source
    resumes: bool
    path: str


@dataclass(slots=True)
class SessionCounters:
    """Over all sessions of the process."""

    accepted: int = 0
    rejected: int = 0
    finished: int = 0
    cancelled: int = 0
    lost: int = 0
    nacked: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of an intake share."""

    groups: GroupCommit
    refusal: Callable[[str | None], str | None]
    clock: Callable[[], float]
    wall_microseconds: Callable[[], int]
    ended: Callable[[Session], None]
    counters: SessionCounters = field(default_factory=SessionCounters)


class Session:
    """Reads every channel of one connection that flows towards us.

    Halves that flow away are finished at once. Messages are acked and their credit is returned
    only by `durable`. Ends with the news ``Closed``: then nothing more is acked; what stands in
    an open group is stored all the same, and the producer's repeat of it is recognised.
    """

    def __init__(self, peer: str, engine: Connection, around: Surroundings) -> None:
        self.id = secrets.token_hex(4)
        self.peer = peer
        self._engine = engine
        self._driver: Driver | None = None
        self._around = around
        self._channels: dict[int, Channel] = {}
        self._headers: Headers = ()
        self._producer: str | None = None

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.peer}>"

    @property
    def channels(self) -> int:
        """Channels that flow to us and have not ended."""
        return len(self._channels)

    def on_news(self, driver: Driver, news: list[News]) -> None:
        """Take in all news of one turn."""
        self._driver = driver
        timestamp = self._around.wall_microseconds()
        for item in news:
            if isinstance(item, Run):
                self._run(item, timestamp)
            elif isinstance(item, Opened):
                self._opened(item)
            elif isinstance(item, Ended):
                self._ended(item)
            elif isinstance(item, Nacked):
                self._around.counters.nacked += item.stop - item.first
            elif isinstance(item, Closed):
                self._close(item)

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
        self._kick()

    def dropped(self, receipt: Receipt) -> None:
        if self._engine.closed is None:
            now = self._around.clock()
            if not receipt.reliable:
                self._engine.refused(receipt.channel, receipt.first, receipt.stop, now)
            self._engine.consumed(receipt.channel, receipt.size, now)
            self._kick()

    def shutdown(self, code: int, reason: str) -> None:
        """End the connection; code 0 when nothing of it is left to do here."""
        if self._engine.closed is None:
            self._engine.shutdown(code, reason, self._around.clock())
            self._kick()

    @property
    def sent(self) -> bool:
        """Nothing is on its way to the peer any more."""
        return self._engine.closed is not None or self._driver is None or self._driver.unsent == 0

    def _kick(self) -> None:
        if self._driver is not None:
            self._driver.kick()

    def _opened(self, opened: Opened) -> None:
        now = self._around.clock()
        try:
            claims = read_connection(opened.headers)
            refusal = self._around.refusal(claims.token)
        except BadHeader as error:
            refusal = str(error)
        if refusal is not None:
            self._around.counters.rejected += 1
            log.warning("%s refused: %s", self, refusal)
            self._engine.shutdown(CODE_REJECTED, refusal, now)
            self._kick()
            return
        self._around.counters.accepted += 1
        self._headers = without_secrets(opened.headers)
        self._producer = claims.producer
        self._engine.accept(SERVER_HEADERS, now)
        self._kick()
        self._channels[Connection.ENTRYPOINT] = Channel(
            Source(
                channel=ENTRYPOINT_NAME,
                producer=self._producer or self.id,
                connection=self.id,
                channel_id=Connection.ENTRYPOINT,
                start=claims.sequence_start or 0,
                connection_headers=self._headers,
            ),
            self._producer is not None and claims.sequence_start is not None,
            ENTRYPOINT_NAME,
        )
        log.info("%s opened, producer %r", self, self._producer)

    def _run(self, run: Run, timestamp: int) -> None:
        channel = self._channels.get(run.channel)
        if channel is None:
            self._engine.consumed(run.channel, run.size, self._around.clock())
            self._kick()
            return
        for index, attachments in run.attachments.items():
            for attachment in attachments:
                self._attach(channel, channel.source.number(run, index), attachment)
        self._around.groups.offer(Offer(self, run, channel.source, channel.resumes, timestamp))

    def _attach(self, parent: Channel, message: int, attachment: Attachment) -> None:
        number = attachment.channel
        now = self._around.clock()
        if not receives(number):
            self._command(lambda: self._engine.finish(number, now))
            return
        path = f"{parent.path}/{number}"
        if len(path) > MAX_PATH:
            path = f"…/{number}"
        try:
            claims = read_channel(attachment.headers)
        except BadHeader as error:
            log.debug("%s: channel %s closed: %s", self, path, error)
            self._command(lambda: self._engine.close(number, now))
            return
        source = Source(
            channel=claims.name or path,
            producer=parent.source.producer,
            connection=self.id,
            channel_id=number,
            start=claims.sequence_start or 0,
            parent_channel_id=parent.source.channel_id,
            parent_message=message,
            channel_headers=attachment.headers,
            connection_headers=self._headers,
        )
        resumes = self._producer is not None and claims.sequence_start is not None
        self._channels[number] = Channel(source, resumes, path)

    def _command(self, command: Callable[[], None]) -> None:
        """A half may have ended in the same burst that brought it; then nothing is left to do."""
        try:
            command()
            self._kick()
        except LocalError as error:
            log.debug("%s: %s", self, error)

    def _ended(self, ended: Ended) -> None:
        channel = self._channels.pop(ended.channel, None)
        if channel is None:
            return
        counters = self._around.counters
        if ended.end is End.FINISHED:
            counters.finished += 1
        elif ended.end is End.CANCELLED:
            counters.cancelled += 1
            self._around.groups.withdraw(self, ended.channel)
        elif ended.end is End.LOST:
            counters.lost += 1
            self._around.groups.withdraw(self, ended.channel)
        log.debug("%s: channel %r %s", self, channel.source.channel, ended.end.value)

    def _close(self, closed: Closed) -> None:
        self._channels.clear()
        self._around.groups.withdraw(self)
        self._around.ended(self)
        log.info(
            "%s closed by %s, code %d: %r",
            self,
            "peer" if closed.by_peer else "us",
            closed.code,
            closed.reason[:200],
        )

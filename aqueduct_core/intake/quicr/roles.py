"""The two kinds of connection: publishers post to us, or we request media of an endpoint."""

from __future__ import annotations

import logging

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.quicr.requests import MediaRequests
from aqueduct_core.intake.quicr.session import MediaSession, OpenMedia
from aqueduct_core.intake.quicr.settings import QuicrIntake
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import ConnectionEvents
from aqueduct_core.intake.sessions.wakeup import CallLater
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import Notified, Posted, QuicrEvent
from aqueduct_core.quicr.media.fragment import MAX_OBJECT
from aqueduct_core.quicr.urls import url_bytes, url_text

log = logging.getLogger(__name__)


def engine_config(settings: QuicrIntake) -> QuicrConfig:
    """Of either kind. An intake sends no media, so there is nothing to give up."""
    return QuicrConfig(dropping=None, max_object=min(settings.max_message_bytes, MAX_OBJECT))


class PublisherSession(MediaSession):
    """Takes every media that is posted (Q17, Q18)."""

    def __init__(
        self,
        peer: str,
        engine: QuicrEngine,
        context: SessionContext,
        settings: QuicrIntake,
        *,
        later: CallLater,
    ) -> None:
        super().__init__(
            peer,
            engine,
            context,
            settings.media,
            max_object=engine_config(settings).max_object,
            later=later,
        )
        self._datagrams = settings.media.delivery == "datagram"

    def answer(self, event: Posted | Notified, now: float) -> None:
        if isinstance(event, Posted):
            datagram = event.datagram and self._datagrams
            self.open(event.stream, event.url, datagram=datagram)
            self._engine.accept(event.stream, datagram=datagram, now=now)
            self.kick()


class ReaderSession(MediaSession):
    """Asks for media until each is durable to its end: those named, and those under a prefix.

    What is open when the connection is lost is asked for on the next one, from its beginning, as
    the protocol has no other way (Q16).
    """

    def __init__(
        self,
        peer: str,
        engine: QuicrEngine,
        context: SessionContext,
        settings: QuicrIntake,
        requests: MediaRequests,
        report: ConnectionEvents,
        *,
        later: CallLater,
    ) -> None:
        super().__init__(
            peer,
            engine,
            context,
            settings.media,
            max_object=engine_config(settings).max_object,
            later=later,
        )
        self.progress = False
        """Objects came on this connection."""
        self._datagrams = settings.media.delivery == "datagram"
        self._requests = requests
        self._report = report
        self._ready = False
        self._full = False

    @property
    def idle(self) -> bool:
        """Nothing is wanted any more."""
        return self._requests.settled

    def leave(self) -> None:
        """Each sender was told already that we have its media."""

    @property
    def left(self) -> bool:
        """Each of them has ended it, too."""
        return not self._media

    @property
    def next_at(self) -> float | None:
        return self._requests.next_at if self._ready and self._engine.stream_room != 0 else None

    def woken(self, now: float) -> None:
        self._ask()

    def handle(self, events: list[QuicrEvent]) -> None:
        super().handle(events)
        self._ask()
        lost = next((event for event in events if isinstance(event, LinkLost)), None)
        if lost is not None:
            self._requests.lost(self._context.clock())
            self._report.closed(lost)
        else:
            self._report.changed()

    def ready(self, now: float) -> None:
        self._ready = True
        self._report.opened()
        if self._requests.prefix is not None:
            self._engine.subscribe(self._requests.prefix, now)

    def answer(self, event: Posted | Notified, now: float) -> None:
        if isinstance(event, Notified):
            self._requests.add(url_text(event.url))

    def progressed(self, opened: OpenMedia) -> None:
        self.progress = True
        self._requests.received(opened.source.channel)

    def completed(self, opened: OpenMedia) -> None:
        self._requests.recorded(opened.source.channel)
        self._report.changed()

    def cancelled(self, opened: OpenMedia, now: float) -> None:
        reason = "its sender gave it up before its final point"
        self._requests.cancelled(opened.source.channel, now, reason)

    def too_large(self, opened: OpenMedia, reason: str, now: float) -> None:
        self._requests.too_large(opened.source.channel, reason, now)

    def _ask(self) -> None:
        if not self._ready or self._engine.closed is not None:
            return
        now = self._context.clock()
        requests, room = self._requests, self._engine.stream_room
        asked = requests.take(now, room)
        if len(asked) == room and requests.waiting and not self._full:
            self._full = True
            log.warning(
                "%s lets an intake ask for no more than %d media at once: others (now %d) are "
                "asked for when some of these have ended",
                self,
                requests.open,
                requests.waiting,
            )
        for name in asked:
            url = url_bytes(name)
            stream = self._engine.request(url, datagram=self._datagrams, now=now)
            self.open(stream, url, datagram=self._datagrams)
        if asked:
            self.kick()

"""The two kinds of line: peers dial us and open channels, or we dial and open them."""

from __future__ import annotations

from dataclasses import replace

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.remote import ConnectionEvents
from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.intake.sessions.wakeup import CallLater
from aqueduct_core.intake.telehash.event_recorder import EventBudget
from aqueduct_core.intake.telehash.session import LineSession
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.intake.telehash.taken_channels import TakenChannel
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import TelehashEvent


def engine_config(settings: TelehashIntake, *, dials: bool = False) -> TelehashConfig:
    """Of either kind. An intake sends the opening packets of its own channels, and acks.

    Over plain UDP a stranger is sent no more than came from it: there who is dialled has to show
    that it receives, and who dials fills its openings up, so that they can be answered.
    """
    config = TelehashConfig(
        receive_window=settings.channels.window,
        channel_timeout=settings.channels.channel_timeout,
    )
    if settings.carrier == "quic":
        return config
    if dials:
        return replace(config, pad_opening=config.max_packet)
    return replace(config, admit_at_once=False)


class OpeningSession(LineSession):
    """Opens a channel of each type and takes what the peer sends on it, until its end is durable.

    What is open when the line is lost is opened again on the next one, where everything begins
    anew (P3); what comes again is known by its marks, where it has some.
    """

    def __init__(
        self,
        peer: str,
        engine: TelehashEngine,
        context: SessionContext,
        settings: TelehashIntake,
        requests: EndpointRequests,
        report: ConnectionEvents,
        *,
        budget: EventBudget,
        later: CallLater,
    ) -> None:
        super().__init__(peer, engine, context, settings, budget=budget, later=later)
        self.progress = False
        """Packets came on this line."""
        self._requests = requests
        self._report = report
        self._ready = False
        connect = settings.connect
        self._by_ack = self.tracker is not None and connect is not None and not connect.bounded
        """A channel has finished when its end is acked, and not as soon as it is durable. A read
        that ends commits nothing before."""
        self._finishing: dict[int, str] = {}

    @property
    def idle(self) -> bool:
        """Nothing is wanted any more."""
        return self._requests.settled

    def leave(self) -> None:
        """Each peer learns by our acks that we have all of its channel."""

    @property
    def left(self) -> bool:
        """They have been sent: no channel waits for one."""
        return not self.channels

    def ready(self, now: float) -> None:
        self._ready = True
        self._report.opened()
        self._open()

    def handle(self, events: list[TelehashEvent]) -> None:
        super().handle(events)
        lost = next((event for event in events if isinstance(event, LinkLost)), None)
        if lost is not None:
            self._requests.lost(self._context.clock())
            self._report.closed(lost)
        else:
            self._open()
            self._report.changed()

    def received(self, channel: TakenChannel) -> None:
        self.progress = True
        if channel.ours:
            self._requests.received(channel.source.channel)

    def gave_up(self, channel: TakenChannel, reason: str) -> None:
        if channel.ours:
            self._requests.cancelled(channel.source.channel, self._context.clock(), reason)

    def completed(self, channel: TakenChannel) -> None:
        if channel.ours and self._by_ack:
            self._requests.recorded(channel.source.channel)

    def finishing(self, channel: TakenChannel) -> None:
        if channel.ours and not self._by_ack:
            self._finishing[channel.source.channel_id] = channel.source.channel

    def recorded(self, channels: list[int]) -> None:
        super().recorded(channels)
        for number in channels:
            kind = self._finishing.pop(number, None)
            if kind is not None:
                self._requests.recorded(kind)
        self._report.changed()

    def woken(self, now: float) -> None:
        self._open()

    def _open(self) -> None:
        """What is to be opened now; and look again when there is more."""
        if not self._ready or self._engine.closed is not None:
            return
        now = self._context.clock()
        for kind in self._requests.take(now):
            number = self._engine.open(kind, reliable=True, now=now)
            self.add_channel(number, kind, reliable=True, ours=True)
        self._wakeup.by(self._requests.next_at)
        self.kick()

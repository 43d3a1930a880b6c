"""An application at one end: sends at random, stores and consumes late, drops what it gets."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable

from aqueduct_core.aqueduct.config import AckMode, Mode
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach
from aqueduct_core.aqueduct.events import (
    Closed,
    Delivered,
    Dropped,
    End,
    Ended,
    Ignored,
    Nacked,
    Numbered,
    Opened,
    Rerouted,
)
from aqueduct_core.aqueduct.faults import LocalError, NotAllowed, TooLarge, TooMany
from aqueduct_core.aqueduct.flow import channel_header
from aqueduct_core.aqueduct.wire.chanid import Side, oneshot
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.simulation.ledger import Broken, Ledger, hold
from tests.simulation.network import Agenda
from tests.simulation.scenario import Fault, Scenario


class App:
    """``sending`` and ``receiving`` are the halves that it may still use; ``known`` all it had."""

    def __init__(
        self,
        side: Side,
        engine: AqueductEngine,
        scenario: Scenario,
        draw: random.Random,
        agenda: Agenda,
        ledger: Ledger,
        clock: Callable[[], float],
    ) -> None:
        self.side = side
        self.engine = engine
        self._scenario = scenario
        self._draw = draw
        self._agenda = agenda
        self._ledger = ledger
        self._clock = clock
        self._stores = engine.config.ack_mode is AckMode.ON_STORED
        self._winding_down = False
        self._serial = 0
        self._modes: dict[int, Mode] = {}
        self._waiting: dict[int, deque[tuple[bytes, list[Attach]]]] = defaultdict(deque)
        self.known = {0}
        self.sending = [0] if side is Side.CLIENT else []
        self.receiving = [0] if side is Side.SERVER else []
        self.closed: Closed | None = None

    # --- events ---------------------------------------------------------------------------

    def read(self) -> bool:
        """Take in all events; whether there was any."""
        items = self.engine.events()
        revealed: set[int] = set()
        for event in items:
            if self.closed is not None:
                raise Broken(f"{event} after {self.closed}")
            if isinstance(event, MessageBatch):
                self._batch(event, revealed)
            elif isinstance(event, Delivered):
                self._ledger.settled(self.side, event)
            elif isinstance(event, Ended):
                if not self._scenario.jitter and self._scenario.fault is not Fault.DOUBLE:
                    # declared when it has left, on a path that keeps order
                    hold(not event.counts.late, "datagram messages came late:", event)
                at_reveal = event.channel in revealed
                self._ledger.ended(self.side, event, self._clock(), at_reveal=at_reveal)
                waiting = self._waiting.pop(event.channel, None)
                if waiting and event.end is not End.CONNECTION_LOST:
                    raise Broken(f"{event}, and {len(waiting)} messages still wait")
                if event.channel in self.sending:
                    self.sending.remove(event.channel)
                else:
                    self.receiving.remove(event.channel)
            elif isinstance(event, Nacked):
                self._ledger.nacked(self.side, event)
            elif isinstance(event, Numbered):
                self._numbered(event)
            elif isinstance(event, Dropped):
                for _ in range(event.messages):
                    self._waiting[event.channel].popleft()
            elif isinstance(event, Rerouted):
                self._ledger.rerouted(self.side, event)
            elif isinstance(event, Ignored):
                raise Broken(f"{self.side.name}: {event}")
            elif isinstance(event, Closed):
                self.closed = event
            elif isinstance(event, Opened):
                self._opened()
        return bool(items)

    def _opened(self) -> None:
        late = self._scenario.accept_late
        if self.side is Side.SERVER and late:
            self._agenda.add(self._clock() + late, self._accept)

    def _accept(self) -> None:
        if self.engine.closed is None:
            self.engine.accept(((b"late", b"1"),), self._clock())

    def _batch(self, batch: MessageBatch, revealed: set[int]) -> None:
        unwanted: list[Attachment] = []
        for single, message in self._ledger.delivered(self.side, batch):
            for attachment in single.attachments:
                self._ledger.revealed(self.side, attachment.channel, message)
                revealed.add(attachment.channel)
                self._learn(attachment.channel)
                if self._draw.random() < self._scenario.drops:
                    unwanted.append(attachment)
        lag = self._scenario.lag
        if lag:
            now = self._clock()
            self._agenda.add(now + self._draw.expovariate(1 / lag), self._store, batch)
            self._agenda.add(now + self._draw.expovariate(1 / lag), self._consume, batch)
        else:
            self._store(batch)
            self._consume(batch)
        if unwanted:
            if lag:
                self._agenda.add(
                    self._clock() + self._draw.expovariate(1 / lag), self._drop, unwanted
                )
            else:
                self._drop(unwanted)

    def _learn(self, channel: int) -> None:
        self.known.add(channel)
        if self._ledger.channels[channel].sender_side is self.side:
            self.sending.append(channel)
            if self._winding_down:
                self._agenda.add(self._clock(), self._wind_down_sender, channel)
        else:
            self.receiving.append(channel)

    def _store(self, batch: MessageBatch) -> None:
        if not self._stores or self.engine.closed is not None:
            return
        now = self._clock()
        messages = [
            self._ledger.message(batch.channel, batch.reliable, number)
            for number in range(batch.first, batch.first + batch.count)
        ]
        alive = self.engine.half_open(batch.channel)
        if not batch.reliable and self._draw.random() < self._scenario.refuses:
            self.engine.refused(batch.channel, batch.first, batch.first + batch.count, now)
            for message in messages:
                message.refused = alive
            return
        self.engine.stored(
            batch.channel, batch.first, batch.first + batch.count, reliable=batch.reliable, now=now
        )
        for message in messages:
            message.stored = alive

    def _consume(self, batch: MessageBatch) -> None:
        self.engine.consumed(batch.channel, batch.size, self._clock())

    def _drop(self, attachments: list[Attachment]) -> None:
        if self.engine.closed is None:
            self.engine.drop(attachments, self._clock())

    # --- operations ---------------------------------------------------------------------

    def operate(self, name: str) -> None:
        """One operation; one that the engine refuses has no effect."""
        if self.engine.closed is not None:
            return
        now = self._clock()
        if name == "pause":
            return
        if name == "drop":
            if self.receiving:
                self._drop([Attachment(self._draw.choice(self.receiving), ())])
            return
        channels = self.receiving if name == "close" else self.sending
        if not channels:
            return
        channel = self._draw.choice(channels)
        try:
            if name == "close":
                self.engine.close(channel, now)
            elif name == "finish":
                self.engine.finish(channel, now)
            elif name == "cancel":
                self.engine.cancel(channel, now)
            elif name == "many":
                self._send_many(channel, now)
            else:
                self._send(channel, now, attach=name == "attach")
        except (NotAllowed, TooMany, TooLarge):
            pass

    def _payload(self, mode: Mode) -> bytes:
        draw = self._draw
        self._serial += 1
        serial = self._serial.to_bytes(4, "big")
        roll = draw.random()
        if roll < self._scenario.large:
            return serial * draw.choice((300, 600, 5000))
        if roll > 0.95:
            return b""
        return serial + bytes(draw.choice((0, 1, 30, 200)))

    def _mode(self, channel: int) -> Mode:
        mode = self._modes.get(channel)
        if mode is None:
            mode = self._modes[channel] = self._draw.choice(self._scenario.modes)
        return mode

    def _send(self, channel: int, now: float, *, attach: bool) -> None:
        draw = self._draw
        mode = self._mode(channel)
        payload = self._payload(mode)
        kinds = []
        if attach:
            for _ in range(draw.choice((1, 1, 1, 2, 4))):
                kinds.append(self._kind())
        sent = self.engine.send(channel, payload, now=now, mode=mode, attach=kinds)
        if sent.number is None:
            self._waiting[channel].append((payload, kinds))
        else:
            self._left(channel, sent.reliable, sent.number, payload, kinds, sent.attached)

    def _kind(self) -> Attach:
        draw = self._draw
        sends = draw.random() < 0.6
        headers = ()
        if not sends and self.engine.config.flow_per_channel is not None and draw.random() < 0.2:
            headers = (channel_header(draw.choice((0, 50, 5000))),)
        return Attach(sends, oneshot=draw.random() < 0.2, headers=headers)

    def _left(
        self,
        channel: int,
        reliable: bool,
        number: int,
        payload: bytes,
        kinds: list[Attach],
        attached: tuple[int, ...],
    ) -> None:
        """A message of ours has its number, and its channels have theirs."""
        children = [(child, kind.sends) for child, kind in zip(attached, kinds, strict=True)]
        mode = self._modes[channel]
        self._ledger.sent(self.side, channel, reliable, number, payload, children, mode)
        for child in attached:
            self._learn(child)

    def _numbered(self, events: Numbered) -> None:
        for number in range(events.first, events.stop):
            payload, kinds = self._waiting[events.channel].popleft()
            self._left(events.channel, events.reliable, number, payload, kinds, events.attached)

    def _send_many(self, channel: int, now: float) -> None:
        mode = self._mode(channel)
        count = self._draw.choice((1, 2, 20)) if not oneshot(channel) else 1
        payloads = [self._payload(mode) for _ in range(count)]
        reliable = mode is not Mode.UNRELIABLE or self.engine.datagram_room(channel) < 0
        first, stop = self.engine.send_many(channel, payloads, now=now, mode=mode)
        for number, payload in zip(range(first, stop), payloads, strict=False):
            self._ledger.sent(self.side, channel, reliable, number, payload, (), mode)

    # --- the end ------------------------------------------------------------------------

    def wind_down(self) -> None:
        """No more messages: every sender finishes or cancels, also one that comes later."""
        self._winding_down = True
        for channel in list(self.sending):
            self._wind_down_sender(channel)

    def _wind_down_sender(self, channel: int) -> None:
        if self.engine.closed is not None or not self.engine.can_send(channel):
            return
        # a finish that waits for a message that the link threw away would wait for ever
        gentle = self._scenario.fault is not Fault.STOP_MESSAGES
        if gentle and self._draw.random() < 0.8:
            self.engine.finish(channel, self._clock())
        else:
            self.engine.cancel(channel, self._clock())

    def close_all(self) -> None:
        """Close every receiver that is left."""
        for channel in list(self.receiving):
            try:
                self.engine.close(channel, self._clock())
            except LocalError:
                pass

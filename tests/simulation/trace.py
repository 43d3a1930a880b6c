"""What happens in a simulation, line by line, to read how a promise came to be broken."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Event
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.engine.actions import Action, Consumed, SendDatagram, WriteStream
from aqueduct_core.engine.inputs import Datagram, Input, StreamBytes

_MOST_BYTES = 60


class TracedConnection(AqueductEngine):
    """A connection that prints its inputs, actions, events and commands with the time."""

    def handle(self, input: Input, now: float) -> None:
        self._print(now, "←", input)
        super().handle(input, now)

    def tick(self, now: float) -> None:
        self._print(now, "tick", self.wake_at)
        super().tick(now)

    def actions(self) -> list[Action]:
        actions = super().actions()
        for action in actions:
            if not isinstance(action, Consumed):
                self._print(self._now, "→", action)
        return actions

    def events(self) -> list[Event]:
        items = super().events()
        for item in items:
            self._print(self._now, "event", item)
        return items

    def send(self, channel: int, payload: bytes, **how: object):  # type: ignore[no-untyped-def,override]
        sent = super().send(channel, payload, **how)  # type: ignore[arg-type]
        self._print(self._now, "send", channel, len(payload), "bytes:", sent)
        return sent

    def finish(self, channel: int, now: float) -> None:
        self._print(now, "finish", channel)
        super().finish(channel, now)

    def cancel(self, channel: int, now: float) -> None:
        self._print(now, "cancel", channel)
        super().cancel(channel, now)

    def close(self, channel: int, now: float) -> None:
        self._print(now, "close", channel)
        super().close(channel, now)

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        self._print(now, "stored", channel, first, stop, "reliable" if reliable else "datagrams")
        super().stored(channel, first, stop, reliable=reliable, now=now)

    def drop(self, attachments, now: float) -> None:  # type: ignore[no-untyped-def]
        attachments = list(attachments)
        self._print(now, "drop", attachments)
        super().drop(attachments, now)

    def _print(self, now: float, what: str, *rest: object) -> None:
        column = "" if self.side is Side.CLIENT else " " * 20
        print(f"{now:10.4f} {column}{self.side.name[0]} {what}", *map(_text, rest))


def _text(item: object) -> str:
    match item:
        case StreamBytes(stream_id, data, end) | WriteStream(stream_id, data, end):
            return f"{stream_id}: {_hex(data)}{' FIN' if end else ''}"
        case Datagram(data):
            return f"d: {_hex(data)}"
        case SendDatagram(data, _):
            return f"d: {_hex(data)}"
    return str(item)


def _hex(data: bytes) -> str:
    text = data.hex().replace(VERSION.hex(), "V")
    return text if len(text) <= 2 * _MOST_BYTES else f"{text[: 2 * _MOST_BYTES]}… {len(data)} bytes"

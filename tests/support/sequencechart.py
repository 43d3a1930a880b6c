"""Pictures of what two engines say to each other: the engines run, and their frames are drawn.

The frames are read by the second decoder, so the pictures owe nothing to our codec.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.inputs import Datagram, Input, StreamBytes, StreamReset
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support import reference_decoder
from tests.support.drawing import FAULT, PALE, Drawing
from tests.support.pair import LinkShape, Pair

LATENCY = 0.02
LANES = {Side.CLIENT: 110, Side.SERVER: 750}
TOP, STEP, SLOPE = 95, 46, 18


@dataclass(frozen=True)
class Arrow:
    """One write: when it left, from whom, on what, and the frames that it completed."""

    at: float
    sender: Side
    where: str
    frames: tuple[str, ...]
    lost: bool = False


class Recording(Pair):
    """A pair that writes down what it carries; ``drop`` holds datagrams (from 0) to lose."""

    def __init__(self, drop: frozenset[int] = frozenset()) -> None:
        super().__init__(shape=LinkShape(latency=LATENCY))
        self.arrows: list[Arrow] = []
        self._drop = drop
        self._datagrams = 0
        self._streams: dict[tuple[Side, int], bytes] = {}

    def _post(self, to: Side, input: Input, when: float) -> None:
        sender = to.other
        lost = False
        if isinstance(input, StreamBytes):
            key = sender, input.stream_id
            before = self._streams.get(key, b"")
            self._streams[key] = before + input.data
            shown = _read(before + input.data, sender)[len(_read(before, sender)) :]
            frames = (*shown, "FIN") if input.end else shown
            self._note(sender, f"stream {input.stream_id}", frames)
        elif isinstance(input, StreamReset):
            self._note(sender, f"stream {input.stream_id}", ("RESET",))
        elif isinstance(input, Datagram):
            lost = self._datagrams in self._drop
            self._datagrams += 1
            self._note(sender, "datagram", _read(input.data, sender, datagram=True), lost)
        if not lost:
            super()._post(to, input, when)

    def _note(self, sender: Side, where: str, frames: tuple[str, ...], lost: bool = False) -> None:
        self.arrows.append(Arrow(self.now, sender, where, frames, lost))

    def clean(self) -> Recording:
        """Forget what was drawn so far."""
        self.arrows.clear()
        return self


def handshake() -> str:
    pair = Recording()
    pair.client.send(0, b"hi", now=0.0)
    pair.settle()
    return _draw(pair.arrows, "Handshake, with the first message sent before any answer")


def life() -> str:
    pair = Recording()
    pair.connect()
    pair.clean()
    (channel,) = pair.client.send(
        0, b"take this", now=pair.now, attach=[Attach(sends=True)]
    ).attached
    pair.client.send_many(channel, [b"a", b"b"], now=pair.now)
    pair.run(0.1)
    pair.client.finish(channel, pair.now)
    pair.settle()
    return _draw(pair.arrows, f"The life of channel {channel}: attached, used, finished")


def loss() -> str:
    pair = Recording(drop=frozenset({1}))
    pair.connect()
    pair.clean()
    for payload in (b"a", b"b", b"c"):
        pair.client.send(0, payload, mode=Mode.UNRELIABLE, now=pair.now)
    pair.run(2.0)
    return _draw(pair.arrows, "Unreliable messages, the second one lost on the way")


def lost_channel() -> str:
    pair = Recording(drop=frozenset({0}))
    pair.connect()
    pair.clean()
    (channel,) = pair.client.send(
        0, b"carrier", mode=Mode.UNRELIABLE, now=pair.now, attach=[Attach(sends=True)]
    ).attached
    pair.client.send(channel, b"too early", now=pair.now)
    pair.run(3.0)
    told = pair.events(Side.SERVER)
    assert not [event for event in told if isinstance(event, MessageBatch)], "it must not be seen"
    return _draw(pair.arrows, f"Channel {channel} is lost in transit: its carrier never arrived")


def _draw(arrows: list[Arrow], title: str) -> str:
    height = TOP + STEP * len(arrows) + 30
    drawing = Drawing(860, height, title)
    drawing.text(430, 28, title, size=16, bold=True)
    for side, x in LANES.items():
        drawing.text(x, 58, side.name.lower(), size=14, bold=True)
        drawing.line(x, 68, x, height - 15)
    for i, arrow in enumerate(sorted(arrows, key=lambda each: each.at)):
        y = TOP + STEP * i
        x1, x2 = LANES[arrow.sender], LANES[arrow.sender.other]
        label = " · ".join(arrow.frames) or "ROUTE_TO only"
        if arrow.lost:
            x3 = x1 + (x2 - x1) * 0.6
            drawing.arrow(f"M{x1} {y} L{x3:g} {y + SLOPE * 0.6:g}", colour=FAULT, dashed=True)
            drawing.cross(x3, y + SLOPE * 0.6)
        else:
            drawing.arrow(f"M{x1} {y} L{x2} {y + SLOPE}")
        drawing.text(430, y - 2, f"{arrow.where}: {label}", size=12)
        side, anchor = (-8, "end") if arrow.sender is Side.CLIENT else (8, "start")
        drawing.text(
            x1 + side, y + 4, f"{arrow.at * 1000:.0f} ms", size=11, colour=PALE, anchor=anchor
        )
    return drawing.svg()


def _read(data: bytes, sender: Side, *, datagram: bool = False) -> tuple[str, ...]:
    reading = reference_decoder.read(
        data, sender=sender.value, datagram=datagram, version_required=False, ended=False
    )
    return tuple(map(_name, reading.frames))


def _name(frame: tuple[Any, ...]) -> str:
    name, *parts = frame
    words = reference_decoder.frame_name(name)
    match words:
        case "MESSAGE":
            number, _, attachments, payload = parts
            carries = "".join(f" + channel {channel}" for channel, _ in attachments)
            return f"MESSAGE {number} “{payload.decode()}”{carries}"
        case "ACK_RELIABLE":
            return "ACK_RELIABLE " + ", ".join(
                str(first) if stop == first + 1 else f"{first}–{stop - 1}"
                for first, stop in parts[0]
            )
        case "ACK_NACK_UNRELIABLE":
            kinds = ("ack", "nack")
            return "ACK_NACK_UNRELIABLE " + ", ".join(
                f"{kinds[i % 2]} {length}" for i, length in enumerate(parts[0])
            )
        case _:
            return " ".join([words, *(str(part) for part in parts if isinstance(part, int))])

"""Frame sequences by the thousand: valid ones, nearly valid ones, and mutations of both.

Bytes are built here from scratch, not by the project's encoders, so that nothing under test
makes its own test data. One seed gives one sequence of cases.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.support.reference_decoder import VERSION_FRAME, Limits

TIGHT = Limits(
    payload=40, headers=24, pairs=3, attachments_region=48, attachments=3, ranges=14
)  # fmt: skip
_EDGES = (
    0, 1, 2, 15, 16, 127, 128, 129, 255, 256, 16383, 16384, 64_000, 64_001, 1 << 16, 1 << 20,
    16_000_000, 16_000_001, 1 << 32, (1 << 62) - (1 << 20), (1 << 62) - 1, 1 << 62,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 70,
)  # fmt: skip
_CHANNELS = (0, 0, 0, 8, 8, 2, 1, 3, 4, 6, 5, 7, 16, 128, 47, (1 << 63) - 8, 1 << 63)
_FRAGMENTS = (
    VERSION_FRAME, b"\x01", b"\x02\x00", b"\x03\x00", b"\x03\x08", b"\x0b", b"\x0d", b"\x00",
    b"\x80", b"\x80\x00", b"\xff" * 9, b"\xff" * 9 + b"\x01", b"\x80" * 10 + b"\x01",
    b"\x04\x00\x00\x00\x02hi",
)  # fmt: skip


class Case(NamedTuple):
    """``early``: the reader has not sent ACK_VERSION. ``gated``: it does not know the sender's
    connection headers until all pieces are in. The pieces of a datagram are one."""

    pieces: tuple[bytes, ...]
    sender: int
    datagram: bool
    early: bool
    gated: bool
    ended: bool
    limits: Limits


def varint(value: int, padding: int = 0) -> bytes:
    """Groups of 7 bits; ``padding`` groups of zeros make it longer than the shortest form."""
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127)
    groups += [0] * padding
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


class SequenceGenerator:
    """``case()`` gives the next one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last = b""

    def case(self) -> Case:
        chance = self._random.random
        sender = int(chance() < 0.5)
        datagram = chance() < 0.15
        early = chance() < 0.3
        data = self._sequence(sender, datagram, early)
        if chance() < 0.55:
            data = self._mutated(data)
        self._last = data
        if datagram:
            pieces: tuple[bytes, ...] = (data,)
        else:
            pieces = self._cut(data)
        return Case(
            pieces=pieces,
            sender=sender,
            datagram=datagram,
            early=early,
            gated=not datagram and chance() < 0.1,
            ended=datagram or chance() < 0.5,
            limits=TIGHT if chance() < 0.3 else Limits(),
        )

    # --- values -------------------------------------------------------------------------

    def _number(self) -> bytes:
        chance = self._random.random()
        if chance < 0.75:
            return varint(int(self._random.random() * 300))
        if chance < 0.97:
            return varint(self._random.choice(_EDGES))
        return varint(int(self._random.random() * 300), padding=1 + int(chance * 1000) % 9)

    def _bytes(self, most: int = 12) -> bytes:
        return self._random.randbytes(int(self._random.random() ** 2 * most))

    def _counted(self, data: bytes) -> bytes:
        """A length and its bytes; at times the length lies."""
        if self._random.random() < 0.03:
            return self._number() + data
        return varint(len(data)) + data

    def _headers(self) -> bytes:
        if self._random.random() < 0.6:
            return b"\x00"
        count = int(self._random.random() * 5)
        if self._random.random() < 0.01:
            count = 254 + int(self._random.random() * 5)
        strings = [self._counted(self._bytes(8)) for _ in range(2 * count)]
        if strings and self._random.random() < 0.05:
            strings.pop()
        return self._counted(b"".join(strings))

    def _attachments(self, sender: int) -> bytes:
        if self._random.random() < 0.6:
            return b"\x00"
        out = b""
        for _ in range(1 + int(self._random.random() * 4)):
            if self._random.random() < 0.9:
                channel = varint(8 * int(1 + self._random.random() * 40) | sender)
            else:
                channel = varint(self._random.choice(_CHANNELS))
            out += channel + self._headers()
        return self._counted(out)

    def _ranges(self) -> bytes:
        count = int(self._random.random() * 7)
        values = [1 + int(self._random.random() ** 3 * 400) for _ in range(count)]
        if values and self._random.random() < 0.4:
            values[0] = 0
        if values and self._random.random() < 0.1:
            values[int(self._random.random() * count)] = self._random.choice(_EDGES)
        return self._counted(b"".join(map(varint, values)))

    # --- frames -------------------------------------------------------------------------

    def _plain_run(self) -> bytes:
        """Messages with consecutive numbers and nothing attached, mostly of one length."""
        rand = self._random.random
        first = self._random.choice((0, 0, 1, 100, 120, 16380, (1 << 62) - (1 << 20) - 3))
        count = 1 + int(rand() ** 2 * 40)
        size = int(rand() ** 3 * 30)
        uneven = rand() < 0.3
        body = self._random.randbytes(count * (size + 4))
        out = []
        for i in range(count):
            length = body[i] % (size + 4) if uneven else size
            payload = body[i * size : i * size + length]
            out.append(b"\x04" + varint(first + i) + b"\x00\x00" + varint(len(payload)) + payload)
        return b"".join(out)

    def _message(self, sender: int) -> bytes:
        payload = self._bytes(60)
        return b"".join((
            b"\x04", self._number(), self._headers(), self._attachments(sender),
            self._counted(payload),
        ))  # fmt: skip

    def _preamble_frame(self) -> bytes:
        chance = self._random.random()
        if chance < 0.4:
            return VERSION_FRAME
        return b"\x01" if chance < 0.6 else b"\x02" + self._headers()

    def _channel_frame(self, sender: int, sends: bool) -> bytes:
        """One that this side may send on the routed channel; at times one that it may not."""
        if self._random.random() < 0.03:
            sends = not sends
        kind = self._random.random()
        if kind < 0.05:
            return b"\x0b"
        if sends:
            if kind < 0.3:
                return self._plain_run()
            if kind < 0.75:
                return self._message(sender)
            if kind < 0.85:
                return b"\x05" + self._number()
            return b"\x06" + self._number() if kind < 0.95 else b"\x07"
        if kind < 0.4:
            return b"\x08" + self._ranges()
        if kind < 0.8:
            return b"\x09" + self._ranges()
        return b"\x0a" if kind < 0.87 else b"\x0c" + self._number()

    def _sequence(self, sender: int, datagram: bool, early: bool) -> bytes:
        rand = self._random.random
        out = []
        if rand() < (0.95 if early else 0.2):
            out.append(VERSION_FRAME)
        if rand() < (0.03 if datagram else 0.3):
            out += [self._preamble_frame() for _ in range(1 + int(rand() * 3))]
        if rand() < 0.9:
            channel = self._random.choice(_CHANNELS)
            out.append(b"\x03" + varint(channel))
            sends = channel >> 1 & 1 == sender
            if datagram:
                out += [self._message(sender) for _ in range(1 + int(rand() * 1.3))]
            else:
                out += [self._channel_frame(sender, sends) for _ in range(int(rand() * 6))]
        return b"".join(out)

    # --- mutations and cuts -------------------------------------------------------------

    def _mutated(self, data: bytes) -> bytes:
        for _ in range(1 + int(self._random.random() ** 3 * 4)):
            at = int(self._random.random() * (len(data) + 1))
            upto = at + int(self._random.random() ** 2 * 12)
            kind = int(self._random.random() * 8)
            if kind == 0:
                data = data[:at]
            elif kind == 1:
                data = data[:at] + data[upto:]
            elif kind == 2:
                data = data[:at] + data[at:upto] + data[at:]
            elif kind == 3:
                data = data[:at] + self._random.randbytes(1) + data[at + 1 :]
            elif kind == 4:
                data = data[:at] + self._random.choice(_FRAGMENTS) + data[at:]
            elif kind == 5:
                data = data[:at] + self._number() + data[at + 1 :]
            elif kind == 6 and at < len(data):
                flipped = data[at] ^ 1 << int(self._random.random() * 8)
                data = data[:at] + bytes([flipped]) + data[at + 1 :]
            else:
                data = data[:at] + self._last[at:]
        return data

    def _cut(self, data: bytes) -> tuple[bytes, ...]:
        chance = self._random.random()
        if chance < 0.3 or len(data) < 2:
            return (data,) if data else ()
        if chance < 0.4 and len(data) < 120:
            return tuple(data[i : i + 1] for i in range(len(data)))
        count = 1 + int(self._random.random() * 4)
        cuts = sorted({1 + int(self._random.random() * (len(data) - 1)) for _ in range(count)})
        return tuple(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True))

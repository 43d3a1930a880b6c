"""What a stranger may send: ``python -m tests.hostile.attacks NAME HOST PORT SECONDS RATE``.

Each attack yields after every piece that it has sent; the runner keeps it to RATE bytes a second,
and prints how many bytes went out in all, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator

from tests.hostile.raw import RawClient, stream, varint

Attack = Callable[[str, int, random.Random], Iterator[RawClient]]
ATTACKS: dict[str, Attack] = {}

PING = b"\x01"
FULL = 1_150
"""Bytes of frames that fill a packet."""


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


@attack
def garbage_initials(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Long headers of Initials, and noise behind them."""
    raw = RawClient(host, port)
    while True:
        head = b"\xc3\x00\x00\x00\x01\x08" + rng.randbytes(8) + b"\x08" + rng.randbytes(8)
        raw.datagram(head + b"\x00\x44\x9e" + rng.randbytes(1_182))
        yield raw


@attack
def valid_initials(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """First flights of clients that never go on, as fast as they can be replayed."""
    flights = [RawClient(host, port).hello() for _ in range(300)]
    raw = RawClient(host, port)
    while True:
        raw.datagram(rng.choice(flights))
        yield raw


@attack
def short_headers(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Packets of connections that nobody has."""
    raw = RawClient(host, port)
    while True:
        raw.datagram(b"\x40" + rng.randbytes(60))
        yield raw


@attack
def holes(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Single bytes of a stream with holes between them, in any order."""
    raw = RawClient(host, port)
    raw.shake()
    stream_id = 2
    while True:
        offsets = rng.sample(range(1, 200_000), 100)
        raw.packet(*(stream(stream_id, 2 * offset, b"x") for offset in offsets))
        yield raw


@attack
def one_hole_each(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """One byte behind a hole on as many streams as there may be."""
    raw = RawClient(host, port)
    raw.shake()
    number = 0
    while True:
        raw.packet(*(stream(4 * (number + n) % 262_000 + 2, 1, b"x") for n in range(100)))
        number += 100
        yield raw


@attack
def skipped_streams(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """A byte on the highest stream, which opens all below it; then connect anew."""
    while True:
        raw = RawClient(host, port)
        raw.shake()
        raw.packet(stream(4 * 65_535 + 2, 0, b"x"))
        yield raw


@attack
def no_acks(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """The smallest packets that are answered, of a client that acknowledges none."""
    raw = RawClient(host, port)
    raw.shake()
    while True:
        raw.packet(PING)
        yield raw


@attack
def ack_floods(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Packets full of acknowledgements of the same."""
    raw = RawClient(host, port)
    raw.shake()
    ack = b"\x02" + varint(0) + varint(0) + varint(0) + varint(0)
    while True:
        raw.packet(ack * (FULL // len(ack)))
        yield raw


@attack
def half_frames(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """A message that never ends, byte by byte, on a new connection each time it is closed."""
    raw = RawClient(host, port)
    raw.shake()
    offset = 0
    while True:
        raw.packet(stream(2, offset, os.urandom(1)))
        offset += 1
        yield raw


@attack
def path_challenges(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Each of them asks for an answer."""
    raw = RawClient(host, port)
    raw.shake()
    while True:
        raw.packet(*(b"\x1a" + rng.randbytes(8) for _ in range(FULL // 9)))
        yield raw


@attack
def new_connection_ids(host: str, port: int, rng: random.Random) -> Iterator[RawClient]:
    """Ids that retire each other, which have to be answered one by one."""
    raw = RawClient(host, port)
    raw.shake()
    number = 8
    while True:
        frame = b"\x18" + varint(number) + varint(number) + b"\x08" + rng.randbytes(24)
        raw.packet(frame)
        number += 1
        yield raw


def main(name: str, host: str, port: str, seconds: str, rate: str) -> None:
    sent = 0
    seen: dict[int, int] = {}
    begun = time.monotonic()
    for raw in ATTACKS[name](host, int(port), random.Random(1)):
        sent += raw.sent - seen.get(id(raw), 0)
        seen = {id(raw): raw.sent}
        if time.monotonic() - begun > float(seconds):
            break
        ahead = sent / float(rate) - (time.monotonic() - begun)
        if ahead > 0.002:
            time.sleep(ahead)
    print(json.dumps({"bytes": sent}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Attacks of clients with a handshake behind them, by frames of QUIC."""

from __future__ import annotations

from collections.abc import Iterator

from aioquic.tls import Epoch

from tests.hostile.attack import FULL, LARGE, Stage, Target, attack
from tests.hostile.raw import RawClient, ack, crypto, noise, stream, varint

PING = b"\x01"
SOMETIMES = 50
"""Packets between two looks at what has come."""


def flood(target: Target, *packets: bytes) -> Iterator[None]:
    """The same packets again and again, on a new connection each time that one is closed."""
    raw = target.shaken()
    while True:
        for _ in range(SOMETIMES):
            for packet in packets:
                raw.packet(packet)
            yield
        raw.look()


def full(frame: bytes) -> bytes:
    return frame * (FULL // len(frame))


@attack(Stage.CONNECTED)
def silent_handshakes(target: Target) -> Iterator[None]:
    """Slow loris: complete handshakes, and not a word of Aqueduct."""
    clients = []
    for _ in range(300):
        clients.append(target.shaken())
        yield


@attack(Stage.CONNECTED)
def handshakes(target: Target) -> Iterator[None]:
    """One handshake after the other, each closed at once."""
    while True:
        raw = target.shaken()
        raw.packet(b"\x1d" + varint(0) + varint(0))
        raw.close()
        yield


@attack(Stage.CONNECTED)
def holes(target: Target) -> Iterator[None]:
    """Single bytes of a stream with holes between them, in any order."""
    while True:
        raw = target.shaken()
        for _ in range(SOMETIMES):
            offsets = target.rng.sample(range(1, 200_000), 100)
            raw.packet(*(stream(2, 2 * offset, b"x") for offset in offsets))
            yield
        raw.close()


@attack(Stage.CONNECTED)
def one_hole_each(target: Target) -> Iterator[None]:
    """One byte behind a hole on as many streams as there may be, and on more."""
    raw = target.shaken()
    number = 0
    while True:
        raw.packet(*(stream(4 * (number + n) % 262_000 + 2, 1, b"x") for n in range(100)))
        number += 100
        yield
        if not number % 5_000:
            raw.look()


@attack(Stage.CONNECTED)
def reordered(target: Target) -> Iterator[None]:
    """A stream from its end to its beginning, packet by packet, and the same interleaved."""
    raw = target.shaken()
    size = 200_000
    while True:
        for start in range(size - FULL, 0, -FULL):
            raw.packet(stream(2, start, noise(FULL - 20)))
            raw.packet(*(stream(6, start + 12 * n, noise(6)) for n in range(90)))
            yield
        raw.look()


@attack(Stage.CONNECTED)
def shuffled_packets(target: Target) -> Iterator[None]:
    """Packet numbers in any order with holes between them: ranges of what came."""
    raw = target.shaken()
    number = 100
    while True:
        numbers = [number + 2 * n for n in range(200)]
        target.rng.shuffle(numbers)
        for each in numbers:
            raw.packet(PING, number=each)
            yield
        number += 400
        raw.look()


@attack(Stage.CONNECTED)
def skipped_streams(target: Target) -> Iterator[None]:
    """A byte on the highest stream, which opens all below it; then connect anew."""
    while True:
        raw = target.shaken()
        raw.packet(stream(4 * 127 + 2, 0, b"x"))
        raw.close()
        yield


@attack(Stage.CONNECTED)
def streams_beyond_the_limit(target: Target) -> Iterator[None]:
    """A stream above those that were granted."""
    yield from violation(target, stream(4 * 200_000 + 2, 0, b"x"))


@attack(Stage.CONNECTED)
def bytes_beyond_the_stream_limit(target: Target) -> Iterator[None]:
    yield from violation(target, stream(2, 1 << 40, b"x"))


@attack(Stage.CONNECTED)
def bytes_beyond_the_connection_limit(target: Target) -> Iterator[None]:
    """The last byte of each window, until all of them are more than the connection's."""
    last = (4 << 20) - 1
    yield from violation(target, *(stream(4 * n + 2, last, b"x") for n in range(9)))


@attack(Stage.CONNECTED)
def acks_of_what_was_never_sent(target: Target) -> Iterator[None]:
    """Optimistic acks, for all that will ever be sent, to be sent faster."""
    yield from violation(target, ack(1_000_000, first=999_000), PING)


def violation(target: Target, *frames: bytes) -> Iterator[None]:
    """A packet for which the connection is closed, and the same on the next one; each of them
    goes on sending when it is closed already."""
    while True:
        raw = target.shaken()
        for _ in range(20):
            raw.packet(*frames)
            yield
        raw.close()


@attack(Stage.CONNECTED)
def unknown_frames(target: Target) -> Iterator[None]:
    yield from violation(target, b"\x40\xff" + noise(1_000))


@attack(Stage.CONNECTED)
def no_acks(target: Target) -> Iterator[None]:
    """The smallest packets that are answered, of a client that acknowledges none."""
    raw = target.shaken()
    while True:
        raw.packet(PING)
        yield


@attack(Stage.CONNECTED)
def pings(target: Target) -> Iterator[None]:
    """A thousand in each packet."""
    yield from flood(target, full(PING))


@attack(Stage.CONNECTED)
def ack_floods(target: Target) -> Iterator[None]:
    """Packets full of acknowledgements of the same."""
    while True:
        raw = target.shaken()
        frames = full(ack(raw.received))
        for _ in range(SOMETIMES):
            raw.packet(frames)
            yield
        raw.close()


@attack(Stage.CONNECTED)
def ack_ranges(target: Target) -> Iterator[None]:
    """Acknowledgements of as many ranges as are taken, of packets that were sent."""
    raw = target.shaken()
    while raw.received < 600:
        raw.packet(PING)
        yield
        raw.look()
    while True:
        for _ in range(SOMETIMES):
            raw.packet(ack(raw.received, *((0, 0),) * 250))
            yield
        raw.look()


@attack(Stage.CONNECTED)
def path_challenges(target: Target) -> Iterator[None]:
    """Each of them asks for an answer."""
    raw = target.shaken()
    while True:
        for _ in range(SOMETIMES):
            raw.packet(*(b"\x1a" + noise(8) for _ in range(FULL // 9)))
            yield
        raw.look()


@attack(Stage.CONNECTED)
def migrations(target: Target) -> Iterator[None]:
    """Each packet from another port: a path to be told apart, challenged and forgotten."""
    raw = target.shaken()
    while True:
        raw.move()
        raw.packet(PING, b"\x1a" + noise(8))
        yield


@attack(Stage.CONNECTED)
def new_connection_ids(target: Target) -> Iterator[None]:
    """Ids that retire each other, which have to be answered one by one."""
    raw = target.shaken()
    number = 8
    while True:
        for _ in range(SOMETIMES):
            raw.packet(new_id(number))
            number += 1
            yield
        raw.look()


def new_id(number: int) -> bytes:
    return b"\x18" + varint(number) + varint(number) + b"\x08" + noise(24)


@attack(Stage.CONNECTED)
def many_new_connection_ids(target: Target) -> Iterator[None]:
    """The same, as many as a packet holds."""
    raw = target.shaken()
    number = 8
    while True:
        for _ in range(SOMETIMES):
            raw.packet(*(new_id(number + n) for n in range(40)))
            number += 40
            yield
        raw.look()


@attack(Stage.CONNECTED)
def retired_connection_ids(target: Target) -> Iterator[None]:
    """Ids of the server given back as soon as they come, so that it makes others."""
    raw = target.shaken()
    number = 1
    while True:
        for _ in range(SOMETIMES):
            raw.packet(b"\x19" + varint(number))
            number += 1
            yield
        raw.look()


@attack(Stage.CONNECTED)
def blocked_floods(target: Target) -> Iterator[None]:
    """Complaints that nothing may be sent: of the connection, of streams, of their number."""
    yield from flood(
        target, full(b"\x14\x00"), full(b"\x15\x02\x00"), full(b"\x16\x00"), full(b"\x17\x00")
    )


@attack(Stage.CONNECTED)
def limit_floods(target: Target) -> Iterator[None]:
    """Leave to send, the same again and again."""
    yield from flood(target, full(b"\x10\x40\x40"), full(b"\x13\x40\x40"), full(b"\x11\x03\x00"))


@attack(Stage.CONNECTED)
def resets(target: Target) -> Iterator[None]:
    """RESET_STREAM for each stream that may be opened, and STOP_SENDING for those of the server."""
    raw = target.shaken()
    while True:
        for first in range(0, 128, 32):
            numbers = range(first, first + 32)
            raw.packet(*(b"\x04" + varint(4 * n + 2) + b"\0\0" for n in numbers))
            raw.packet(*(b"\x05" + varint(4 * n + 3) + b"\0" for n in numbers))
            yield
        raw.look()


@attack(Stage.CONNECTED)
def empty_streams(target: Target) -> Iterator[None]:
    """Frames of streams with nothing in them."""
    yield from flood(target, full(stream(2, 0, b"")))


@attack(Stage.CONNECTED)
def repeated_bytes(target: Target) -> Iterator[None]:
    """The first byte of a stream, for ever."""
    yield from flood(target, full(stream(2, 0, b"\xef")))


@attack(Stage.CONNECTED)
def empty_datagrams(target: Target) -> Iterator[None]:
    yield from flood(target, full(b"\x31\0"))


@attack(Stage.CONNECTED)
def crypto_floods(target: Target) -> Iterator[None]:
    """Messages of TLS behind the handshake: in pieces with holes, and the same once more."""
    raw = target.shaken()
    while True:
        for start in range(1, 20_000, 400):
            raw.packet(*(crypto(start + 2 * n, b"\0") for n in range(200)))
            yield
        raw.look()


@attack(Stage.CONNECTED)
def key_updates(target: Target) -> Iterator[None]:
    """New keys with each packet."""
    raw = target.shaken()
    while True:
        for _ in range(SOMETIMES):
            raw.quic._cryptos[Epoch.ONE_RTT]._update_key("attack")
            raw.packet(PING)
            yield
        raw.look()


@attack(Stage.CONNECTED)
def key_phases_without_keys(target: Target) -> Iterator[None]:
    """The bit for new keys in packets that have none; the server has to try each of them."""
    raw = target.shaken()
    while True:
        header = b"\x44" + raw.quic._peer_cid.cid
        raw.datagram(header + noise(40))
        yield


def packets_left_open(raw: RawClient) -> None:
    """Streams of one byte, as many as a stranger may open, none of which ever goes on."""
    for first in range(0, 128, 32):
        raw.packet(*(stream(4 * n + 2, 0, b"\xef") for n in range(first, first + 32)))


@attack(Stage.CONNECTED)
def streams_left_open(target: Target) -> Iterator[None]:
    """Slow loris: streams opened and left, on one connection after the other."""
    clients = []
    for _ in range(200):
        raw = target.shaken()
        clients.append(raw)
        packets_left_open(raw)
        yield


@attack(Stage.CONNECTED)
def large_acks(target: Target) -> Iterator[None]:
    """Acknowledgements of as many ranges as the largest datagram holds."""
    raw = target.shaken()
    while True:
        raw.packet(ack(60_000, *((0, 0),) * (LARGE // 2 - 10)))
        yield

"""Attacks in the frames of Aqueduct, most of them by clients that are admitted as producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.primitives.cursor import encode_varbytes
from aqueduct_core.primitives.varint import encode
from tests.hostile.attack import FULL, LARGE, Stage, Target, attack
from tests.hostile.raw import RawClient, noise, stream, varint

SOMETIMES = 50
"""Packets between two looks at what has come."""
FIRST = 6
"""The client's first stream behind the handshake."""
ENTRYPOINT = 0


def route(channel: int) -> bytes:
    return b"\x03" + encode(channel)


def message(
    number: int, payload: bytes = b"", *, headers: bytes = b"\0", attached: bytes = b""
) -> bytes:
    parts = (b"\x04", encode(number), headers, encode_varbytes(attached), encode_varbytes(payload))
    return b"".join(parts)


def header_data(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    return encode_varbytes(
        b"".join(encode_varbytes(key) + encode_varbytes(value) for key, value in pairs)
    )


def channel(index: int) -> int:
    """The id of a channel that the client made, and on which it sends."""
    return index << 3


def attaching(indexes: Iterable[int]) -> bytes:
    return b"".join(encode(channel(index)) + b"\0" for index in indexes)


class Sequence:
    """One stream, written from its beginning in packets that are full."""

    def __init__(self, raw: RawClient, stream_id: int, offset: int = 0) -> None:
        self._raw, self._id, self._offset = raw, stream_id, offset

    def write(self, data: bytes) -> Iterator[None]:
        for start in range(0, len(data), FULL):
            piece = data[start : start + FULL]
            self._raw.packet(stream(self._id, self._offset, piece))
            self._offset += len(piece)
            yield


def pieces(raw: RawClient, first: int, sequences: Iterable[bytes], *, end: bool) -> Iterator[None]:
    """Each sequence on a stream of its own, as many in a packet as fit."""
    frames: list[bytes] = []
    size = number = 0
    for number, sequence in enumerate(sequences):
        frame = stream(first + 4 * number, 0, sequence, end=end)
        if size + len(frame) > FULL:
            raw.packet(*frames)
            yield
            frames, size = [], 0
        frames.append(frame)
        size += len(frame)
    raw.packet(*frames)
    yield


# Before the connection headers


@attack(Stage.CONNECTED)
def headers_byte_by_byte(target: Target) -> Iterator[None]:
    """Slow loris: the first stream, a byte in each packet."""
    raw = target.shaken()
    first = VERSION + b"\x02" + encode(60_000) + noise(2_000)
    for offset in range(len(first)):
        raw.packet(stream(2, offset, first[offset : offset + 1]))
        yield


@attack(Stage.CONNECTED)
def huge_headers(target: Target) -> Iterator[None]:
    """Connection headers as large as they may be but for the last byte, and on to the next one."""
    clients = []
    while True:
        raw = target.shaken()
        clients.append(raw)
        if len(clients) > 64:
            clients.pop(0).close()
        yield from Sequence(raw, 2).write(VERSION + b"\x02" + encode(60_000) + noise(59_999))


@attack(Stage.CONNECTED)
def many_headers(target: Target) -> Iterator[None]:
    """Connection headers of more pairs than are allowed, each of them empty."""
    while True:
        raw = target.shaken()
        raw.greet(header_data([(b"", b"")] * 550))
        raw.close()
        yield


@attack(Stage.CONNECTED)
def messages_before_headers(target: Target) -> Iterator[None]:
    """All that is held for who has not said who it is, and more."""
    while True:
        raw = target.shaken()
        start = VERSION + route(ENTRYPOINT) + b"\x04\0\0\0" + encode(2 << 20)
        yield from Sequence(raw, 2).write(start + noise(1 << 17))
        raw.close()


@attack(Stage.CONNECTED)
def first_streams_without_version(target: Target) -> Iterator[None]:
    while True:
        raw = target.shaken()
        raw.packet(stream(2, 0, b"\x02\0"))
        raw.close()
        yield


# Frames that never end


@attack(Stage.ADMITTED)
def half_frames(target: Target) -> Iterator[None]:
    """A message that never ends, byte by byte."""
    raw = target.entered()
    start = route(ENTRYPOINT) + b"\x04\0\0\0" + encode(10_000_000)
    raw.packet(stream(FIRST, 0, start))
    offset = len(start)
    while True:
        for _ in range(20 * SOMETIMES):
            raw.packet(stream(FIRST, offset, b"x"))
            offset += 1
            yield
        raw.look()


@attack(Stage.ADMITTED)
def half_frames_on_many_streams(target: Target) -> Iterator[None]:
    """A message on each stream that has all but its last byte."""
    while True:
        raw = target.entered()
        head = route(ENTRYPOINT) + b"\x04"
        halves = (head + encode(n) + b"\0\0" + encode(200) + noise(199) for n in range(2_000))
        yield from pieces(raw, FIRST, halves, end=False)
        raw.close()


@attack(Stage.ADMITTED)
def messages_behind_one_byte(target: Target) -> Iterator[None]:
    """All messages that a stream may hold but for its first byte, which then frees them at once."""
    while True:
        raw = target.entered()
        window = raw.quic._remote_max_stream_data_uni
        messages = b"".join(message(number) for number in range(window // 5))
        sequence = (route(ENTRYPOINT) + messages)[:window]
        yield from Sequence(raw, FIRST, 1).write(sequence[1:])
        raw.packet(stream(FIRST, 0, sequence[:1]))
        yield
        raw.look()


@attack(Stage.ADMITTED)
def lengths_without_end(target: Target) -> Iterator[None]:
    """Lengths of 2^63 and just below the limits, of headers, attachments, payloads and ranges."""
    long = encode((1 << 63) - 1)
    begun = route(ENTRYPOINT) + b"\x04\0"
    for_each = [begun + long, begun + b"\0" + long, begun + b"\0\0" + long]
    for_each += [route(ENTRYPOINT) + b"\x08" + long, b"\x02" + long]
    while True:
        for sequence in for_each:
            raw = target.entered()
            for _ in range(20):
                raw.packet(stream(FIRST, 0, sequence))
                yield
            raw.close()


@attack(Stage.ADMITTED)
def streams_left_open_after_admission(target: Target) -> Iterator[None]:
    """Slow loris: as many streams as a producer may have, of which each has a byte and no more."""
    raw = target.entered()
    yield from pieces(raw, FIRST, (b"\x03" for _ in range(60_000)), end=False)


# Headers and attachments


@attack(Stage.ADMITTED)
def messages_of_headers(target: Target) -> Iterator[None]:
    """Messages with as many headers as they may have, on one stream."""
    raw = target.entered()
    sequence = Sequence(raw, FIRST)
    headers = header_data((b"k%d" % n, b"v") for n in range(250))
    yield from sequence.write(route(ENTRYPOINT))
    number = 0
    while True:
        yield from sequence.write(message(number, headers=headers))
        number += 1
        if not number % SOMETIMES:
            raw.look()


@attack(Stage.ADMITTED)
def attachments_in_breadth(target: Target) -> Iterator[None]:
    """As many channels with each message as it may have, and none of them used."""
    raw = target.entered()
    sequence = Sequence(raw, FIRST)
    yield from sequence.write(route(ENTRYPOINT))
    for number in range(240):
        indexes = range(1 + 250 * number, 251 + 250 * number)
        yield from sequence.write(message(number, attached=attaching(indexes)))


@attack(Stage.ADMITTED)
def attachments_in_depth(target: Target) -> Iterator[None]:
    """Each channel attached to a message of the one before it."""
    raw = target.entered()

    def chain() -> Iterator[bytes]:
        yield route(ENTRYPOINT) + message(0, attached=attaching([1]))
        for index in range(1, 20_000):
            yield route(channel(index)) + message(0, attached=attaching([index + 1]))

    yield from pieces(raw, FIRST, chain(), end=True)


@attack(Stage.ADMITTED)
def attachments_backwards(target: Target) -> Iterator[None]:
    """The same from its end: no channel is known when something comes for it."""
    while True:
        raw = target.entered()
        chain = (
            route(channel(index)) + message(0, attached=attaching([index + 1]))
            for index in range(4_000, 0, -1)
        )
        yield from pieces(raw, FIRST, chain, end=True)
        raw.close()


@attack(Stage.ADMITTED)
def unknown_channels(target: Target) -> Iterator[None]:
    """Channels that no message brings."""
    while True:
        raw = target.entered()
        yield from pieces(raw, FIRST, (route(channel(n)) for n in range(1, 4_000)), end=True)
        raw.close()


@attack(Stage.ADMITTED)
def channels_of_the_server(target: Target) -> Iterator[None]:
    """Channels that the server never made: for each of them it asks to forget it."""
    while True:
        raw = target.entered()
        yield from pieces(raw, FIRST, (route(n << 3 | 1) for n in range(4_000)), end=True)
        raw.close()


@attack(Stage.ADMITTED)
def channels_made_and_finished(target: Target) -> Iterator[None]:
    """Channels that end as soon as they are there, for ever."""
    raw = target.entered()
    sequence = Sequence(raw, FIRST)
    yield from sequence.write(route(ENTRYPOINT))
    index = 1
    for number in range(80):
        indexes = range(index, index + 250)
        yield from sequence.write(message(number, attached=attaching(indexes)))
        ends = (route(channel(each)) + b"\x06\0" for each in indexes)
        yield from pieces(raw, FIRST + 4 * index, ends, end=True)
        index += 250
        raw.look()


# Numbers, acks and declarations


@attack(Stage.ADMITTED)
def holes_in_numbers(target: Target) -> Iterator[None]:
    """Every second message, each on a stream of its own."""
    raw = target.entered()
    halves = (route(ENTRYPOINT) + message(2 * n + 1) for n in range(30_000))
    yield from pieces(raw, FIRST, halves, end=True)


@attack(Stage.ADMITTED)
def declarations(target: Target) -> Iterator[None]:
    """Datagrams that were never sent, declared one by one: for each there is a deadline."""
    raw = target.entered()
    sequence = Sequence(raw, FIRST)
    yield from sequence.write(route(ENTRYPOINT))
    while True:
        for _ in range(SOMETIMES):
            yield from sequence.write(b"\x05\x01" * (FULL // 2))
        raw.look()


@attack(Stage.ADMITTED)
def acks_of_no_message(target: Target) -> Iterator[None]:
    """On a channel where the server sends: there is none, and nothing was sent."""
    while True:
        raw = target.entered()
        raw.packet(stream(FIRST, 0, route(ENTRYPOINT) + b"\x08\x02\x00\x7f"))
        raw.close()
        yield


@attack(Stage.ADMITTED)
def tiny_messages(target: Target) -> Iterator[None]:
    """Messages of nothing on one stream: nobody can forbid them, and each is stored."""
    raw = target.entered()
    sequence = Sequence(raw, FIRST)
    yield from sequence.write(route(ENTRYPOINT))
    number = 0
    while True:
        yield from sequence.write(b"".join(message(number + n) for n in range(200)))
        number += 200
        raw.look()


@attack(Stage.ADMITTED)
def tiny_messages_unordered(target: Target) -> Iterator[None]:
    """The same, each on a stream of its own."""
    raw = target.entered()
    tiny = (route(ENTRYPOINT) + message(n) for n in range(30_000))
    yield from pieces(raw, FIRST, tiny, end=True)


@attack(Stage.ADMITTED)
def datagram_floods(target: Target) -> Iterator[None]:
    """Messages of nothing in datagrams, never declared."""
    raw = target.entered()
    number = 0
    while True:
        for _ in range(SOMETIMES):
            tiny = [route(ENTRYPOINT) + message(number + n) for n in range(100)]
            raw.packet(*(b"\x31" + varint(len(each)) + each for each in tiny))
            number += 100
            yield
        raw.look()


@attack(Stage.ADMITTED)
def empty_sequences(target: Target) -> Iterator[None]:
    """Streams that begin and end with a route and nothing behind it."""
    raw = target.entered()
    nothing = (route(ENTRYPOINT) for _ in range(40_000))
    yield from pieces(raw, FIRST, nothing, end=True)


@attack(Stage.ADMITTED)
def large_packets_of_streams(target: Target) -> Iterator[None]:
    """As many streams as the largest datagram holds, each of which ends at once."""
    while True:
        raw = target.entered()
        for first in range(FIRST, FIRST + 4 * 60_000, 4 * (LARGE // 6)):
            raw.packet(*(b"\x0b" + varint(first + 4 * n) + b"\0" for n in range(LARGE // 6)))
            yield
        raw.close()

"""Attacks of those who have no connection: anything that can be sent to a UDP port, and handshakes
that are begun and left."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.attack import FULL, LARGE, Stage, Target, attack
from tests.hostile.raw import TAG, RawClient, crypto, noise, varint

NEVER_READ = 64
"""Clients that an attack keeps at once where each of them sends little."""


def long_header(version: int, rest: bytes, *, first: int = 0xC3) -> bytes:
    ids = b"\x08" + noise(8) + b"\x08" + noise(8)
    return bytes([first]) + version.to_bytes(4) + ids + rest


def first_flights(target: Target, count: int) -> list[bytes]:
    flights = []
    for _ in range(count):
        client = target.client()
        flights.append(client.hello())
        client.close()
    return flights


@attack(Stage.STRANGER)
def garbage_initials(target: Target) -> Iterator[None]:
    """Long headers of Initials, and noise behind them."""
    raw = target.client()
    while True:
        raw.datagram(long_header(1, b"\x00\x44\x9e" + noise(1_182)))
        yield


@attack(Stage.STRANGER)
def valid_initials(target: Target) -> Iterator[None]:
    """First flights of clients that never go on, as fast as they can be replayed."""
    flights = first_flights(target, 1)
    raw = target.client()
    while True:
        if len(flights) < 300 and target.rng.random() < 0.1:
            flights += first_flights(target, 1)
        raw.datagram(target.rng.choice(flights))
        yield


@attack(Stage.STRANGER)
def replayed_first_flights(target: Target) -> Iterator[None]:
    """One first flight, each time from another port."""
    (flight,) = first_flights(target, 1)
    raw = target.client()
    while True:
        raw.move()
        for _ in range(4):
            raw.datagram(flight)
        yield


@attack(Stage.STRANGER)
def initials_with_tokens(target: Target) -> Iterator[None]:
    """Tokens that nobody has given, short and as long as a datagram allows."""
    raw = target.client()
    while True:
        for size in (1, 16, 100, 1_000):
            token = varint(size) + noise(size)
            rest = 1_200 - 23 - len(token) - 2
            raw.datagram(long_header(1, token + (0x4000 | rest).to_bytes(2) + noise(rest)))
        yield


@attack(Stage.STRANGER)
def replayed_tokens(target: Target) -> Iterator[None]:
    """Valid first flights that claim to have been told to come back, with a token of another."""
    while True:
        client = target.client()
        client.quic._peer_token = noise(target.rng.choice((8, 60, 500)))
        client.datagram(client.hello())
        client.close()
        yield


@attack(Stage.STRANGER)
def short_headers(target: Target) -> Iterator[None]:
    """Packets of connections that nobody has."""
    raw = target.client()
    while True:
        raw.datagram(b"\x40" + noise(60))
        yield


@attack(Stage.STRANGER)
def undersized_datagrams(target: Target) -> Iterator[None]:
    """From none to 40 bytes, and Initials that are too short to be answered."""
    (flight,) = first_flights(target, 1)
    raw = target.client()
    while True:
        for size in range(0, 40, 3):
            raw.datagram(noise(size))
            raw.datagram(flight[: 30 + 25 * size])
        yield


@attack(Stage.STRANGER)
def oversized_datagrams(target: Target) -> Iterator[None]:
    """As long as UDP allows: noise, and Initials with everything behind them."""
    (flight,) = first_flights(target, 1)
    raw = target.client()
    while True:
        raw.datagram(noise(65_000))
        raw.datagram(flight + noise(60_000))
        raw.datagram(long_header(1, varint(50_000) + noise(64_000)))
        yield


@attack(Stage.STRANGER)
def unknown_versions(target: Target) -> Iterator[None]:
    """Each of them asks for an answer that names the versions."""
    raw = target.client()
    while True:
        version = target.rng.randrange(0x0A0A0A0A, 1 << 32)
        raw.datagram(long_header(version, noise(1_177)))
        yield


@attack(Stage.STRANGER)
def version_negotiations(target: Target) -> Iterator[None]:
    """Answers to what nobody has asked."""
    raw = target.client()
    while True:
        raw.datagram(long_header(0, b"\x00\x00\x00\x01" * target.rng.randrange(1, 250)))
        yield


@attack(Stage.STRANGER)
def coalesced_initials(target: Target) -> Iterator[None]:
    """A first flight, and behind it in the same datagram packets without end."""
    flights = first_flights(target, 5)
    raw = target.client()
    tiny = long_header(1, b"\x00\x15" + noise(21), first=0xC0)
    while True:
        raw.datagram(target.rng.choice(flights) + tiny * 40)
        yield


@attack(Stage.STRANGER)
def crypto_with_holes(target: Target) -> Iterator[None]:
    """A handshake in single bytes with holes between them, which waits for the rest for ever."""
    clients: list[RawClient] = []
    while True:
        client = target.client()
        client.hello()
        clients.append(client)
        if len(clients) > NEVER_READ:
            clients.pop(0).close()
        for start in range(1, 2_000, 400):
            client.initial(*(crypto(start + 2 * n, b"\0") for n in range(200)))
        yield


@attack(Stage.STRANGER)
def handshakes_left(target: Target) -> Iterator[None]:
    """Slow loris: first flights, with the proof of an address where it is asked for, and then
    nothing, until a thousand wait."""
    clients = []
    for _ in range(1_000):
        client = target.client()
        client.begin()
        clients.append(client)
        if len(clients) > NEVER_READ:
            clients.pop(0).close()
        yield


@attack(Stage.STRANGER)
def handshakes_byte_by_byte(target: Target) -> Iterator[None]:
    """Slow loris: the first message of TLS, a byte in each Initial."""
    client = target.client()
    client.hello()
    hello = b"\x01\x00\x10\x00" + noise(4_000)
    for offset in range(len(hello)):
        client.initial(crypto(offset, hello[offset : offset + 1]))
        yield


def initials(client: RawClient, size: int) -> bytes:
    """Initials of a few bytes each that can all be decrypted, in a datagram of that size, about."""
    quic = client.quic
    keys = quic._cryptos_initial[quic._version]
    ids = b"".join(bytes([len(each)]) + each for each in (quic._peer_cid.cid, quic.host_cid))
    head = b"\xc3" + quic._version.to_bytes(4) + ids + b"\0" + bytes([4 + 1 + TAG])
    packets = bytearray()
    while len(packets) < size:
        number = quic._packet_number
        quic._packet_number += 1
        packets += keys.encrypt_packet(head + number.to_bytes(4), b"\x01", number)
    return bytes(packets)


@attack(Stage.STRANGER)
def coalesced_pings(target: Target) -> Iterator[None]:
    """A first flight, and then as many packets of a few bytes as a datagram holds."""
    while True:
        client = target.client()
        client.datagram(client.hello())
        for _ in range(100):
            client.datagram(initials(client, LARGE))
            yield
        client.close()


@attack(Stage.STRANGER)
def bursts_for_one_id(target: Target) -> Iterator[None]:
    """Very many datagrams at once for a connection that has just begun."""
    while True:
        client = target.client()
        client.datagram(client.hello())
        for _ in range(700):
            client.datagram(initials(client, FULL + 20))
        client.close()
        yield

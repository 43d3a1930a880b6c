"""Many connections of attackers at once, and each with a bad habit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.hostile.admitted import ENTRYPOINT, FIRST, message, route
from tests.hostile.attack import FULL, Stage, Target, attack
from tests.hostile.raw import Closed, RawClient, ack, noise, stream, varint

THOUSAND = 1_000

Habit = Callable[[RawClient, int], None]
"""Sends one packet; the number counts them, from 0."""


def half_a_message(raw: RawClient, number: int) -> None:
    head = route(ENTRYPOINT) + b"\x04\0\0\0\x80\x80\x04"
    raw.packet(stream(FIRST, 0 if not number else len(head) + number, head if not number else b"x"))


def holes(raw: RawClient, number: int) -> None:
    raw.packet(*(stream(FIRST, 2 * (40 * number + n) + 1, b"x") for n in range(5)))


def tiny_messages(raw: RawClient, number: int) -> None:
    for n in range(10 * number, 10 * number + 10):
        tiny = route(ENTRYPOINT) + message(n)
        raw.packet(stream(FIRST + 4 * n, 0, tiny, end=True))


def datagrams(raw: RawClient, number: int) -> None:
    tiny = route(ENTRYPOINT) + message(number)
    raw.packet(*(b"\x31" + varint(len(tiny)) + tiny,) * 5)


def garbage(raw: RawClient, number: int) -> None:
    raw.datagram(b"\x41" + raw.quic._peer_cid.cid + noise(40))


def noisy_packets(raw: RawClient, number: int) -> None:
    raw.packet(ack(0), b"\x01\x1a" + noise(8), noise(0).ljust(FULL - 40, b"\0"))


def silence(raw: RawClient, number: int) -> None:
    pass


HABITS: list[Habit] = [
    half_a_message, holes, tiny_messages, datagrams, garbage, noisy_packets, silence,
]  # fmt: skip


def practised(clients: list[RawClient]) -> Iterator[None]:
    """All of them, for ever."""
    number = 0
    while True:
        for each, client in enumerate(clients):
            HABITS[each % len(HABITS)](client, number)
            if not each % 20:
                yield
        number += 1


@attack(Stage.CONNECTED)
def a_crowd_of_strangers(target: Target) -> Iterator[None]:
    """As many as one network may have that are not admitted."""
    clients = []
    for _ in range(120):
        clients.append(target.shaken())
        yield
    yield from practised(clients)


@attack(Stage.ADMITTED)
def a_thousand_connections(target: Target) -> Iterator[None]:
    clients: list[RawClient] = []
    while len(clients) < THOUSAND:
        try:
            clients.append(target.entered())
        except Closed:
            pass
        yield
    yield from practised(clients)

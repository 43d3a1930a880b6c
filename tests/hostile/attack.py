"""What an attack is: a program that sends, piece by piece, from clients that share a tally."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from enum import Enum

from aqueduct_core.transport.settings import LARGEST_DATAGRAM
from tests.hostile.raw import Closed, RawClient, Tally

FULL = 1_150
"""Bytes of frames that fill a packet."""
LARGE = LARGEST_DATAGRAM - 50
"""The same of the largest that an intake takes."""


class Stage(Enum):
    """How far an attacker comes, which decides what may be kept for it."""

    STRANGER = "stranger"
    """Without a connection."""
    CONNECTED = "connected"
    """With a handshake of QUIC behind it, and not admitted by Aqueduct."""
    ADMITTED = "admitted"
    FLIGHT = "flight"
    """On the TCP port that planners and tasks use."""


class Target:
    """The address of an intake, and what was sent to it."""

    def __init__(self, host: str, port: int, flight: tuple[str, int] | None = None) -> None:
        self.host, self.port, self.flight = host, port, flight
        self.tally = Tally()
        self.rng = random.Random(1)

    def client(self) -> RawClient:
        return RawClient(self.host, self.port, self.tally)

    def shaken(self) -> RawClient:
        """One whose handshake is complete. Raises: Closed."""
        client = self.client()
        client.shake()
        return client

    def entered(self) -> RawClient:
        """One that is admitted. Raises: Closed."""
        client = self.client()
        client.enter()
        return client


Program = Callable[[Target], Iterator[None]]
"""Yields after every piece that it has sent. Ends when it has nothing more to send, or goes on for
as long as it is asked. `Closed` ends one round of it, and another one begins."""

ATTACKS: dict[str, tuple[Stage, Program]] = {}


def attack(stage: Stage) -> Callable[[Program], Program]:
    def register(program: Program) -> Program:
        ATTACKS[program.__name__] = (stage, program)
        return program

    return register


def rounds(program: Program, target: Target) -> Iterator[None]:
    """The program again and again, on new connections each time that the server has closed its."""
    while True:
        try:
            yield from program(target)
            return
        except Closed:
            yield

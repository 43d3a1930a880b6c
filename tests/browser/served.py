"""A page with statuses that a test makes up, on a loopback address."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.activity import (
    ChannelQuery,
    ChannelStatus,
    CursorLag,
    HistorySample,
    PeerStatus,
    SpoolUse,
)
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.monitoring.access import PageAccess
from aqueduct_core.monitoring.health import ObservedIntake
from aqueduct_core.monitoring.http_server import HttpServer
from aqueduct_core.monitoring.site import Site
from aqueduct_core.primitives.host_port import HostPort
from tests.core.monitoring.statuses import HOSTILE, activity, status

TOKEN = "the-token-of-those-who-may-look"


def channels(many: int) -> tuple[ChannelStatus, ...]:
    """The entrypoint of a till, and its channels; one has a name that would be markup."""
    names = ["orders", "order-lines", "payments", "stock/warehouse-3/updates", "prices", HOSTILE]
    made = [ChannelStatus("0", "till-1", "6f3c1c1e-3-1", 0, None, age=700, quiet=650, messages=1)]
    for at in range(1, many):
        name = names[at - 1] if at <= len(names) else f"sensor-{at:04}"
        made.append(
            ChannelStatus(
                name,
                f"till-{1 + at % 3}",
                f"6f3c1c1e-3-{1 + at % 3}",
                8 * at,
                0 if at < 4 else 8,
                state=("open", "open", "open", "finished", "cancelled")[at % 5],
                reason="the till was closed" if at % 5 == 4 else "",
                age=690.0 - at,
                quiet=0.4 * at**1.7,
                messages=91_284 // at,
                bytes=9_128_400 // at,
                repeated=17 if at == 2 else 0,
                nacked=5 if at == 3 else 0,
                rate=1_523.4 / at**1.4 * (at % 5 < 3),
                byte_rate=152_340 / at**1.4 * (at % 5 < 3),
                depth=1 if at < 4 else 2,
            )
        )
    return tuple(made)


def history(now: float) -> tuple[HistorySample, ...]:
    made, total = [], 0
    for at in range(300):
        wave = 900 + 600 * math.sin(at / 25) + 200 * math.sin(at / 4)
        total += int(2 * wave) if not 180 < at < 200 else 0
        lag = int(400 + 300 * math.sin(at / 9)) + (3_000 if 200 <= at < 230 else 0)
        moment = now - 600 + 2 * at
        made.append(
            HistorySample(moment, total, total * 100, 17, 5, 40_000_000 + total * 90, lag, 3, 9)
        )
    return tuple(made)


def full(now: float, many: int = 40, **given: object) -> IntakeStatus:
    """As of an intake with work."""
    peers = tuple(
        PeerStatus(
            f"6f3c1c1e-3-{n}", f"10.0.{n}.17:5{n}123", f"till-{n}", 12, 690, 0.2 * n,
            64_000 // n, 6_400_000 // n, 17 * (n == 1), 900 / n, 90_000 / n, 65_536 * (n == 3),
        )
        for n in (1, 2, 3)
    )  # fmt: skip
    busy = activity(
        reliable=912_841,
        unreliable=40_112,
        reliable_bytes=91_284_100,
        unreliable_bytes=4_011_200,
        channels=channels(many),
        channels_found=many,
        peers=peers,
        peers_found=3,
        history=history(now),
    )
    return status(
        activity=busy,
        connections=3,
        channels=24,
        bytes=640_000_000,
        use=SpoolUse(640_000_000, 1 << 30, 10, 912_841),
        lag=(
            CursorLag("warehouse", "messages", 12_403, 1_240_300, 8.4, held=True),
            CursorLag("audit", "messages", 2_000, 200_000, 3.1, held=True),
            CursorLag("events", "events", 0, 0, 0.0, held=True),
        ),
        oldest=(8.4, 3.0),
        **given,
    )


class Served:
    """What the page is told: change ``intakes``, and it is told otherwise. None: no answer."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.intakes: list[IntakeStatus | None] = [None]
        self.queries: list[ChannelQuery] = []

    def observe(self, query: ChannelQuery) -> list[ObservedIntake]:
        self.queries.append(query)
        error = str(IntakeFailed("UNREACHABLE", "the intake at host:4434 is gone", "Start it"))
        return [
            ObservedIntake(f"spool/intake-{n}", each, "" if each is not None else error)
            for n, each in enumerate(self.intakes)
        ]


@contextmanager
def served(*, token: str | None = None, port: int = 0) -> Iterator[tuple[Served, HttpServer]]:
    told = Served("")
    access = PageAccess(None if token is None else lambda given: given == token)
    site = Site(told.observe, access, alone=False, clock=count().__next__)
    server = HttpServer(HostPort("127.0.0.1", port), site.respond)
    told.url = f"http://{server.address}"
    try:
        yield told, server
    finally:
        server.close()

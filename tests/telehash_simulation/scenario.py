"""What happens in one run, drawn from its seed."""

from __future__ import annotations

import random
from typing import Literal, NamedTuple

from aqueduct_core.telehash.config import TelehashConfig

PeerKind = Literal["ours", "js", "c"]


class ChannelPlan(NamedTuple):
    """A channel that one end opens ``at`` a time: ``packets`` of it, and how it ends.

    ``answers``: packets that the other end sends back on it. ``pause``: seconds that its receiver
    takes for what came in one turn.
    """

    by_client: bool
    at: float
    reliable: bool
    packets: int
    ending: Literal["end", "end alone", "err", "none"]
    answers: int
    pause: float


class LineScenario(NamedTuple):
    seed: int
    peer: PeerKind
    config: TelehashConfig
    peer_config: TelehashConfig
    delay: float
    jitter: float
    loss: float
    duplicate: float
    rate: float | None
    channels: tuple[ChannelPlan, ...]
    lost_at: float | None


def scenario(seed: int) -> LineScenario:
    chance = random.Random(seed)
    peer: PeerKind = chance.choices(("ours", "js", "c"), (6, 2, 1))[0]
    calm = chance.random() < 0.2
    channels = tuple(_channel(chance, peer) for _ in range(chance.choice((1, 1, 2, 3, 6))))
    return LineScenario(
        seed,
        peer,
        _config(chance, windows=(1, 2, 8, 32, 100) if peer == "ours" else (1, 8, 32)),
        _config(chance, windows=(1, 2, 8, 32, 100)),
        delay=chance.choice((0.0, 0.001, 0.02, 0.2)),
        jitter=0.0 if calm else chance.choice((0.0, 0.01, 0.1)),
        loss=0.0 if calm else chance.choice((0.0, 0.02, 0.1, 0.3)),
        duplicate=0.0 if calm else chance.choice((0.0, 0.1)),
        rate=chance.choice((None, None, 50_000.0)),
        channels=channels,
        lost_at=chance.uniform(0.0, 20.0) if chance.random() < 0.25 else None,
    )


def _config(chance: random.Random, *, windows: tuple[int, ...]) -> TelehashConfig:
    """telehash-c takes no more than 32."""
    return TelehashConfig(
        window=chance.choice(windows),
        receive_window=chance.choice((4, 100, 100)),
        receive_bytes=chance.choice((2_000, 4 << 20, 4 << 20)),
        ack_delay=chance.choice((0.0, 0.02, 0.5)),
        channel_timeout=chance.choice((5.0, 10.0, 60.0)),
        max_channels=chance.choice((2, 1_024, 1_024)),
    )


def _channel(chance: random.Random, peer: PeerKind) -> ChannelPlan:
    scripted = peer != "ours"
    return ChannelPlan(
        by_client=scripted or chance.random() < 0.6,
        at=chance.choice((0.0, 0.0, chance.uniform(0, 5))),
        reliable=scripted or chance.random() < 0.85,
        packets=chance.choice((1, 2, 5, 20, 60)),
        ending=chance.choice(("end", "end", "end alone", "err", "none")),
        answers=0 if scripted else chance.choice((0, 0, 3, 20)),
        pause=chance.choice((0.0, 0.0, 0.1, 2.0, 20.0)),
    )

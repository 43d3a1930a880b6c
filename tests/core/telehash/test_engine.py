"""Two engines: channels from their opening to their end."""

from __future__ import annotations

from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.events import CloseReason
from tests.core.telehash.ends import Pair


def test_a_reliable_channel_from_its_opening_to_its_end() -> None:
    pair = Pair()
    bodies = [b"%d" % number for number in range(100)]
    channel = pair.open(bodies)
    pair.finish(channel)
    assert pair.peers.bodies[channel] == bodies
    assert pair.peers.closed[channel].reason is CloseReason.PEER_ENDED
    assert pair.ours.closed[channel].reason is CloseReason.ENDED
    assert pair.ours.acked[channel] == 100


def test_loss() -> None:
    for seed in range(50):
        pair = Pair(
            TelehashConfig(channel_timeout=60), loss=0.3, duplicate=0.1, jitter=0.05, seed=seed
        )
        bodies = [b"%d" % number for number in range(100)]
        channel = pair.open(bodies)
        pair.finish(channel, limit=200)
        assert pair.peers.bodies[channel] == bodies

"""Statuses of intakes, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from aqueduct_core.flight.activity import (
    ActivityStatus,
    ChannelStatus,
    CursorLag,
    Distribution,
    HistorySample,
    PeerStatus,
    SpoolUse,
)
from aqueduct_core.flight.status import IntakeStatus, Rates

HOSTILE = "<script>alert(1)</script>\u202e"
"""A name of a channel that a peer may choose."""


def activity(**given: Any) -> ActivityStatus:
    return ActivityStatus(
        **{
            "started": 1_800_000_000.0,
            "reliable": 1_000,
            "unreliable": 50,
            "reliable_bytes": 64_000,
            "unreliable_bytes": 3_200,
            "opened": 5,
            "ends": {"finished": 2, "cancelled": 1},
            "ack_seconds": Distribution((0.01, 0.1), (7, 2, 1), 0.5),
            "sync_seconds": Distribution((0.01, 0.1), (9, 1, 0), 0.2),
            "channels": (
                ChannelStatus("orders", "till-1", "s-1", 8, 0, messages=900, rate=12.5),
                ChannelStatus(HOSTILE, "till-1", "s-1", 16, 8, messages=100, depth=1, repeated=3),
            ),
            "channels_found": 2,
            "peers": (PeerStatus("s-1", "127.0.0.1:5000", "till-1", 2, messages=1_000),),
            "peers_found": 1,
            "history": (
                HistorySample(1_800_000_000.0, 0, 0, 0, 0, 100, 0, 1, 2),
                HistorySample(1_800_000_002.0, 100, 6_400, 1, 0, 6_500, 100, 1, 2),
            ),
            **given,
        }
    )


def status(**given: Any) -> IntakeStatus:
    return IntakeStatus(
        **{
            "id": "6f3c1c1e-0000-4000-8000-000000000001",
            "epoch": 3,
            "ends": (600, 450),
            "starts": (0, 0),
            "committed": {"orders": (100, 450)},
            "listen": "127.0.0.1:4433",
            "flight": "127.0.0.1:4434",
            "pid": 7,
            "bytes": 100_000,
            "connections": 1,
            "channels": 2,
            "counters": {
                "accepted": 4,
                "rejected": 1,
                "deduped": 3,
                "nacked": 2,
                "unreliable_dropped": 1,
                "withdrawn": 0,
                "groups": 10,
                "events": 9,
                "violations": 2,
                "datagrams_dropped": 5,
                "connections_memory": 4_096,
            },
            "held_bytes": 64,
            "rates": Rates(12.5, 800.0),
            "oldest": (1.5, 0.0),
            "name": "till",
            "release": "0.1.0",
            "memory_limit": 1 << 20,
            "activity": activity(),
            "lag": (CursorLag("orders", "messages", 500, 50_000, 1.5, True),),
            "use": SpoolUse(100_000, 1_000_000, 2, 1_060),
            **given,
        }
    )

"""How an intake of Telehash takes channels in. Light to import: the driver reads it when it looks
up the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from aqueduct_core.primitives.settings import Section, duration, number, plain

AckLevel: TypeAlias = Literal["stored", "committed"]
CarrierName: TypeAlias = Literal["quic", "udp"]

SCHEMES: Mapping[str, CarrierName] = {"telehash": "quic", "udp": "udp"}
"""Of URLs, the usual one first, and what they say of the carrier."""

MAX_TYPES = 1_000
"""That are named; of those that are dialled each is a channel at every endpoint."""

LONGEST_TYPE = 200
"""Bytes: it stands in one packet with all else, and in each event."""

RESERVED = frozenset({"seek", "peer", "connect", "path", "link", "bridge"})
"""Types of the switch itself, which are never reliable (T2)."""


class ChannelIntake(Section, frozen=True, kw_only=True):
    """When packets are acked, and how many may wait for it."""

    ack_level: Annotated[
        AckLevel,
        plain(
            "When a packet is acked: stored, once it is durable; or committed, once every query "
            "has it in its commit log. A peer gives a channel up of which nothing is acked for 10 "
            "seconds, so committed is for triggers and batches that are shorter than that."
        ),
    ] = "stored"
    window: Annotated[
        int,
        number(
            1,
            100,
            "Packets of one channel that wait for their ack, at most; more of them are dropped, "
            "and come again.",
        ),
    ] = 100
    channel_timeout: Annotated[
        float,
        duration(
            "100ms",
            "1h",
            "For so long a channel is kept that acks nothing of what is sent on it; and as long "
            "may packets wait for their commit, when their peer falls silent.",
        ),
    ] = 10.0


def check_type(text: str) -> str:
    """A type that channels may have.

    Raises ValueError: what is allowed, to complete "it must be …".
    """
    if not 1 <= len(text.encode()) <= LONGEST_TYPE or not text.isprintable():
        raise ValueError(f"a type of 1 to {LONGEST_TYPE} bytes, such as _events")
    if text in RESERVED:
        raise ValueError("the type of an application, such as _events")
    return text

"""Whether an engine kept to the times and bounds of the protocol, from a record of its packets.

Knows nothing of the engine but what went in and out, so it says no to any engine that does not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

SLACK = 1e-6


class Recorded(NamedTuple):
    """A packet, with its head as JSON. ``out``: by the engine."""

    at: float
    out: bool
    head: dict[str, Any]


def breaches(trace: list[Recorded], *, window: int, until: float) -> list[str]:
    """What is wrong with it, in words.

    T13: no packet goes again within a second of the time before, but for the first repeat. T4: no
    more than ``window`` are under way. T6: acks do not fall, and go with every packet once there
    was one. T10: a packet with a seq is answered by an ack within a second, once there was one.
    T16: what is not acked goes again, so that nothing rests for more than two seconds.

    Args:
        until: when the record ends: what was still to come then is not missed.
    """
    found: list[str] = []
    sent: dict[tuple[int, int], list[float]] = defaultdict(list)
    acked: dict[int, int] = defaultdict(lambda: -1)
    acks: dict[int, int] = {}
    asked: dict[int, float] = {}
    over: set[int] = set()
    for at, out, head in trace:
        channel, seq, ack = head["c"], head.get("seq"), head.get("ack")
        if "err" in head:
            over.add(channel)
            asked.pop(channel, None)
            continue
        if not out:
            if ack is not None and (channel, ack) in sent:
                acked[channel] = max(acked[channel], ack)
            if seq is not None and channel in acks and channel not in over:
                asked.setdefault(channel, at)
            continue
        if ack is not None:
            if ack < acks.get(channel, 0):
                found.append(f"T6: ack {ack} of {channel} behind {acks[channel]}, at {at}")
            acks[channel] = ack
            if (since := asked.pop(channel, None)) is not None and at > since + 1.0 + SLACK:
                found.append(f"T10: {channel} waited from {since} to {at} for an ack")
        elif channel in acks:
            found.append(f"T6: no ack with a packet of {channel}, at {at}")
        if seq is not None:
            times = sent[channel, seq]
            if len(times) > 1 and at < times[-1] + 1.0 - SLACK:
                found.append(f"T13: {seq} of {channel} at {times[-1]} and {at}")
            times.append(at)
            if seq > acked[channel] + window:
                found.append(f"T4: {seq} of {channel}, where {acked[channel]} is acked, at {at}")
    found += [
        f"T10: {channel} waits for an ack since {since}"
        for channel, since in asked.items()
        if since + 1.0 < until and channel not in over
    ]
    return found


def rests(trace: list[Recorded], channel: int, *, until: float) -> list[str]:
    """T16: times when the last packet that was not acked went more than two seconds ago."""
    found: list[str] = []
    last, at_last, acked = -1, 0.0, -1
    for at, out, head in [*trace, Recorded(until, False, {"c": channel})]:
        if head["c"] != channel:
            continue
        if last > acked and at > at_last + 2.0 + SLACK:
            found.append(f"T16: {last} of {channel} at {at_last}, and not before {at}")
            at_last = at
        if "err" in head:
            break
        if not out:
            acked = max(acked, head.get("ack", -1))
        elif head.get("seq", -1) >= last:
            last, at_last = head["seq"], at
    return found

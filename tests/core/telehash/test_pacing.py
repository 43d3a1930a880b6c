"""Times and bounds, checked on what went over the wire, by a checker that can say no."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aqueduct_core.engine.actions import Action, SendDatagram
from aqueduct_core.engine.inputs import Datagram, Input
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from tests.core.telehash.ends import Pair
from tests.core.telehash.pacing import Recorded, breaches, rests
from tests.support.rules import rule


def record(engine: TelehashEngine) -> list[Recorded]:
    """What goes in and out of an engine from now on."""
    trace: list[Recorded] = []
    handle, actions = engine.handle, engine.actions

    def on_input(input: Input, now: float) -> None:
        if isinstance(input, Datagram):
            trace.append(Recorded(now, False, head(input.data)))
        handle(input, now)

    def on_actions() -> list[Action]:
        taken = actions()
        now = engine._now
        trace.extend(
            Recorded(now, True, head(each.data)) for each in taken if isinstance(each, SendDatagram)
        )
        return taken

    engine.handle = on_input  # type: ignore[method-assign]
    engine.actions = on_actions  # type: ignore[method-assign]
    return trace


def head(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data[2 : 2 + int.from_bytes(data[:2])])
    return found


def recorded(loss: float, seed: int) -> tuple[list[Recorded], list[Recorded], float]:
    """The traces of both ends of two channels of 60 packets, one each way."""
    pair = Pair(
        TelehashConfig(channel_timeout=60), loss=loss, duplicate=0.1, jitter=0.05, seed=seed
    )
    traces = record(pair.ours.engine), record(pair.peers.engine)
    bodies = [b"%d" % number for number in range(60)]
    back = pair.peers.engine.open("_back", reliable=True, body=b"0", now=pair.now)
    for number in range(1, 30):
        pair.peers.engine.send(back, body=bodies[number], end=number == 29, now=pair.now)
    channel = pair.open(bodies)
    pair.finish(channel, back, limit=400)
    assert pair.peers.bodies[channel] == bodies
    assert pair.ours.bodies[back] == bodies[:30]
    return (*traces, pair.now)


@rule("T-4", "T-5", "T-6", "T-10", "T-13", "T-15", "T-16")
@pytest.mark.parametrize("loss", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_both_ends_keep_to_the_times_at_any_loss(loss: float, seed: int) -> None:
    ours, peers, now = recorded(loss, seed)
    for trace in (ours, peers):
        assert breaches(trace, window=32, until=now) == []
    assert rests(ours, 1, until=now) == []
    assert rests(peers, 2, until=now) == []
    if loss >= 0.1:
        assert any("miss" in each.head for each in ours)


def resent(trace: list[Recorded]) -> tuple[int, Recorded]:
    """Where a packet went again, in a trace."""
    seen = set()
    for index, each in enumerate(trace):
        key = each.head.get("seq")
        if each.out and key is not None:
            if key in seen:
                return index, each
            seen.add(key)
    raise AssertionError("nothing went again")


@rule("T-13")
def test_one_packet_too_many_is_seen() -> None:
    ours, _, now = recorded(0.2, 1)
    index, each = resent(ours)
    worse = [*ours[: index + 1], each._replace(at=each.at + 0.5), *ours[index + 1 :]]
    [breach] = [text for text in breaches(worse, window=32, until=now) if "T13" in text][:1]
    assert f"T13: {each.head['seq']} of 1" in breach


@rule("T-4", "T-6", "T-10", "T-16")
def test_other_breaches_are_seen() -> None:
    def seen(*trace: tuple[float, bool, dict[str, Any]]) -> list[str]:
        found = breaches([Recorded(*each) for each in trace], window=2, until=10.0)
        return [text.partition(":")[0] for text in found]

    acked = (0.0, True, {"c": 2, "ack": 3})
    assert seen(acked, (0.1, True, {"c": 2, "ack": 2})) == ["T6"]
    assert seen(acked, (0.1, True, {"c": 2, "seq": 0})) == ["T6"]
    assert seen(acked, (0.1, False, {"c": 2, "seq": 4})) == ["T10"]
    late = (1.2, True, {"c": 2, "ack": 3})
    assert seen(acked, (0.1, False, {"c": 2, "seq": 4}), late) == ["T10"]
    assert seen(*((0.0, True, {"c": 1, "seq": seq}) for seq in range(3))) == ["T4"]
    once = [Recorded(0.0, True, {"c": 1, "seq": 0})]
    assert rests(once, 1, until=2.0) == []
    assert rests(once, 1, until=2.1) != []

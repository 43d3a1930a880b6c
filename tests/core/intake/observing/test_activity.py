"""What a group commit does is summed up as it was, whatever the protocol."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.observing.activity import SAMPLE_SECONDS, SAMPLES, Activity
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from tests.core.intake.bench import Peer, bench
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000


class Clocks:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return NOW + int(self.seconds * 1e6)


def event(kind: str, channel: int | None = 8, **more: object) -> LoggedEvent:
    return LoggedEvent(kind, NOW, "s", "p", "a", channel, **more)  # type: ignore[arg-type]


def test_messages_repeats_and_groups_are_counted(tmp_path: Path) -> None:
    clocks, peer = Clocks(), Peer()
    with bench(tmp_path) as b:
        activity = Activity(clocks.monotonic, clocks.wall)
        b.groups._observer = activity
        source = AqueductSource("a", "p", "s", 8)
        began = clocks.wall()
        b.groups.record(PendingEvent(peer, event("connected", None)))
        b.groups.add(PendingBatch(peer, run([b"xy", b"z"]), source, True, began))
        clocks.seconds += 0.2
        b.groups.flush()
        clocks.seconds += 0.03
        b.pump()
        b.groups.add(PendingBatch(peer, run([b"xy", b"z"]), source, True, clocks.wall()))
        b.settle()
        found = activity.status(ChannelQuery(), [])
    assert (found.reliable, found.reliable_bytes, found.unreliable) == (2, 3, 0)
    assert found.ack_seconds.count == found.sync_seconds.count == 1
    assert found.ack_seconds.total == pytest.approx(0.23)
    assert found.sync_seconds.total == pytest.approx(0.03)
    [channel] = found.channels
    assert (channel.name, channel.messages, channel.bytes, channel.repeated) == ("a", 2, 3, 2)
    assert channel.state == "open"


def test_every_kind_of_event_of_a_channel_that_is_not_known_is_its_end() -> None:
    activity = Activity(lambda: 0.0, lambda: NOW)
    activity.recorded(event("connected", None))
    for number, kind in enumerate(("finished", "cancelled", "a kind of another protocol")):
        activity.recorded(event("opened", number))
        activity.recorded(event("nacked", number, first=3, last=5))
        activity.recorded(event("gap", number, first=0, last=1))
        activity.recorded(event(kind, number, reason="because"))
    activity.recorded(event("opened", 99))
    activity.recorded(event("disconnected", None, reason="lost"))
    found = activity.status(ChannelQuery(order="name"), [])
    assert found.opened == 4
    assert found.ends == {
        "finished": 1,
        "cancelled": 1,
        "a kind of another protocol": 1,
        "disconnected": 1,
    }
    assert sorted(each.state for each in found.channels) == sorted(found.ends)
    assert {each.nacked for each in found.channels} == {0, 3}


def test_history_is_a_sample_each_two_seconds_and_bounded() -> None:
    clocks = Clocks()
    activity = Activity(clocks.monotonic, clocks.wall)
    for _ in range(3 * SAMPLES):
        activity.sample(stored=7, lag=5, connections=2, channels=3)
        clocks.seconds += SAMPLE_SECONDS / 2
    history = activity.status(ChannelQuery(), []).history
    assert len(history) == SAMPLES
    steps = {round(b.at - a.at, 3) for a, b in pairwise(history)}
    assert steps == {SAMPLE_SECONDS}
    assert (history[-1].stored, history[-1].lag, history[-1].connections) == (7, 5, 2)

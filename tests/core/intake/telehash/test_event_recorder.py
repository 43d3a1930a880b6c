"""The budget of events, and what is told of channels that find no room in it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from aqueduct_core.intake.telehash.event_recorder import EventBudget
from tests.core.intake.telehash.scene import LineScene, line_bench, settings


def test_so_many_at_once_and_then_so_many_a_second() -> None:
    budget = EventBudget(3, 2.0)
    assert [budget.take(10.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert [budget.take(11.0) for _ in range(3)] == [True] * 2 + [False]
    assert not budget.take(11.4)
    assert [budget.take(100.0) for _ in range(4)] == [True] * 3 + [False]


def test_the_next_that_is_told_says_how_many_were_not(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, budget=EventBudget(2, 0.1))
        for _ in range(5):
            scene.open([b"x"], end=True)
        scene.run(0.5)
        assert scene.kinds() == ["connected", "opened", "opened", "finished", "finished"]
        assert len(b.rows()) == 5
        scene.run(10.0)
        scene.open([b"x"], end=True)
        scene.run(0.5)
        opened = scene.events("opened")
        assert [each["reason"] for each in opened] == [
            None,
            None,
            "3 more channels were opened, without events of their own",
        ]
        assert len(scene.events("finished")) == 3


def test_lines_share_a_budget_and_channels_of_ours_need_none(tmp_path: Path) -> None:
    budget = EventBudget(1, 0.0)
    with line_bench(tmp_path) as b:
        for _ in range(2):
            scene = LineScene(b, budget=budget)
            scene.open([b"x"])
            scene.run(0.5)
        assert scene.kinds().count("opened") == 1
        assert scene.kinds().count("connected") == 2
        ours = LineScene(b, settings("_a", dials=True), budget=budget)
        ours.run(0.5)
        assert ours.kinds().count("opened") == 2


def test_packets_for_which_there_is_no_room_are_told_of_an_unreliable_channel(
    tmp_path: Path,
) -> None:
    with line_bench(tmp_path, max_bytes=20_000, segment_bytes=5_000) as b:
        scene = LineScene(b)
        channel = scene.open([bytes(1_000)])
        for _ in range(30):
            scene.send(channel, [bytes(1_000)])
            scene.run(0.05)
        assert b.spool.full
        scene.open([b"x"] * 3, reliable=False)
        scene.run(0.5)
        b.pass_all()
        b.spool.trim()
        scene.run(1.0)
        [nacked] = scene.events("nacked")
        assert (nacked["first"], nacked["last"]) == (0, 2)
        assert b.groups.counters.unreliable_dropped == 3


def test_of_lines_that_prove_nothing_only_so_many_are_told_of(tmp_path: Path) -> None:
    """Over plain UDP anybody writes packets in the name of any address."""
    budget, plain = EventBudget(10, 0.0), replace(settings(), carrier="udp")
    with line_bench(tmp_path) as b:
        for _ in range(30):
            scene = LineScene(b, plain, budget=budget)
            scene.open([b"x"])
            scene.run(0.1)
            scene.link.lose("gone")
            scene.run(0.1)
        kinds = scene.kinds()
        assert (kinds.count("connected"), kinds.count("opened")) == (5, 5)
        assert kinds.count("disconnected") == 5
        assert len(b.rows()) == 30

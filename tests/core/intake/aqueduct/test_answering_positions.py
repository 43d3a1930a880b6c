"""Where a channel stands: what an intake answers, and that one run at a time writes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_REJECTED,
    RUN,
    RUN_START,
    channel_headers,
    connection_headers,
    decimal,
    position_of,
)
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition, from_payload
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.events import End
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.storage.channel_numbers import MAX_BOUNDARIES
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of
from tests.core.intake.test_resuming import dialled, gaps, numbers, send


def running(b: Bench, run: str, producer: str = "p", *, start: int | None = None) -> Scene:
    """A connection of one run of a producer; ``start``: of its entrypoint."""
    return Scene(b, headers=connection_headers(producer=producer, run=run, sequence_start=start))


def question(scene: Scene, name: str = "c", *, payload: bytes = b"") -> int:
    """Ask where a channel stands; the number of the oneshot for the answer."""
    attach = Attach(False, oneshot=True, headers=(position_of(name),))
    (number,) = scene.client.send(0, payload, now=scene.pair.now, attach=[attach]).attached
    return number


def answer(scene: Scene, oneshot: int) -> ChannelPosition | None:
    found = [n for n in scene.told if isinstance(n, MessageBatch) and n.channel == oneshot]
    return from_payload(found[0].payload) if found else None


def asked(scene: Scene, name: str = "c") -> ChannelPosition:
    oneshot = question(scene, name)
    scene.rest(0.3)
    position = answer(scene, oneshot)
    assert position is not None
    return position


def test_a_channel_of_which_nothing_is_known_stands_at_0(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert asked(running(b, "1")) == ChannelPosition("c", 0, None, False, ())
        assert not asked(running(b, "2")).broken_off


def test_a_run_that_broke_off_and_one_that_finished_are_told_apart(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        send(dialled(b), "c", 0, 10)
        assert asked(running(b, "1")) == ChannelPosition("c", 10, 0, False, ((0, 10),))
        send(dialled(b), "c", 10, 12, finish=True)
        assert asked(running(b, "2")) == ChannelPosition("c", 12, 0, True, ((0, 12),))
    with bench(tmp_path) as b:  # durable
        assert asked(running(b, "3")) == ChannelPosition("c", 12, 0, True, ((0, 12),))
        send(dialled(b), "c", 12, 20)
        assert asked(running(b, "4")) == ChannelPosition("c", 20, 12, False, ((0, 20),))
        assert asked(running(b, "5", "another")).next == 0
        assert asked(running(b, "6"), "another").next == 0


def test_a_run_says_where_it_began(tmp_path: Path) -> None:
    """New input behind a run that broke off: the next run resumes that, not both."""
    with bench(tmp_path) as b:
        send(dialled(b), "c", 0, 10)
        scene = running(b, "1")
        asked(scene)
        for start in (10, 13):  # the second time after a reconnect
            headers = channel_headers(
                name="c", sequence_start=start, extra=((RUN_START, decimal(10)),)
            )
            (channel,) = scene.attach(headers)
            scene.send(channel, *(b"%d" % n for n in range(start, start + 3)))
            scene.rest(0.3)
        assert asked(running(b, "2")) == ChannelPosition("c", 16, 10, False, ((0, 16),))


def test_many_runs_cost_few_ranges(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        for first in range(0, 100, 5):
            send(scene, "c", first, first + 5, finish=True)
        assert asked(running(b, "1")) == ChannelPosition("c", 100, 95, True, ((0, 100),))
        assert len(b.spool.sequences.seen("p", "c\0runs")) == MAX_BOUNDARIES + 1


def test_a_hole_lies_below_the_position_and_is_not_stored(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        send(scene, "c", 0, 3, finish=True)
        send(scene, "c", 10, 12, finish=True)
        send(scene, "c", 50, 50)
        assert asked(running(b, "1")) == ChannelPosition("c", 50, 12, False, ((0, 3), (10, 12)))


def test_what_was_forgotten_is_not_given_again(tmp_path: Path) -> None:
    """Of so many channels something is remembered; of the others that they were there."""
    with bench(tmp_path, max_tracks=3) as b:
        for name in "cdefgh":
            send(dialled(b), name, 0, 5)
        assert asked(running(b, "1")) == ChannelPosition("c", 5, None, False, ())


def test_a_position_counts_what_is_not_durable_yet(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        old, new = dialled(b), running(b, "2")
        (channel,) = old.attach(channel_headers(name="c", sequence_start=0))
        old.rest(0.3)
        asked(new, "another")
        old.send(channel, b"0", b"1", b"2")
        old.take()
        oneshot = question(new)
        new.take()
        assert b.spool.sequences.seen("p", "c").count == 0
        new.rest(0.3)
        assert answer(new, oneshot) == ChannelPosition("c", 3, 0, False, ((0, 3),))
        assert numbers(b) == [0, 1, 2]


def test_what_an_older_connection_still_sends_comes_too_late(tmp_path: Path) -> None:
    """Its rows that are under way would get the numbers that the new run was told to use."""
    with bench(tmp_path) as b:
        old, new = running(b, "1"), running(b, "2")
        asked(old)
        send(old, "c", 0, 3)
        (other,) = old.attach(channel_headers(name="other", sequence_start=0))
        old.send(other, b"kept")
        old.rest(0.3)
        channel = other - 8
        assert asked(new).next == 3
        old.send(channel, b"late")
        send(new, "c", 3, 5, finish=True)
        old.rest(0.3)
        assert [row["value"] for row in of(b, "c")] == [b"0", b"1", b"2", b"3", b"4"]
        assert old.closed is not None
        assert old.closed.code == CODE_FENCED
        assert "another run of the producer has taken channel 'c'" in old.closed.reason
        assert old.delivered(channel, True) == [0, 1, 2]
        assert old.context.counters.fenced == 1
        assert [row["value"] for row in of(b, "other")] == [b"kept"]


def test_news_that_is_told_when_its_run_is_fenced_counts_no_more(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        old, new = running(b, "1"), running(b, "2")
        asked(old), asked(new, "another")
        (channel,) = old.attach(channel_headers(name="c", sequence_start=0))
        old.rest(0.3)
        old.send(channel, b"late")
        old.client.finish(channel, old.pair.now)
        old.pair.run(0.05)  # the engine has them, the session does not
        assert asked(new).next == 0
        old.rest(0.3)
        assert of(b, "c") == []
        assert "finished" not in [event["kind"] for event in b.events()]
        assert asked(new) == ChannelPosition("c", 0, None, False, ())


def test_what_waits_for_room_when_its_run_is_fenced_is_never_stored(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=60_000) as b:
        old, new = running(b, "1"), running(b, "2")
        asked(old), asked(new, "another")
        (channel,) = old.attach(channel_headers(name="c", sequence_start=0))
        old.send(channel, bytes(70_000))
        old.rest(0.3)
        old.send(channel, b"1", b"2")
        old.rest(0.3)
        assert b.groups.holding
        assert asked(new).next == 1
        b.pass_all()
        while b.groups.holding:
            b.spool.trim()
            b.settle()
        old.rest(0.3)
        assert b.groups.numbers.position("p", "c").next == 1
        assert old.delivered(channel, True) == [0]


def test_a_run_that_lost_a_channel_does_not_get_it_back(tmp_path: Path) -> None:
    """It was cut off, and comes back with numbers that are another run's by now."""
    with bench(tmp_path) as b:
        asked(running(b, "1"))
        new = running(b, "2")
        asked(new)
        send(new, "c", 0, 3)
        back = running(b, "1")
        (channel,) = back.attach(channel_headers(name="c", sequence_start=0))
        back.send(channel, b"lost")
        back.client.finish(channel, back.pair.now)
        back.rest(0.3)
        assert back.closed is not None
        assert back.closed.code == CODE_FENCED
        assert back.delivered(channel, True) == []
        ends = [e for e in b.events() if e["connectionId"] == back.session.id]
        assert [e["kind"] for e in ends] == ["connected", "opened", "disconnected"]  # entrypoint
        assert not b.groups.numbers.position("p", "c").finished
        # a reconnect of the run that has it, and a client that names no run, are as free as ever
        send(running(b, "2"), "c", 1, 5)
        send(dialled(b), "c", 0, 6)
        assert numbers(b) == [*range(6)]


def test_other_channels_and_producers_are_left_alone(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        mine, others, unnumbered = running(b, "1"), running(b, "2", "q"), running(b, "3")
        asked(mine, "a"), asked(others, "c")
        send(mine, "a", 0, 2)
        send(others, "c", 0, 2)
        (plain,) = unnumbered.attach(channel_headers(name="c"))
        unnumbered.send(plain, b"0")
        unnumbered.rest(0.3)
        asked(running(b, "4"), "c")
        for scene in (mine, others, unnumbered):
            scene.rest(0.3)
            assert scene.closed is None
        # a sink's channels: its partitions have numbers of their own, and it names no run
        sink = Scene(b, headers=connection_headers(producer="p"))
        headers = channel_headers(name="c", sequence_start=1 << 32)
        (row,) = sink.attach((*headers, (b"batch", b"1"), (b"partition", b"0")))
        sink.send(row, b"row")
        asked(running(b, "5"), "c")
        sink.rest(0.3)
        assert sink.closed is None
        assert sink.delivered(row, True) == [0]


def test_a_question_is_no_row_unless_it_carries_something(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = running(b, "1")
        scene.attach(channel_headers(name="a"))
        question(scene)
        question(scene, payload=b"not only a question")
        scene.attach(channel_headers(name="b"))
        scene.rest(0.3)
        rows = of(b, "0")
        assert [row["messageNum"] for row in rows] == [0, 2, 3]
        assert [row["value"] for row in rows] == [b"", b"not only a question", b""]
        assert scene.delivered(0, True) == [0, 1, 2, 3]
        assert b.groups.counters.deduped == 0


def test_a_question_on_a_numbered_entrypoint_leaves_no_hole_there(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        asked(scene)
        scene.attach(channel_headers(name="a"))
        scene.rest(0.3)
        again = Scene(b, headers=connection_headers(producer="p", sequence_start=2))
        again.rest(0.3)
        assert gaps(b, "0") == []


@pytest.mark.parametrize("headers", [(), ((b"position-of", b""),), ((b"position-of", b"\0"),)])
def test_what_is_no_question_gets_no_answer(
    tmp_path: Path, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    with bench(tmp_path) as b:
        scene = running(b, "1")
        attach = Attach(False, oneshot=True, headers=headers)
        (number,) = scene.client.send(0, b"", now=scene.pair.now, attach=[attach]).attached
        scene.rest(0.3)
        assert answer(scene, number) is None
        assert scene.end_of(number) is End.FINISHED
        assert scene.closed is None


def test_only_oneshots_and_only_producers_get_an_answer(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = running(b, "1")
        (number,) = scene.attach((position_of("c"),), sends=False)
        scene.rest(0.3)
        assert answer(scene, number) is None
        assert scene.end_of(number) is End.FINISHED
        nobody = Scene(b)
        oneshot = question(nobody)
        nobody.rest(0.3)
        assert answer(nobody, oneshot) is None
        assert nobody.end_of(oneshot) is End.FINISHED


def test_nothing_is_told_or_taken_before_the_token_is_right(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        owner = running(b, "1")
        asked(owner)
        send(owner, "c", 0, 3)
        headers = connection_headers(producer="p", extra=((RUN, b"2"),))
        thief = Scene(b, headers=headers, refusal=lambda _: "no token")
        oneshot = question(thief)
        thief.rest(0.3)
        assert answer(thief, oneshot) is None
        assert thief.closed is not None
        assert thief.closed.code == CODE_REJECTED
        owner.rest(0.3)
        assert owner.closed is None
        send(running(b, "1"), "c", 3, 4)
        assert numbers(b) == [*range(4)]


def test_who_takes_no_answers_gets_no_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aqueduct_core.intake.aqueduct.answering.MAX_ANSWERS", 2)
    with bench(tmp_path) as b:
        scene = running(b, "1")
        asking = [question(scene) for _ in range(4)]
        scene.rest(0.3)
        assert [answer(scene, each) is not None for each in asking] == [True, True, False, False]
        assert asked(scene).next == 0  # the answers were taken

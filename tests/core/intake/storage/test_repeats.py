"""FAULTS 43 at the intake: messages under numbers that are stored, from clients that do not ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.dedupe.numbering import first_number
from aqueduct_core.aqueduct.conventions.headers import (
    BATCH,
    CODE_NOT_REPEATABLE,
    PARTITION,
    channel_headers,
    connection_headers,
    decimal,
)
from aqueduct_core.aqueduct.engine import Side
from aqueduct_core.aqueduct.events import End
from aqueduct_core.engine.inputs import LinkLost
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of


def client(b: Bench, producer: str = "p") -> Scene:
    return Scene(b, headers=connection_headers(producer=producer))


def sends(
    scene: Scene,
    *payloads: bytes,
    start: int = 0,
    run_start: int | None = None,
    finish: bool = False,
) -> int:
    """A channel of these messages."""
    headers = channel_headers(name="c", sequence_start=start, run_start=run_start)
    (channel,) = scene.attach(headers)
    scene.send(channel, *payloads)
    if finish:
        scene.client.finish(channel, scene.pair.now)
    scene.rest(0.5)
    return channel


def gone(scene: Scene) -> None:
    """The connection breaks off."""
    scene.pair.server.handle(LinkLost(0, "gone", False), scene.pair.now)
    scene.rest(0.2)


def rows(b: Bench) -> list[Any]:
    return [row["value"] for row in of(b, "c")]


def events(b: Bench, kind: str) -> list[dict[str, Any]]:
    return [event for event in b.events() if event["kind"] == kind]


def check_refused(scene: Scene, text: str) -> None:
    assert scene.closed is not None
    assert scene.closed.code == CODE_NOT_REPEATABLE
    assert scene.closed.by_peer
    assert text in scene.closed.reason
    assert scene.context.counters.not_repeatable == 1


TEN = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    "others",
    [
        [*TEN[:9], b"other"],
        [TEN[1], TEN[0], *TEN[2:]],
        [*TEN[:4], b"", *TEN[5:]],
    ],
    ids=["one", "swapped", "empty"],
)
@pytest.mark.parametrize("restart", [False, True], ids=["remembered", "by its sum"])
def test_other_content_is_refused_and_not_acked(
    tmp_path: Path, others: list[bytes], restart: bool
) -> None:
    with bench(tmp_path) as b:
        first = client(b)
        sends(first, *TEN)
        gone(first)
        if not restart:
            _refused(b, others)
    if restart:
        with bench(tmp_path) as b:
            _refused(b, others)


def _refused(b: Bench, others: list[bytes]) -> None:
    second = client(b)
    channel = sends(second, *others)
    check_refused(second, "channel 'c' repeats 10 of the numbers 0 to 9 that are stored")
    assert second.delivered(channel, True) == []
    assert rows(b) == TEN
    (event,) = events(b, "rejected")
    assert (event["channel"], event["first"], event["last"]) == ("c", 0, 9)
    assert event["counts"]["deduped"] == 10
    kinds = [event["kind"] for event in b.events()]
    assert kinds[-3:] == ["rejected", "repeated", "disconnected"]


@pytest.mark.parametrize("start", [0, 1, 9])
@pytest.mark.parametrize("run_start", [None, 0], ids=["all runs", "a run"])
def test_each_repeat_is_compared_before_its_ack(
    tmp_path: Path, start: int, run_start: int | None
) -> None:
    """However few they are, wherever they begin, and whether or not they finish."""
    with bench(tmp_path) as b:
        sends(client(b), *TEN, run_start=run_start, finish=True)
        second = client(b)
        others = [*TEN[start:8], b"other"]
        channel = sends(second, *others, start=start, run_start=run_start)
        check_refused(second, f"number {start + len(others) - 1} has other content")
        assert second.delivered(channel, True) == []
        assert rows(b) == TEN


def test_what_begins_inside_a_run_has_no_sum_to_compare(tmp_path: Path) -> None:
    """After a restart it is acked, whatever it holds; what it brings anew is compared again."""
    with bench(tmp_path) as b:
        sends(client(b), *TEN, finish=True)
    with bench(tmp_path) as b:
        first = client(b)
        channel = sends(first, *[b"other"] * 7, start=5)
        assert first.delivered(channel, True) == list(range(7))
        assert rows(b) == [*TEN, b"other", b"other"]
        second = client(b)
        sends(second, b"other", b"another", start=10)
        check_refused(second, "number 11 has other content")


def test_a_repeat_is_compared_within_its_group(tmp_path: Path) -> None:
    """Nothing of it is on the disk yet."""
    with bench(tmp_path) as b:
        first, second = client(b), client(b)
        ends = [
            (scene, *scene.attach(channel_headers(name="c", sequence_start=0)))
            for scene in (first, second)
        ]
        for (scene, channel), payloads in zip(ends, ([b"stored", b"1"], [b"other"]), strict=True):
            scene.send(channel, *payloads)
            scene.take()
        first.rest(0.5)
        second.rest(0.5)
        check_refused(second, "number 0 has other content")
        assert second.delivered(ends[1][1], True) == []
        assert first.delivered(ends[0][1], True) == [0, 1]
        assert rows(b) == [b"stored", b"1"]


def test_headers_are_content(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for value, refused in ((b"1", False), (b"1", False), (b"2", True)):
            scene = client(b)
            (channel,) = scene.attach(channel_headers(name="c", sequence_start=0))
            scene.client.send(channel, b"x", now=scene.pair.now, headers=((b"k", value),))
            scene.rest(0.5)
            assert (scene.closed is not None) is refused


def test_other_content_is_noticed_in_pieces_after_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        sends(client(b), *TEN[:4])
    with bench(tmp_path) as b:
        sends(client(b), *TEN[4:], start=4)
    (tmp_path / "catalog.sqlite").unlink()
    with bench(tmp_path) as b:
        scene = client(b)
        channel = sends(scene, *TEN[:6])
        assert scene.delivered(channel, True) == list(range(6))
        scene.send(channel, b"6", b"other", b"8")
        scene.rest(0.5)
        assert scene.closed is None
        scene.send(channel, b"9")
        scene.rest(0.5)
        check_refused(scene, "other content")
        assert rows(b) == TEN


def test_what_is_the_same_is_told_once_for_each_channel(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        first = client(b)
        sends(first, *TEN, finish=True)
        for _ in range(2):
            scene = client(b)
            channel = sends(scene, *TEN, b"10", finish=True)
            assert scene.end_of(channel) is End.FINISHED
            assert scene.closed is None
        assert rows(b) == [*TEN, b"10"]
        told = [
            (event["first"], event["last"], event["counts"]["deduped"])
            for event in events(b, "repeated")
        ]
        assert told == [(0, 9, 10), (0, 10, 11)]
        assert b.groups.counters.deduped == 21


def test_a_connection_that_breaks_off_leaves_its_repeats_in_the_events(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        first = client(b)
        sends(first, *TEN)
        gone(first)
        second = client(b)
        sends(second, *TEN[3:6], start=3)
        gone(second)
        (event,) = events(b, "repeated")
        assert (event["first"], event["last"], event["counts"]["deduped"]) == (3, 5, 3)
        assert events(b, "disconnected")


def test_who_finishes_below_what_is_stored_is_refused(tmp_path: Path) -> None:
    """It can never be compared; that it is not the same is certain."""
    with bench(tmp_path) as b:
        sends(client(b), *TEN, finish=True)
        second = client(b)
        channel = sends(second, *TEN[:7], finish=True)
        check_refused(second, "ends where more is stored")
        assert second.end_of(channel) is not End.FINISHED


@pytest.mark.parametrize("runs", [3, 4, 8])
def test_who_finishes_inside_an_earlier_run_is_refused(tmp_path: Path, runs: int) -> None:
    """However many runs have ended below and above it."""
    with bench(tmp_path) as b:
        for start in range(0, 3 * runs, 3):
            scene = client(b)
            sends(scene, *TEN[:3], start=start, run_start=start, finish=True)
            gone(scene)
    with bench(tmp_path) as b:  # started again: only sums are known
        for end in range(1, 3 * runs):
            scene = client(b)
            sends(scene, *[b"other"] * end, run_start=0, finish=True)
            check_refused(scene, "other content" if end % 3 == 0 else "ends where more is stored")
        for end in range(3, 3 * runs, 3):
            scene = client(b)
            channel = sends(scene, *TEN[:3] * (end // 3), run_start=0, finish=True)
            assert scene.end_of(channel) is End.FINISHED


def test_a_process_with_fewer_channels_finishes_its_entrypoint_earlier(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for count in (3, 1, 2):
            scene = Scene(b, headers=connection_headers(producer="p", sequence_start=0))
            for number in range(count):
                scene.attach(channel_headers(name=f"c{number}", sequence_start=0))
            scene.client.finish(0, scene.pair.now)
            scene.rest(0.5)
            assert scene.closed is None
            assert scene.end_of(0) is End.FINISHED


def test_a_run_behind_another_one_leaves_the_first_as_it_is(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        sends(client(b), *TEN[:6], finish=True)
        sends(client(b), *TEN[6:], start=6, finish=True)
        for payloads, start in ((TEN[:6], 0), (TEN[6:], 6), (TEN, 0)):
            scene = client(b)
            channel = sends(scene, *payloads, start=start, finish=True)
            assert scene.end_of(channel) is End.FINISHED
        assert rows(b) == TEN


@pytest.mark.parametrize("behind", [4, 6], ids=["next", "behind a hole"])
def test_a_run_with_others_behind_it_is_compared_by_itself(tmp_path: Path, behind: int) -> None:
    """Where these said at which numbers they began."""
    with bench(tmp_path) as b:
        runs = [(0, TEN[:4]), (behind, TEN[4:7]), (behind + 3, TEN[7:])]
        for start, payloads in runs:
            sends(client(b), *payloads, start=start, run_start=start, finish=True)
    with bench(tmp_path) as b:
        for start, payloads in runs:
            scene = client(b)
            channel = sends(scene, *payloads, start=start, run_start=start, finish=True)
            assert scene.end_of(channel) is End.FINISHED
        for start, payloads in runs:
            scene = client(b)
            sends(scene, b"other", *payloads[1:], start=start, run_start=start, finish=True)
            check_refused(scene, "other content")
        if behind == 4:  # two of them together
            scene = client(b)
            assert scene.end_of(sends(scene, *TEN[:7], run_start=0, finish=True)) is End.FINISHED
            scene = client(b)
            sends(scene, *reversed(TEN[:7]), run_start=0, finish=True)
            check_refused(scene, "other content")
        assert rows(b) == TEN


def test_a_producer_that_declares_a_hole_again_is_not_refused(tmp_path: Path) -> None:
    """The acks of all were lost: it sends all again, and finishes at the hole."""
    with bench(tmp_path) as b:
        for _ in range(2):
            scene = client(b)
            for start in (0, 20):
                channel = sends(scene, *TEN, start=start, finish=start == 0)
            scene.client.finish(channel, scene.pair.now)
            scene.rest(0.3)
            assert scene.closed is None
            assert scene.end_of(channel) is End.FINISHED
        assert len(rows(b)) == 20


def test_the_un_acked_rest_may_come_again(tmp_path: Path) -> None:
    """A producer that reconnects begins above what it knows to be stored."""
    with bench(tmp_path) as b:
        first = client(b)
        sends(first, *TEN[:8])
        gone(first)
        second = client(b)
        channel = sends(second, *TEN[5:], start=5, finish=True)
        assert second.closed is None
        assert second.end_of(channel) is End.FINISHED
        assert rows(b) == TEN


def test_rows_that_were_withdrawn_are_not_counted_as_stored(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        first = client(b)
        (channel,) = first.attach(channel_headers(name="c", sequence_start=0))
        first.send(channel, *TEN[:5])
        first.rest(0.3)
        first.send(channel, b"withdrawn")
        first.take()
        first.client.cancel(channel, first.pair.now)
        first.take()
        first.rest(0.5)
        assert rows(b) == TEN[:5]
        second = client(b)
        channel = sends(second, *TEN, finish=True)
        assert second.end_of(channel) is End.FINISHED
        assert rows(b) == TEN


def test_batches_of_a_sink_that_does_not_ask(tmp_path: Path) -> None:
    def batch(number: int, *payloads: bytes, refused: bool = False) -> None:
        scene = client(b, "w")
        headers = channel_headers(
            name="c",
            sequence_start=first_number(number),
            extra=((PARTITION, b"0"), (BATCH, decimal(number))),
        )
        (channel,) = scene.attach(headers)
        scene.send(channel, *payloads)
        scene.client.finish(channel, scene.pair.now)
        scene.rest(0.5)
        assert (scene.closed is not None) is refused

    with bench(tmp_path) as b:
        for number in range(3):
            batch(number, *TEN[:3])
        batch(2, *TEN[:3])
        batch(2, TEN[0], TEN[2], TEN[1], refused=True)
        batch(1, *TEN[:3])
        batch(1, b"late", b"rows", b"of a batch that is done", refused=True)
        # fewer rows on one channel: the rest may come on another one
        batch(2, TEN[0])
        number = first_number(1)
        assert b.spool.sequences.content("w/0", "c", number, number + 1).total is None


def test_what_an_earlier_release_stored_is_not_compared(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        append = b.spool.append
        b.spool.append = lambda *given: append(*given[:3])  # type: ignore[method-assign]
        sends(client(b), *TEN, finish=True)
    with bench(tmp_path) as b:
        scene = client(b)
        sends(scene, *reversed(TEN), b"more", finish=True)
        assert scene.closed is None
        assert len(rows(b)) == 11
        assert events(b, "repeated")[0]["counts"]["deduped"] == 10


def test_what_was_forgotten_is_not_compared(tmp_path: Path) -> None:
    with bench(tmp_path, max_ranges=2) as b:
        for start in (0, 10, 20, 30):
            sends(client(b), b"%d" % start, start=start)
    with bench(tmp_path, max_ranges=2) as b:
        scene = client(b)
        sends(scene, *(b"x" for _ in range(31)))
        assert scene.closed is None
        assert b.spool.sequences.content("p", "c", 0, 2**62).total is None


def test_the_news_of_the_client_side_end_there(tmp_path: Path) -> None:
    """Whatever is under way behind the refusal does no harm."""
    with bench(tmp_path) as b:
        sends(client(b), *TEN)
        scene = client(b)
        (channel, other) = scene.attach(
            channel_headers(name="c", sequence_start=0), channel_headers(name="d")
        )
        scene.send(channel, *reversed(TEN))
        scene.send(other, b"stored")
        scene.pair.run(0.2)
        events = scene.pair.events(Side.SERVER)
        scene.session.on_events(_TURNS, events)
        scene.send(other, b"more")
        scene.rest(0.5)
        check_refused(scene, "other content")


class _Turns:
    unsent = 0

    def kick(self) -> None:
        pass


_TURNS: Any = _Turns()

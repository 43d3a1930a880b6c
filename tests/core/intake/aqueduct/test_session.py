"""Sessions of an intake against a client engine, on a virtual clock and a link with chances."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from aqueduct_core.aqueduct.conventions.headers import (
    CODE_REJECTED,
    channel_headers,
    connection_headers,
)
from aqueduct_core.aqueduct.engine import Attach, Mode, Side
from aqueduct_core.aqueduct.events import Closed, End
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.intake.aqueduct.open_channels import MAX_PATH
from tests.core.intake.bench import bench
from tests.core.intake.scene import Scene, Turns, of
from tests.support.pair import LinkShape
from tests.support.rules import rule


@rule("AQ-ACK-15", "AQ-LIFE-15")
def test_messages_are_acked_after_storage_and_the_finish_waits_for_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a", b"b")
        scene.client.finish(channel, scene.pair.now)
        scene.pair.run(0.05)
        scene.session.on_events(Turns(), scene.pair.events(Side.SERVER))  # type: ignore[arg-type]
        scene.pair.run(2.0)
        scene.told += scene.pair.events(Side.CLIENT)
        assert (scene.delivered(channel, True), scene.end_of(channel)) == ([], None)
        scene.rest(0.5)
        assert scene.delivered(channel, True) == [0, 1]
        assert scene.end_of(channel) is End.FINISHED
        assert [row["value"] for row in of(b, "c")] == [b"a", b"b"]
        assert scene.context.counters.finished == 1


def test_a_refused_client_gets_a_reason_and_leaves_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, headers=connection_headers(token="t"), refusal=lambda token: f"no {token}")
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a")
        scene.rest(1.0)
        assert scene.closed == Closed(CODE_REJECTED, "no t", True)
        assert (b.rows(), scene.session.channels) == ([], 0)
        assert scene.context.counters.rejected == 1
        assert scene.pair.server.open_channels == 0


@pytest.mark.parametrize(
    "headers",
    [
        ((b"producer", b"x" * 65),),
        ((b"producer", b"\xff"),),
        ((b"producer", b"a"), (b"producer", b"b")),
        ((b"sequence-start", b"-1"),),
        ((b"authorization", b"Basic x"),),
    ],
)
def test_bad_connection_headers_are_refused(tmp_path: Path, headers: Headers) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, headers=headers)
        scene.rest(0.5)
        assert scene.closed is not None
        assert scene.closed.code == CODE_REJECTED


def test_a_channel_with_a_bad_name_is_closed_and_the_others_go_on(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        bad, good = scene.attach(((b"name", b"\xff\xfe"),), channel_headers(name="good"))
        scene.send(bad, b"lost")
        scene.send(good, b"kept")
        scene.rest(1.0)
        assert scene.end_of(bad) is End.CLOSED
        assert [row["value"] for row in b.rows()] == [b"", b"kept"]


def test_the_token_is_not_stored(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        headers = connection_headers(token="secret", producer="p", extra=((b"site", b"x"),))
        scene = Scene(b, headers=headers)
        scene.attach(())
        scene.rest(0.5)
        (row,) = b.rows()
        assert row["connectionHeaders"] == [
            {"key": "producer", "value": b"p"},
            {"key": "site", "value": b"x"},
        ]


@rule("AQ-LIFE-8")
def test_halves_that_flow_away_are_finished_at_once(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (away,) = scene.attach((), sends=False)
        scene.rest(0.5)
        assert scene.end_of(away) is End.FINISHED
        assert b.rows()[0]["attachments"][0]["direction"] == "send"


def test_a_producer_that_comes_back_is_stored_once(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        first = Scene(b, headers=connection_headers(producer="p", sequence_start=0))
        (channel,) = first.attach(channel_headers(name="c", sequence_start=0))
        first.send(channel, b"0", b"1", b"2")
        first.rest(0.3)
        first.pair.server.handle(LinkLost(0, "gone", False), first.pair.now)
        first.rest(0.2)
        assert first.ended == [first.session]
        second = Scene(b, headers=connection_headers(producer="p", sequence_start=1))
        (channel,) = second.attach(channel_headers(name="c", sequence_start=1))
        second.send(channel, b"1", b"2", b"3")
        second.client.finish(channel, 0.0)
        second.rest(0.5)
        assert second.delivered(channel, True) == [0, 1, 2]
        assert [(row["value"], row["messageNum"]) for row in of(b, "c")] == [
            (b"0", 0),
            (b"1", 1),
            (b"2", 2),
            (b"3", 3),
        ]
        assert b.groups.counters.deduped == 2


def test_fault_33_a_producer_that_repeats_its_whole_history_is_stored_once(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(3):
            scene = Scene(b, headers=connection_headers(producer="p", sequence_start=0))
            (channel,) = scene.attach(channel_headers(name="c", sequence_start=0))
            scene.send(channel, *(b"%d" % number for number in range(100)))
            scene.rest(0.5)
            assert scene.delivered(channel, True) == list(range(100))
        assert [row["value"] for row in of(b, "c")] == [b"%d" % number for number in range(100)]


def test_a_producer_that_keeps_no_numbers_is_not_deduplicated(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(2):
            scene = Scene(b, headers=connection_headers(producer="p"))
            (channel,) = scene.attach(channel_headers(name="c"))
            scene.send(channel, b"new each time")
            scene.rest(0.5)
        assert len(of(b, "c")) == 2


@rule("AQ-LIFE-14")
def test_of_a_cancelled_channel_what_is_written_stays_and_the_rest_is_dropped(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"written")
        scene.rest(0.3)
        scene.send(channel, b"in the open group")
        scene.take()
        scene.client.cancel(channel, scene.pair.now)
        scene.take()
        scene.rest(1.0)
        assert scene.context.counters.cancelled == 1
        assert scene.closed is None
        assert [row["value"] for row in of(b, "c")] == [b"written"]
        assert (b.groups.counters.rows, b.groups.counters.withdrawn) == (2, 1)
        assert scene.pair.tally[Side.SERVER].credited == scene.pair.tally[Side.SERVER].arrived


def test_rows_of_a_lost_connection_are_stored_and_nothing_is_acked(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a")
        scene.pair.run(0.05)
        scene.session.on_events(Turns(), scene.pair.events(Side.SERVER))  # type: ignore[arg-type]
        scene.pair.server.handle(LinkLost(0, "gone", False), scene.pair.now)
        scene.session.on_events(Turns(), scene.pair.events(Side.SERVER))  # type: ignore[arg-type]
        assert scene.session.sent
        scene.rest(1.0)
        assert scene.delivered(channel, True) == []
        assert [row["value"] for row in of(b, "c")] == [b"a"]


def test_a_deep_tree_has_short_names(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(())
        for _ in range(100):
            sent = scene.client.send(channel, b"", now=scene.pair.now, attach=[Attach(True)])
            (channel,) = sent.attached
            scene.step()
        scene.send(channel, b"deep")
        scene.rest(0.5)
        names = [row["channel"] for row in b.rows()]
        assert len(set(names)) == 102
        assert max(map(len, names)) <= MAX_PATH
        assert names[-1].startswith("…/")
        assert names[-1].endswith(f"/{channel}")


@rule("AQ-ACK-6", "AQ-ACK-10")
def test_unreliable_messages_are_rows_exactly_if_they_are_acked(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, shape=LinkShape(0.02, 0.05, loss=0.3), seed=7)
        (channel,) = scene.attach(channel_headers(name="u"))
        for number in range(300):
            scene.send(channel, b"%d" % number, mode=Mode.UNRELIABLE)
            if number % 20 == 0:
                scene.step()
        scene.client.finish(channel, scene.pair.now)
        scene.rest()
        acked, nacked = scene.delivered(channel, True), scene.delivered(channel, False)
        assert len(nacked) == scene.pair.lost_datagrams > 50
        assert sorted(acked + nacked) == list(range(300))
        assert sorted(row["messageNum"] for row in of(b, "u")) == acked
        assert scene.context.counters.nacked == len(nacked)
        assert scene.end_of(channel) is End.FINISHED


def test_without_room_unreliable_messages_are_nacked_and_reliable_ones_wait(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=64_000) as b:
        scene = Scene(b)
        filler, late, lossy = scene.attach(*(channel_headers(name=name) for name in "flu"))
        scene.send(filler, bytes(70_000))
        scene.rest(0.3)
        assert b.spool.full
        scene.send(late, b"late")
        scene.send(lossy, b"a", b"b", mode=Mode.UNRELIABLE)
        scene.client.finish(lossy, scene.pair.now)
        scene.rest(3.0)
        assert scene.delivered(lossy, False) == [0, 1]
        assert scene.end_of(lossy) is None  # a finish is an event, and there is no room for it
        assert scene.delivered(late, True) == []
        b.pass_all()
        while b.spool.full:
            b.spool.trim()
        scene.rest(0.5)
        assert scene.delivered(late, True) == [0]
        assert scene.end_of(lossy) is End.FINISHED
        assert b.groups.counters.unreliable_dropped == 2


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_link_does_rows_are_what_was_acked(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with bench(tmp_path, partitions=3) as b:
        shape = LinkShape(chance.random() * 0.05, chance.random() * 0.2, 0.2, cut=0.3)
        scene = Scene(b, shape=shape, seed=seed, headers=connection_headers(producer="p"))
        modes = {}
        for name in ("a", "b", "c", "d", "e"):
            (channel,) = scene.attach(channel_headers(name=name, sequence_start=10))
            modes[name] = channel, chance.choice(list(Mode))
        sent = dict.fromkeys(modes, 0)
        for _ in range(200):
            name = chance.choice(list(modes))
            channel, mode = modes[name]
            scene.send(channel, b"%s %d" % (name.encode(), sent[name]), mode=mode)
            sent[name] += 1
            if chance.random() < 0.2:
                scene.step(chance.random() * 0.1)
        for channel, _ in modes.values():
            scene.client.finish(channel, scene.pair.now)
        scene.rest(6.0)
        for name, (channel, mode) in modes.items():
            assert scene.end_of(channel) is End.FINISHED
            rows = of(b, name)
            start = 0 if mode is Mode.UNRELIABLE else 10
            stored = [row["messageNum"] - start for row in rows]
            assert sorted(stored) == scene.delivered(channel, True)
            assert all(row["value"] == b"%s %d" % (name.encode(), row["messageNum"] - start)
                       for row in rows)  # fmt: skip
            if mode is not Mode.UNRELIABLE:
                assert sorted(stored) == list(range(sent[name]))
            if mode is Mode.ORDERED:
                assert stored == sorted(stored)
        assert scene.pair.tally[Side.SERVER].credited == scene.pair.tally[Side.SERVER].arrived

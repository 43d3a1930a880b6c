"""Producers that come back to an intake: holes that they declare, and the bounds of its memory."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.producer import Producer
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.headers import channel_headers, connection_headers
from aqueduct_core.aqueduct.events import End
from aqueduct_core.engine.inputs import LinkLost
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of
from tests.support.intake_process import Site
from tests.support.waiting import LONG


def dialled(b: Bench, producer: str = "p") -> Scene:
    return Scene(b, headers=connection_headers(producer=producer, sequence_start=0))


def send(scene: Scene, name: str, first: int, stop: int, *, finish: bool = False) -> int:
    """On a new channel of this name, messages with these logical numbers."""
    (channel,) = scene.attach(channel_headers(name=name, sequence_start=first))
    scene.send(channel, *(b"%d" % number for number in range(first, stop)))
    scene.rest(0.3)
    if finish:
        scene.client.finish(channel, scene.pair.now)
        scene.rest(0.3)
        assert scene.end_of(channel) is End.FINISHED
    return channel


def gaps(b: Bench, channel: str = "c") -> list[tuple[int, int]]:
    return [
        (event["first"], event["last"])
        for event in b.events()
        if event["kind"] == "gap" and event["channel"] == channel
    ]


def numbers(b: Bench, channel: str = "c") -> list[int]:
    return [row["messageNum"] for row in of(b, channel)]


def kinds(b: Bench, channel: str = "c") -> list[str]:
    return [event["kind"] for event in b.events() if event["channel"] == channel]


def test_a_hole_is_told_once_with_its_ends_before_the_channel_goes_on(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        send(scene, "c", 0, 10, finish=True)
        send(scene, "c", 100, 105, finish=True)
        assert gaps(b) == [(10, 99)]
        assert kinds(b) == ["opened", "finished", "gap", "opened", "finished"]
        (event,) = [event for event in b.events() if event["kind"] == "gap"]
        assert (event["producer"], event["connectionId"]) == ("p", scene.session.id)
        # the same start again, from this connection and another one, and after a restart
        send(scene, "c", 100, 105)
        send(dialled(b), "c", 100, 108)
        assert gaps(b) == [(10, 99)]
    with bench(tmp_path) as b:
        send(dialled(b), "c", 105, 110)
        send(dialled(b), "c", 200, 201)
        assert gaps(b) == [(10, 99), (110, 199)]
        assert numbers(b) == [*range(10), *range(100, 110), 200]
        assert b.groups.counters.deduped == 3 + 2  # and the messages that carried the channels


def test_the_same_hole_twice_in_one_group_is_told_once(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        send(scene, "c", 0, 5, finish=True)
        again = channel_headers(name="c", sequence_start=50)
        scene.attach(again, again)
        scene.rest(0.3)
        assert gaps(b) == [(5, 49)]


def test_numbers_that_stand_in_the_open_group_are_no_hole(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        (one,) = scene.attach(channel_headers(name="c", sequence_start=0))
        scene.send(one, b"0", b"1", b"2")
        scene.pair.run(0.05)
        scene.attach(channel_headers(name="c", sequence_start=3))
        scene.rest(0.3)
        assert gaps(b) == []
        assert numbers(b) == [0, 1, 2]


def test_a_channel_of_which_nothing_is_known_begins_where_it_begins(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        send(dialled(b), "c", 1000, 1003)
        send(dialled(b, "another"), "c", 5, 6)
        scene = Scene(b)  # no identity, so no logical numbers
        send(scene, "c", 0, 3)
        send(scene, "c", 70, 71)
        assert gaps(b) == []


def test_a_hole_in_the_midst_of_what_is_known(tmp_path: Path) -> None:
    """Numbers arrived out of order, and the producer gave up those between."""
    with bench(tmp_path) as b:
        scene = dialled(b)
        send(scene, "c", 0, 3, finish=True)
        send(scene, "c", 10, 12, finish=True)
        send(scene, "c", 5, 6, finish=True)  # it broke its word: stored all the same
        send(scene, "c", 20, 21)
        assert gaps(b) == [(3, 9), (12, 19)]
        assert sorted(numbers(b)) == [0, 1, 2, 5, 10, 11, 20]


def test_an_unordered_producer_that_reconnects_below_what_is_stored_leaves_no_hole(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as b:
        first = dialled(b)
        (channel,) = first.attach(channel_headers(name="c", sequence_start=0))
        first.send(channel, *(b"%d" % n for n in range(50)), mode=Mode.UNORDERED)
        first.rest(0.3)
        first.pair.server.handle(LinkLost(0, "gone", False), first.pair.now)
        send(dialled(b), "c", 30, 60)
        assert gaps(b) == []
        assert sorted(numbers(b)) == list(range(60))


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = dialled(b)
        (channel,) = scene.attach(((b"name", b"c\0gaps"), (b"sequence-start", b"0")))
        scene.rest(0.3)
        assert scene.end_of(channel) is End.CLOSED


def test_fault_33_history_beyond_the_memory_is_stored_again_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At most two ranges are remembered of a channel: the lowest go first."""
    with bench(tmp_path, max_ranges=2) as b:
        scene = dialled(b)
        for first in (0, 100, 200):
            send(scene, "c", first, first + 10, finish=True)
        assert b.spool.sequences.forgotten == 2  # one of numbers, and one of where runs ended
        assert b.groups.counters.dedupe_window_exceeded == 0
    with bench(tmp_path, max_ranges=2) as b, caplog.at_level(logging.WARNING):
        again = dialled(b)
        for first in (0, 100, 200):
            send(again, "c", first, first + 10)
        counters = b.groups.counters
        assert counters.dedupe_window_exceeded == 10
        # those beyond the memory once more, the others not
        assert numbers(b) == [*range(10), *range(100, 110), *range(200, 210), *range(10)]
        assert [r.message for r in caplog.records if "dedupe_window" in r.message]
        fresh = b.groups.counters.rows
        send(again, "c", 300, 305)
        assert counters.dedupe_window_exceeded == 10
        assert counters.rows == fresh + 5 + 1  # and the message that carried it


def test_fault_33_channels_that_were_forgotten_are_stored_again_and_counted(
    tmp_path: Path,
) -> None:
    """Of so many channels of all producers something is remembered: the unused go first."""

    def all_of(b: Bench, names: str) -> None:
        for name in names:
            send(dialled(b), name, 0, 5)

    with bench(tmp_path, max_tracks=4) as b:
        all_of(b, "abcdef")
        assert b.groups.counters.dedupe_window_exceeded == 0
    with bench(tmp_path, max_tracks=4) as b:
        all_of(b, "fa")
        assert (numbers(b, "f"), numbers(b, "a")) == ([*range(5)], [*range(5), *range(5)])
        assert b.groups.counters.dedupe_window_exceeded == 5
        all_of(b, "xyz")
        assert b.groups.counters.dedupe_window_exceeded == 5


def test_fault_33_inside_the_memory_the_whole_history_is_stored_once(tmp_path: Path) -> None:
    history: dict[str, Any] = {"a": 50, "b": 5, "c": 200}
    for _ in range(3):
        with bench(tmp_path) as b:
            for name, count in history.items():
                send(dialled(b), name, 0, count)
            for name, count in history.items():
                assert numbers(b, name) == list(range(count))
            assert b.groups.counters.dedupe_window_exceeded == 0


def test_a_hole_that_a_real_producer_declares_is_an_event_across_a_kill(site: Site) -> None:
    async def first(url: str) -> None:
        async with Producer(url, producer="p", tls=site.client_tls) as producing:
            readings = producing.channel("readings")
            await readings.send_many([b"x"] * 10)
            readings.skip_to(50)
            await readings.send_many([b"y"] * 5)
            await readings.stored()
            await producing.cancel()

    async def again(url: str) -> None:
        async with Producer(url, producer="p", tls=site.client_tls) as producing:
            readings = producing.channel("readings", start=53, repeats=True)
            await readings.send_many([b"y"] * 4)
            readings.skip_to(60)
            await readings.finish()

    with site.intake() as intake:
        asyncio.run(asyncio.wait_for(first(intake.url), LONG))
    with site.intake() as intake:
        asyncio.run(asyncio.wait_for(again(intake.url), 30))
        rows = [row for row in intake.rows() if row["channel"] == "readings"]
        assert [row["messageNum"] for row in rows] == [*range(10), *range(50, 57)]
        events = [event for event in intake.events() if event["kind"] == "gap"]
        assert [(e["channel"], e["first"], e["last"]) for e in events] == [
            ("readings", 10, 49),
            ("readings", 57, 59),
        ]

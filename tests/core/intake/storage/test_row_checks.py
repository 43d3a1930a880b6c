"""Channels that name the source of their rows: stored once by it, and closed when they say less."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from aqueduct_core.aqueduct.conventions.dedupe.questions import Asked, KnownNumbers, Question
from aqueduct_core.aqueduct.conventions.headers import channel_headers, connection_headers
from aqueduct_core.aqueduct.events import End
from aqueduct_core.engine.checksum import UNKNOWN, BatchPart, Checks, of_batches
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.storage.row_checks import RowChecks
from aqueduct_core.primitives.number_set import BLOCK
from aqueduct_core.primitives.ranges import Numbers
from tests.core.intake.aqueduct.test_answering import LINE, answers, ask
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of
from tests.core.intake.storage.test_repeats import check_refused

SOURCE = (b"source", b"spool/3")


def of_source(scene: Scene, rows: dict[int, bytes]) -> int:
    """A channel with these payloads, by their offsets."""
    (channel,) = scene.attach(channel_headers(name="c", extra=(SOURCE,)))
    for offset, payload in rows.items():
        headers = ((b"source-offset", b"%d" % offset),)
        scene.client.send(channel, payload, now=scene.pair.now, headers=headers)
    return channel


def test_rows_are_stored_once_in_whatever_order_they_come(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, headers=connection_headers(producer="w"))
        of_source(scene, {3: b"3", 9: b"9", 5: b"5"})
        of_source(scene, {9: b"9", 4: b"4", 3: b"3"})
        scene.rest(0.5)
        again = Scene(b, headers=connection_headers(producer="w"))
        channel = of_source(again, {5: b"5", 6: b"6", 4: b"4"})
        again.rest(0.5)
        assert again.delivered(channel, True) == [0, 1, 2]
        found = {(row["value"], row["messageNum"], row["producer"]) for row in of(b, "c")}
        assert found == {(b"%d" % n, n, "w/spool/3") for n in (3, 4, 5, 6, 9)}
        assert len(of(b, "c")) == 5
        assert b.groups.counters.deduped == 4
        assert not any(row["headers"] for row in of(b, "c"))


def test_another_writer_or_source_has_rows_of_its_own(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for producer in ("w", "v"):
            scene = Scene(b, headers=connection_headers(producer=producer))
            of_source(scene, {3: b"3"})
            scene.rest(0.3)
        assert len(of(b, "c")) == 2


@pytest.mark.parametrize("value", [None, b"x"])
def test_a_channel_that_does_not_say_which_rows_is_closed(
    tmp_path: Path, value: bytes | None
) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, headers=connection_headers(producer="w"))
        (channel,) = scene.attach(channel_headers(name="c", extra=(SOURCE,)))
        headers = () if value is None else ((b"source-offset", value),)
        scene.client.send(channel, b"?", now=scene.pair.now, headers=headers)
        good = of_source(scene, {3: b"3"})
        scene.rest(0.5)
        assert scene.end_of(channel) is End.CLOSED
        assert scene.delivered(good, True) == [0]
        assert [row["value"] for row in of(b, "c")] == [b"3"]
        assert scene.session.channels == 2  # the entrypoint and the good one


def test_without_a_producer_there_is_nobody_whose_rows_they_are(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(2):
            scene = Scene(b)
            of_source(scene, {3: b"3"})
            scene.rest(0.3)
        assert len(of(b, "c")) == 2


def writer(b: Bench) -> Scene:
    return Scene(b, headers=connection_headers(producer="w"))


def asked(scene: Scene, *channels: str) -> list[KnownNumbers]:
    """What is told of repeats of rows of the source."""
    question = Question([Asked(channel, *LINE) for channel in channels], source="spool/3")
    (answer,) = answers(scene, ask(scene, question.to_payload()))
    return list(answer.channels)


@pytest.mark.parametrize("where", ["a later group", "the same group", "the same run"])
def test_another_row_of_the_same_place_is_refused(tmp_path: Path, where: str) -> None:
    """As of a source row that became two, in tasks of their own."""
    with bench(tmp_path) as b:
        first = writer(b)
        if where == "the same run":
            (channel,) = first.attach(channel_headers(name="c", extra=(SOURCE,)))
            for payload in (b"5", b"five"):
                headers = ((b"source-offset", b"5"),)
                first.client.send(channel, payload, now=first.pair.now, headers=headers)
            first.rest(0.5)
            check_refused(first, "number 5 has other content")
            return
        channel = of_source(first, {3: b"3", 5: b"5"})
        second = first
        if where == "a later group":
            first.rest(0.5)
            assert first.delivered(channel, True) == [0, 1]
            second = writer(b)
        other = of_source(second, {4: b"4", 5: b"five"})
        second.rest(0.5)
        check_refused(second, "channel 'c' of 'w/spool/3' repeats 1 of the numbers 5 to 5")
        assert second.delivered(other, True) == []
        assert [row["value"] for row in of(b, "c")] == [b"3", b"5", b"4"]


def test_a_row_with_other_headers_is_another_one(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for color in (b"red", b"red", b"blue"):
            scene = writer(b)
            (channel,) = scene.attach(channel_headers(name="c", extra=(SOURCE,)))
            headers = ((b"source-offset", b"5"), (b"color", color))
            scene.client.send(channel, b"5", now=scene.pair.now, headers=headers)
            scene.rest(0.5)
            if color == b"blue":
                check_refused(scene, "number 5")
            else:
                assert scene.delivered(channel, True) == [0]


def test_rows_that_were_withdrawn_may_come_again_as_others(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = writer(b)
        given_up = of_source(scene, {5: b"5"})
        scene.client.cancel(given_up, scene.pair.now)
        scene.rest(0.5)
        again = writer(b)
        channel = of_source(again, {5: b"five"})
        again.rest(0.5)
        stored = [row["value"] for row in of(b, "c")]
        assert stored == [b"five"]
        assert again.delivered(channel, True) == [0]


def test_what_is_told_of_repeats(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = writer(b)
        of_source(scene, {n: b"%d" % n for n in (3, 9, 600, 2_000)})
        scene.rest(0.5)
        assert asked(scene, "c", "d") == [KnownNumbers(None, 0, uncompared=0)] * 2
        again = writer(b)
        of_source(again, {n: b"%d" % n for n in (9, 600, 700)})
        again.rest(0.5)
        assert asked(again, "c") == [KnownNumbers(None, 2, uncompared=0)]
        assert asked(again, "c") == [KnownNumbers(None, 0, uncompared=0)]
    with bench(tmp_path) as b:  # started again: what its rows held is on the disk only
        scene = writer(b)
        of_source(scene, {n: b"%d" % n for n in (3, 700, 701)})
        scene.rest(0.5)
        assert asked(scene, "c") == [KnownNumbers(None, 2, uncompared=2)]
        again = writer(b)
        of_source(again, {701: b"?"})
        again.rest(0.5)
        check_refused(again, "number 701")


def test_what_is_remembered_of_rows_is_bounded() -> None:
    def numbers(*given: int) -> Numbers:
        return np.array(given, np.int64)

    def of(*given: int) -> Checks:
        return np.array(given, np.uint32)

    checks = RowChecks(most=3 * BLOCK)
    track = "w/spool/3", "c"
    for block in range(4):
        checks.note(track, numbers(BLOCK * block + 7, BLOCK * block), of(0, block))
    assert checks.compare(track, numbers(7, 0), of(0, 0)) == ([], 2)
    several = numbers(3 * BLOCK, BLOCK + 7, BLOCK + 8)
    assert checks.compare(track, several, of(3, 0, 0)) == ([], 1)
    assert checks.compare(track, numbers(3 * BLOCK, BLOCK), of(4, 5)) == ([BLOCK, 3 * BLOCK], 0)
    assert checks.compare(("w/spool/4", "c"), numbers(BLOCK), of(1)) == ([], 1)


def test_numbers_that_follow_each_other_are_remembered_as_single_ones_are() -> None:
    checks = RowChecks()
    track = "p", "c"
    first, count = 3 * BLOCK - 2, BLOCK + 5
    contents = np.arange(count, dtype=np.uint32)
    checks.note(track, range(first, first + count), contents)
    assert checks.compare(track, range(first, first + count), contents) == ([], 0)
    wider = np.concatenate([contents[:1], contents, contents[:3]])
    assert checks.compare(track, range(first - 1, first + count + 3), wider) == ([], 4)
    for at in (0, 1, 2, BLOCK + 1, BLOCK + 2, count - 1):
        other = contents.copy()
        other[at:] += 1
        assert checks.compare(track, range(first, first + count), other) == (
            [*range(first + at, first + count)],
            0,
        )
        single = np.array([first + at], np.int64)
        assert checks.compare(track, single, other[at : at + 1]) == ([first + at], 0)
        assert checks.compare(track, single, contents[at : at + 1]) == ([], 0)


def test_what_has_no_content_is_not_compared() -> None:
    checks = RowChecks()
    track, pair = ("p", "c"), np.array([3, 4], np.int64)
    unknown = np.array([UNKNOWN, 7], np.uint32)
    checks.note(track, pair, unknown)
    assert checks.compare(track, pair, np.array([5, 7], np.uint32)) == ([], 1)
    assert checks.compare(track, pair, np.array([5, UNKNOWN], np.uint32)) == ([], 2)


def test_a_message_that_was_given_up_has_no_content() -> None:
    offsets = np.array([0, 1, 1, 3], np.int64)
    batch = MessageBatch(0, True, 0, 3, b"abc", offsets, 3, absent=(1,))
    _, checks = of_batches([BatchPart(batch, 0, 3, 0)])
    assert checks.tolist() == [crc32(b"a"), UNKNOWN, crc32(b"bc")]
    _, rest = of_batches([BatchPart(batch, 1, 3, 1)])
    assert rest.tolist() == [UNKNOWN, crc32(b"bc")]

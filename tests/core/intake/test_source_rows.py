"""Channels that name the source of their rows: stored once by it, and closed when they say less."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.aqueduct.conventions import channel_headers, connection_headers
from aqueduct_core.aqueduct.news import End
from tests.core.intake.bench import bench
from tests.core.intake.scene import Scene
from tests.core.intake.test_session import of

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

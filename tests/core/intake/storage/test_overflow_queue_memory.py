"""Memory while the spool is full, counted, whatever producers do."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from aqueduct_core.aqueduct.conventions.headers import channel_headers
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.events import End
from aqueduct_core.intake.storage.overflow_queue import ALL_ITEMS, LISTENER_ITEMS
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene
from tests.support.rules import rule


def fill(b: Bench) -> None:
    scene = Scene(b)
    scene.send(0, bytes(70_000))
    scene.rest(0.3)
    assert b.spool.full


def free(b: Bench) -> None:
    b.pass_all()
    while b.spool.full:
        b.spool.trim()


def storm(scene: Scene, channels: int) -> None:
    """Opens channels and gives them up, many in a message, as fast as a peer can."""
    now = scene.pair.now
    sent = scene.client.send(0, b"", now=now, attach=[Attach(True)] * channels)
    for channel in sent.attached:
        scene.client.cancel(channel, now)


@rule("AQ-LIFE-14")
def test_channels_opened_and_given_up_without_end_take_bounded_memory(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        scene = Scene(b)
        scene.rest(0.2)
        peaks = []
        for turn in range(40):
            storm(scene, 200)
            scene.take(0.02)
            if turn in (10, 39):
                peaks.append(b.groups.held_bytes)
        assert scene.client.open_channels > 1
        assert b.groups.held_bytes < 2 * LISTENER_ITEMS * 2_000
        assert peaks[1] == peaks[0]  # it rests: its streams wait, without credit
        free(b)
        for _ in range(200):
            scene.step(0.02)
            if b.spool.full:
                free(b)
        kinds = [e["kind"] for e in b.events()]
        assert kinds.count("opened") == 40 * 200 + 2
        assert kinds.count("cancelled") == 40 * 200
        assert (b.groups.held_bytes, b.groups.holding) == (0, False)
        assert scene.closed is None


def test_many_connections_wait_at_their_own_end(tmp_path: Path) -> None:
    """Each may bring up to its bound of runs; what it sends beyond stays in its streams."""
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        scenes = [Scene(b, seed=number) for number in range(30)]
        for scene in scenes:
            scene.rest(0.1)
        for turn in range(120):
            for scene in scenes:
                for _ in range(10):
                    scene.send(0, b"%06d" % turn)
                    scene.take(0.011)
        held = b.groups.held_bytes
        assert held <= min(ALL_ITEMS, 30 * (LISTENER_ITEMS + 30)) * 1_100
        assert all(scene.delivered(0, True) == [] for scene in scenes)
        for _ in range(300):
            free(b)
            for scene in scenes:
                scene.step(0.02)
            if not b.groups.holding and all(
                len(scene.delivered(0, True)) == 1200 for scene in scenes
            ):
                break
        for scene in scenes:
            assert scene.delivered(0, True) == list(range(1200))
        assert b.groups.held_bytes == 0


def test_in_a_crowd_a_new_connection_waits_for_its_answer(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=64_000) as b:
        fill(b)
        crowd = [Scene(b, seed=number) for number in range(4)]
        for scene in crowd:
            scene.rest(0.1)
        while not b.groups.crowded:
            for scene in crowd:
                storm(scene, 250)
                scene.take(0.02)
                scene.session.resume()  # as if it had been let go: the crowd itself must hold
        late = Scene(b)
        (channel,) = late.attach(channel_headers(name="late"))
        late.send(channel, b"a")
        late.client.finish(channel, late.pair.now)
        late.rest(1.0)
        assert late.session.channels == 0
        for _ in range(100):
            free(b)
            late.step(0.02)
            for scene in crowd:
                scene.step(0.02)
        assert late.end_of(channel) is End.FINISHED
        assert [e["kind"] for e in b.events() if e["channel"] == "late"] == ["opened", "finished"]


def test_an_attached_channel_that_carries_nothing_is_small(tmp_path: Path) -> None:
    """Of the channels that a peer may open by the ten thousand, at both ends together."""
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.rest(0.2)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(10):
                scene.attach(*[() for _ in range(100)])
                scene.rest(0.3)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert scene.session.channels == scene.pair.server.open_channels == 1_001
        print((after - before) / 1_000)
        assert (after - before) / 1_000 < 3_500

"""Asking for channels, and what becomes of them, on a virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.conventions.headers import channel_headers, connection_headers
from aqueduct_core.aqueduct.events import Closed, End
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from aqueduct_core.intake.aqueduct.subscriptions import Subscriptions
from tests.core.intake.aqueduct.client_scene import AskingScene, settings
from tests.core.intake.bench import Bench, bench
from tests.support.rules import rule


def demand(*names: str, **given: Any) -> Subscriptions:
    return Subscriptions("remote:4433", settings(*names, **given))


def rows(b: Bench) -> list[dict[str, Any]]:
    return b.rows()


def of(b: Bench, channel: str) -> list[Any]:
    return [row["value"] for row in rows(b) if row["channel"] == channel]


def test_each_name_is_asked_for_with_its_payload_and_headers(tmp_path: Path) -> None:
    wanted = AqueductConnect(
        endpoints=("remote:4433",),
        subscriptions=(
            Subscription("a", (("from", "start"),), '{"get": "{name}"}'),
            Subscription("b"),
        ),
    )
    with bench(tmp_path) as b:
        scene = AskingScene(b, Subscriptions("remote:4433", wanted))
        scene.rest()
        assert scene.requests == [
            (b'{"get": "a"}', ((b"from", b"start"),), ((b"name", b"a"),)),
            (b"", (), ((b"name", b"b"),)),
        ]
        assert (scene.subscriptions.requested, scene.subscriptions.open) == (2, 2)


def test_without_names_there_is_one_empty_request(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand())
        scene.rest()
        assert scene.requests == [(b"", (), ())]
        (channel,) = scene.asked[""]
        scene.send(channel, b"x")
        scene.finish(channel)
        scene.rest()
        assert of(b, str(channel)) == [b"x"]
        assert scene.subscriptions.settled


@rule("AQ-ACK-15", "AQ-LIFE-15", "AQ-LIFE-24")
def test_rows_are_stored_and_a_finish_ends_the_wish_and_the_connection(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a"), headers=connection_headers(producer="remote-1"))
        scene.rest()
        (channel,) = scene.asked["a"]
        scene.send(channel, b"0", b"1", b"2")
        scene.finish(channel)
        scene.rest()
        assert of(b, "a") == [b"0", b"1", b"2"]
        assert {row["producer"] for row in rows(b)} == {"remote-1"}
        assert scene.end_of(channel) is End.FINISHED
        assert (scene.subscriptions.finished, scene.subscriptions.settled, scene.asking.idle) == (
            1,
            True,
            True,
        )
        scene.asking.leave()
        scene.rest()
        assert scene.asking.left
        scene.session.shutdown(0, "")
        scene.rest()
        assert scene.over == [Closed(0, "", False)]
        assert scene.subscriptions.failures == 0


def test_a_wish_waits_for_all_channels_below_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a"))
        scene.rest()
        (channel,) = scene.asked["a"]
        child = scene.attach(channel, channel_headers(name="a/child"))
        grandchild = scene.attach(child)
        away = scene.attach(channel, sends=False)
        scene.finish(channel)
        scene.finish(child)
        scene.rest()
        assert scene.end_of(channel) is End.FINISHED
        assert scene.end_of(away) is End.FINISHED  # halves that flow away are finished at once
        assert (scene.subscriptions.settled, scene.subscriptions.open) == (False, 1)
        scene.send(grandchild, b"deep")
        scene.finish(grandchild)
        scene.rest()
        assert (scene.subscriptions.settled, scene.subscriptions.finished) == (True, 1)
        assert of(b, f"{channel}/{child}/{grandchild}") == [b"deep"]
        directions = [entry["direction"] for row in rows(b) for entry in row["attachments"] or ()]
        assert sorted(directions) == ["receive", "receive", "send"]


def test_a_cancelled_channel_is_asked_for_again_after_a_pause(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", first_wait=2.0))
        scene.rest()
        scene.server.cancel(scene.asked["a"][0], scene.pair.now)
        scene.rest(0.5)
        assert scene.subscriptions.failed[0] == (
            "a",
            "cancelled",
            "cancelled by the remote at remote:4433",
        )
        assert (len(scene.asked["a"]), scene.subscriptions.open) == (1, 0)
        scene.rest(2.5)
        assert (len(scene.asked["a"]), scene.subscriptions.open) == (2, 1)
        scene.send(scene.asked["a"][1], b"again")
        scene.finish(scene.asked["a"][1])
        scene.rest()
        assert (of(b, "a"), scene.subscriptions.settled) == ([b"again"], True)


def test_the_pauses_grow_until_messages_come(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", first_wait=0.2, longest_wait=100.0))
        scene.rest()
        whens = []
        for turn in range(6):
            scene.server.cancel(scene.asked["a"][-1], scene.pair.now)
            begun = scene.pair.now
            while len(scene.asked["a"]) == turn + 1:
                scene.step()
            whens.append(scene.pair.now - begun)
        assert 2.5 < whens[5] / whens[1] < 80
        scene.send(scene.asked["a"][-1], b"x")
        scene.rest(0.3)
        scene.server.cancel(scene.asked["a"][-1], scene.pair.now)
        scene.rest(0.5)
        assert len(scene.asked["a"]) == 8


@pytest.mark.parametrize("below", [False, True])
def test_a_bounded_read_fails_for_good_at_a_cancel(tmp_path: Path, below: bool) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", "b", bounded=True))
        scene.rest()
        (channel,) = scene.asked["a"]
        ended = scene.attach(channel, channel_headers(name="below")) if below else channel
        scene.step()
        scene.server.cancel(ended, scene.pair.now)
        if below:
            scene.finish(channel)
        scene.finish(scene.asked["b"][0])
        scene.rest(3.0)
        assert len(scene.asked["a"]) == 1
        assert scene.subscriptions.failed[0][:2] == ("below" if below else "a", "cancelled")
        assert (scene.subscriptions.finished, scene.subscriptions.settled) == (1, True)


def test_a_request_that_is_thrown_away_is_told(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", first_wait=50.0, longest_wait=50.0))
        scene.rest(0.1)
        scene.server.close(0, scene.pair.now)
        scene.rest()
        assert scene.subscriptions.failures == 1
        assert scene.subscriptions.failed[0].end == "lost"
        assert (scene.asking.left, scene.asking.idle) == (True, True)


def lose(scene: AskingScene) -> None:
    """The network is gone; nothing becomes durable by that."""
    for engine in (scene.pair.client, scene.pair.server):
        engine.handle(LinkLost(3, "too much", False, origin=CloseOrigin.TRANSPORT), scene.pair.now)
    scene.hear(0.0)


def test_after_a_lost_connection_only_what_has_not_finished_is_asked_for(tmp_path: Path) -> None:
    wants = demand("a", "b", "c")
    with bench(tmp_path) as b:
        first = AskingScene(b, wants)
        first.rest()
        first.send(first.asked["a"][0], b"a")
        first.finish(first.asked["a"][0])
        first.send(first.asked["b"][0], b"b")
        first.rest()
        lose(first)
        assert [closed.origin for closed in first.over] == [CloseOrigin.TRANSPORT]
        assert (wants.finished, wants.open, wants.requested) == (1, 0, 3)
        second = AskingScene(b, wants, now=first.pair.now)
        second.rest()
        assert sorted(second.asked) == ["b", "c"]
        second.send(second.asked["b"][0], b"b")
        second.rest()
        # The remote names no producer and no numbers: what it repeats is stored again.
        assert of(b, "b") == [b"b", b"b"]


def test_what_a_remote_with_numbers_repeats_is_stored_once(tmp_path: Path) -> None:
    headers = connection_headers(producer="remote", sequence_start=0)
    wants = demand("a", bounded=True)
    with bench(tmp_path) as b:
        first = AskingScene(b, wants, headers=headers)
        first.rest()
        first.send(first.asked["a"][0], b"0", b"1")
        first.rest()
        lose(first)
        assert wants.failures == 0
        second = AskingScene(b, wants, now=first.pair.now, headers=headers)
        second.rest()
        second.send(second.asked["a"][0], b"0", b"1", b"2")
        second.finish(second.asked["a"][0])
        second.rest()
        assert of(b, "a") == [b"0", b"1", b"2"]
        assert (wants.settled, wants.finished, b.groups.counters.deduped) == (True, 1, 2)


def test_a_bounded_read_does_not_store_rows_twice(tmp_path: Path) -> None:
    """Nothing came of ``b``, so it may be asked for again; rows of ``a`` might come twice."""
    wants = demand("a", "b", bounded=True)
    with bench(tmp_path) as b:
        first = AskingScene(b, wants)
        first.rest()
        first.send(first.asked["a"][0], b"0")
        first.rest()
        lose(first)
        assert [failure[:2] for failure in wants.failed] == [("a", "connection lost")]
        second = AskingScene(b, wants, now=first.pair.now)
        second.rest()
        assert list(second.asked) == ["b"]
        assert not wants.settled


@pytest.mark.parametrize("bounded", [False, True])
def test_what_was_whole_when_the_connection_went_is_not_asked_for_again(
    tmp_path: Path, bounded: bool
) -> None:
    """The remote finishes and is gone before our group is durable."""
    wants = demand("a", bounded=bounded)
    with bench(tmp_path) as b:
        first = AskingScene(b, wants)
        first.rest()
        (channel,) = first.asked["a"]
        child = first.attach(channel)
        first.send(child, b"below")
        first.finish(child)
        first.finish(channel)
        first.hear()
        lose(first)
        assert (wants.finished, wants.settled) == (0, False)
        first.step()
        assert (wants.finished, wants.settled, wants.failures) == (1, True, 0)
        second = AskingScene(b, wants, now=first.pair.now)
        second.rest(7.0)
        assert (second.asked, wants.settled) == ({}, True)
        assert [row["value"] for row in rows(b)] == [b"with a channel", b"below"]


def test_a_finish_that_was_durable_when_the_connection_went_counts(tmp_path: Path) -> None:
    wants = demand("a", bounded=True)
    with bench(tmp_path) as b:
        first = AskingScene(b, wants)
        first.rest()
        first.send(first.asked["a"][0], b"x")
        first.finish(first.asked["a"][0])
        first.hear()
        b.settle()
        lose(first)
        assert (wants.finished, wants.settled) == (1, True)


@pytest.mark.parametrize("bounded", [False, True])
def test_what_was_whole_and_found_no_room_is_asked_for_again_or_has_failed(
    tmp_path: Path, bounded: bool
) -> None:
    wants = demand("filler", "a", bounded=bounded)
    with bench(tmp_path, max_bytes=64_000) as b:
        first = AskingScene(b, wants)
        first.rest()
        first.send(first.asked["filler"][0], bytes(70_000))
        first.finish(first.asked["filler"][0])
        first.rest()
        assert (b.spool.full, wants.finished) == (True, 1)
        first.send(first.asked["a"][0], b"x")
        first.finish(first.asked["a"][0])
        first.rest()
        lose(first)
        first.rest()
        assert (wants.finished, wants.failures) == (1, 0)
        second = AskingScene(b, wants, now=first.pair.now)
        second.rest(6.0)
        if bounded:
            assert wants.failed[0][:2] == ("a", "incomplete")
            assert (wants.settled, second.asked) == (True, {})
        else:
            assert list(second.asked) == ["a"]


def test_a_finish_below_what_was_sent_closes_the_connection(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", bounded=True))
        scene.rest()
        (channel,) = scene.asked["a"]
        scene.send(channel, b"0", b"1")
        scene.rest()
        scene.server._channels.halves[channel].reliable_sent -= 1  # type: ignore[union-attr]
        scene.finish(channel)
        scene.rest()
        assert scene.over[0].reason == "a finish below a message that was received"
        assert scene.subscriptions.failed[0][:2] == ("a", "connection lost")
        assert "a finish below" in scene.subscriptions.failed[0].reason
        assert scene.subscriptions.finished == 0


def test_a_finish_above_what_was_sent_never_completes(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", bounded=True))
        scene.rest()
        (channel,) = scene.asked["a"]
        scene.send(channel, b"0", b"1")
        scene.server._channels.halves[channel].reliable_sent += 1  # type: ignore[union-attr]
        scene.finish(channel)
        scene.rest(5.0)
        assert (
            scene.subscriptions.finished,
            scene.subscriptions.open,
            scene.subscriptions.settled,
        ) == (0, 1, False)
        scene.server.shutdown(0, "done", scene.pair.now)
        scene.rest()
        assert scene.subscriptions.failed[0][:2] == ("a", "connection lost")


def test_a_channel_that_cannot_be_read_spoils_a_bounded_read(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a", bounded=True))
        scene.rest()
        (channel,) = scene.asked["a"]
        scene.attach(channel, ((b"name", b"\xff"),))
        scene.finish(channel)
        scene.rest()
        assert scene.subscriptions.failed[0][1:] == ("closed", "header name is not UTF-8")
        assert (scene.subscriptions.finished, scene.subscriptions.settled) == (0, True)


def test_a_remote_with_bad_headers_is_refused(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand("a"), headers=((b"producer", b"\xff"),))
        scene.rest()
        assert (scene.requests, scene.over[0].code) == ([], 0x100)
        assert scene.subscriptions.open == 0


def test_many_requests_wait_for_the_credit_of_the_remote(tmp_path: Path) -> None:
    """The remote buffers little, so requests wait in the engine and are numbered later."""
    names = [f"channel-{number:04d}" for number in range(3000)]
    with bench(tmp_path) as b:
        scene = AskingScene(b, demand(*names), server=Config(flow_per_channel=500))
        scene.rest(20.0)
        assert list(scene.asked) == names
        assert scene.subscriptions.open == 3000
        for name in names:
            scene.send(scene.asked[name][0], name.encode())
            scene.finish(scene.asked[name][0])
        scene.rest(5.0)
        assert scene.subscriptions.finished == 3000
        assert sorted(row["value"] for row in rows(b)) == [name.encode() for name in names]
        assert all(row["value"].decode() == row["channel"] for row in rows(b))

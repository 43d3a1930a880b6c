"""What the log of events tells of connections and channels: in order, once, with exact counts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aqueduct.conventions.headers import channel_headers, connection_headers
from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Mode
from aqueduct_core.aqueduct.events import End
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from tests.core.intake.bench import Bench, bench
from tests.core.intake.scene import Scene, of
from tests.support.pair import LinkShape
from tests.support.rules import rule


def kinds(b: Bench, channel: str | None = None) -> list[str]:
    return [e["kind"] for e in b.events() if channel is None or e["channel"] == channel]


def only(b: Bench, kind: str) -> dict[str, Any]:
    (event,) = [event for event in b.events() if event["kind"] == kind]
    return event


def lose(scene: Scene, lost: LinkLost | None = None) -> None:
    scene.pair.server.handle(lost or LinkLost(7, "gone", False), scene.pair.now)
    scene.step()


def test_the_life_of_a_connection_and_its_channels(tmp_path: Path) -> None:
    with bench(tmp_path, partitions=2) as b:
        scene = Scene(b, headers=connection_headers(producer="p"))
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a", b"b")
        scene.client.finish(channel, scene.pair.now)
        scene.rest(0.5)
        scene.client.shutdown(0, "done", scene.pair.now)
        scene.rest(0.2)
        events = b.events()
        assert [(e["kind"], e["channel"]) for e in events] == [
            ("connected", None),
            ("opened", "0"),
            ("opened", "c"),
            ("finished", "c"),
            ("disconnected", None),
        ]
        assert {e["connectionId"] for e in events} == {scene.session.id}
        assert {e["producer"] for e in events} == {"p"}
        assert [e["offset"] for e in events] == list(range(5))
        assert {e["partition"] for e in events} == {2}
        stamps = [e["timestamp"] for e in events]
        assert stamps == sorted(stamps)
        finished = only(b, "finished")
        assert finished["channelId"] == channel
        assert finished["counts"] == {
            "reliableSent": 2, "reliableStored": 2, "unreliableSent": 0,
            "acked": 0, "nacked": 0, "late": 0, "deduped": 0,
        }  # fmt: skip
        gone = only(b, "disconnected")
        assert gone["reason"] == "closed by peer, code 0: done"
        assert gone["counts"]["reliableStored"] == 3


@rule("AQ-LIFE-15")
def test_the_peer_learns_a_finish_only_when_its_event_is_durable(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a")
        scene.rest(0.2)
        scene.client.finish(channel, scene.pair.now)
        scene.take(1.0)
        scene.take(1.0)
        assert scene.end_of(channel) is None
        assert "finished" not in kinds(b)
        scene.step()
        assert "finished" in kinds(b)
        scene.step()
        assert scene.end_of(channel) is End.FINISHED
        scene.rest(1.0)
        assert kinds(b, "c") == ["opened", "finished"]


def test_a_finish_is_durable_with_the_last_rows_that_it_counts(tmp_path: Path) -> None:
    """One group for both: a finish costs no group of its own, and none is durable before."""
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.rest(0.2)
        groups = b.groups.counters.groups
        scene.send(channel, b"a", b"b")
        scene.client.finish(channel, scene.pair.now)
        scene.take()
        assert (of(b, "c"), kinds(b, "c")) == ([], ["opened"])
        b.settle()
        assert b.groups.counters.groups == groups + 1
        assert (len(of(b, "c")), kinds(b, "c")) == (2, ["opened", "finished"])


def test_a_finish_and_a_lost_connection_are_one_finish(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a")
        scene.client.finish(channel, scene.pair.now)
        scene.take()
        lose(scene)
        scene.rest(0.5)
        assert kinds(b, "c") == ["opened", "finished"]
        assert kinds(b)[-1] == "disconnected"
        assert only(b, "disconnected")["reason"] == "closed by intake, code 7: gone"


def test_an_error_of_quic_is_told_as_a_loss_by_its_name(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.rest()
        lose(scene, LinkLost(Code.VERSION, "too much", True, CloseOrigin.TRANSPORT))
        gone = only(b, "disconnected")
        assert gone["reason"] == "lost: QUIC's FLOW_CONTROL_ERROR (0x3) from the peer: too much"


@pytest.mark.parametrize("seed", range(10))
@rule("AQ-ACK-6", "AQ-ACK-12")
def test_of_an_unreliable_channel_sent_is_acked_and_nacked(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with bench(tmp_path, partitions=2) as b:
        shape = LinkShape(0.01, chance.random() * 0.2, loss=chance.random() * 0.5)
        scene = Scene(b, shape=shape, seed=seed)
        channels = scene.attach(*(channel_headers(name=name) for name in "uvw"))
        for _ in range(300):
            scene.send(chance.choice(channels), b"x", mode=Mode.UNRELIABLE)
            if chance.random() < 0.1:
                scene.step(chance.random() * 0.1)
        for channel in channels:
            scene.client.finish(channel, scene.pair.now)
        scene.rest()
        for name, channel in zip("uvw", channels, strict=True):
            counts = [e["counts"] for e in b.events() if e["kind"] == "finished"]
            (mine,) = [
                e["counts"]
                for e in b.events()
                if e["kind"] == "finished" and e["channelId"] == channel
            ]
            assert len(counts) == 3
            nacked = [
                number
                for e in b.events()
                if e["kind"] == "nacked" and e["channelId"] == channel
                for number in range(e["first"], e["last"] + 1)
            ]
            rows = sorted(row["messageNum"] for row in of(b, name))
            assert mine["unreliableSent"] == mine["acked"] + mine["nacked"]
            assert (len(rows), len(nacked)) == (mine["acked"], mine["nacked"])
            assert sorted(rows + nacked) == list(range(mine["unreliableSent"]))
            assert rows == scene.delivered(channel, True)
            assert kinds(b, name)[-1] == "finished"


def test_neighbouring_nacks_of_a_group_are_one_event(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="u"))
        scene.rest(0.2)
        scene.pair.shape.loss = 1.0
        for _ in range(20):
            scene.send(channel, b"x", mode=Mode.UNRELIABLE)
        scene.take(0.5)
        for _ in range(20):
            scene.send(channel, b"x", mode=Mode.UNRELIABLE)
        scene.take(3.0)
        assert "nacked" not in kinds(b)
        scene.rest(0.2)
        nacked = only(b, "nacked")
        assert (nacked["first"], nacked["last"]) == (0, 39)


def test_fault_25_a_late_message_is_counted_and_never_a_row(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="u"))
        scene.send(channel, b"kept", mode=Mode.UNRELIABLE)
        scene.rest(0.2)
        scene.pair.shape.latency = 3.0
        scene.send(channel, b"late", mode=Mode.UNRELIABLE)
        scene.pair.collect()
        scene.pair.shape.latency = 0.01
        scene.rest(2.0)
        assert only(b, "nacked")["first"] == 1
        scene.rest(2.0)
        scene.client.finish(channel, scene.pair.now)
        scene.rest(1.0)
        counts = only(b, "finished")["counts"]
        assert (counts["unreliableSent"], counts["acked"], counts["nacked"], counts["late"]) == (
            2, 1, 1, 1,
        )  # fmt: skip
        assert [row["value"] for row in of(b, "u")] == [b"kept"]


@rule("AQ-LIFE-14")
def test_fault_27_a_cancel_drops_what_is_not_stored_and_keeps_what_is(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"0", b"1")
        scene.rest(0.2)
        scene.send(channel, b"2", b"3", b"4")
        scene.take()
        scene.client.cancel(channel, scene.pair.now)
        scene.rest(0.5)
        assert [row["value"] for row in of(b, "c")] == [b"0", b"1"]
        assert kinds(b, "c") == ["opened", "cancelled"]
        counts = only(b, "cancelled")["counts"]
        assert (counts["reliableSent"], counts["reliableStored"]) == (None, 2)
        assert scene.delivered(channel, True) == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_fault_27_cancel_racing_finish_is_one_end_and_the_rows_agree(
    tmp_path: Path, seed: int
) -> None:
    """Wherever the cancel falls: exactly one end; a finish has all rows, a cancel a prefix."""
    chance = random.Random(seed)
    with bench(tmp_path) as b:
        scene = Scene(b, shape=LinkShape(0.01, 0.03, cut=0.3), seed=seed)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, *(b"%d" % n for n in range(5)))
        actions = ["finish", "cancel"] if chance.random() < 0.5 else ["cancel"]
        for action in actions:
            for _ in range(chance.randrange(3)):
                chance.choice([scene.step, scene.take])(chance.random() * 0.03)
            if action == "finish":
                scene.client.finish(channel, scene.pair.now)
            elif scene.client.half_open(channel) and scene.client.can_send(channel):
                scene.client.cancel(channel, scene.pair.now)
        scene.rest(1.0)
        ends = [kind for kind in kinds(b, "c") if kind != "opened"]
        values = [row["value"] for row in of(b, "c")]
        assert len(ends) == 1
        if ends == ["finished"]:
            assert values == [b"%d" % n for n in range(5)]
            assert scene.end_of(channel) is End.FINISHED
        else:
            assert ends == ["cancelled"]
            assert values == [b"%d" % n for n in range(len(values))]
            assert only(b, "cancelled")["counts"]["reliableStored"] == len(values)
        assert scene.closed is None


def deep(scene: Scene, depth: int, *, finish: bool = False) -> list[int]:
    """A chain of channels, each attached to a message of the one before; the first one hangs on a
    message that may be lost."""
    (channel,) = scene.attach(channel_headers(name="top"))
    sent = scene.client.send(
        channel, b"carrier", now=scene.pair.now, mode=Mode.UNRELIABLE, attach=[Attach(True)]
    )
    chain = [*sent.attached]
    for _ in range(depth - 1):
        sent = scene.client.send(chain[-1], b"link", now=scene.pair.now, attach=[Attach(True)])
        chain += sent.attached
    for each in chain:
        scene.send(each, b"row")
    if finish:
        for each in chain:
            scene.client.finish(each, scene.pair.now)
    return chain


@pytest.mark.parametrize("finish", [False, True])
@rule("AQ-LOST-4")
def test_fault_26_a_lost_parent_is_one_lost_event_for_each_descendant(
    tmp_path: Path, finish: bool
) -> None:
    """There is no room for the datagram that carries a tree: it is nacked, so its channels are
    lost, each once, and none of their messages is a row."""
    with bench(tmp_path, max_bytes=64_000) as b:
        scene = Scene(b)
        (filler,) = scene.attach(channel_headers(name="filler"))
        scene.rest(0.2)
        scene.send(filler, bytes(70_000))
        scene.rest(0.3)
        assert b.spool.full
        chain = deep(scene, 6, finish=finish)
        scene.rest(4.0)
        b.pass_all()
        while b.spool.full:
            b.spool.trim()
        scene.rest(1.0)
        lost = [e["channelId"] for e in b.events() if e["kind"] == "lost"]
        assert sorted(lost) == sorted(chain)
        assert all(scene.end_of(channel) is End.LOST for channel in chain)
        assert not [row for row in b.rows() if row["value"] == b"row"]
        assert scene.session.channels == 3
        assert scene.pair.server.open_channels == 3
        opened = [e["channelId"] for e in b.events() if e["kind"] == "opened"]
        assert len(opened) == len(set(opened)) == 3 + len(chain)


def test_channels_that_never_came_up_leave_no_event_and_no_trace(tmp_path: Path) -> None:
    """The carrier is lost on the way: what was sent on its channels was never known here."""
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.rest(0.2)
        scene.pair.shape.loss = 1.0
        deep(scene, 3)
        scene.rest(4.0)
        assert set(kinds(b)) == {"connected", "opened", "nacked"}
        assert scene.session.channels == scene.pair.server.open_channels == 2


def test_a_channel_that_is_closed_for_its_headers_says_why(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.attach(((b"name", b"\xff"),))
        scene.rest(0.5)
        closed = only(b, "closed")
        assert closed["reason"] == "header name is not UTF-8"
        assert closed["channel"].startswith("0/")
        assert kinds(b) == ["connected", "opened", "closed"]


def test_a_refused_connection_is_one_event(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b, refusal=lambda _: "no such token", headers=connection_headers(token="t"))
        scene.rest(0.5)
        rejected = only(b, "rejected")
        assert rejected["reason"] == "no such token"
        assert kinds(b) == ["rejected"]


def test_who_breaks_the_protocol_before_it_is_admitted_is_rejected(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.pair.server.handle(LinkLost(0, "", True), 0.0)
        scene.step()
        assert kinds(b) == []
    with bench(tmp_path) as b:
        for origin in set(CloseOrigin) - {CloseOrigin.APPLICATION}:
            lose(Scene(b), LinkLost(3, "", False, origin))
        assert kinds(b) == []
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.pair.server._fail(3, "nonsense")
        scene.step()
        assert only(b, "rejected")["reason"] == "nonsense"


def test_repeats_of_a_producer_are_counted(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(2):
            scene = Scene(b, headers=connection_headers(producer="p", sequence_start=0))
            (channel,) = scene.attach(channel_headers(name="c", sequence_start=0))
            scene.send(channel, b"0", b"1", b"2")
            scene.client.finish(channel, scene.pair.now)
            scene.rest(0.3)
        first, second = [e["counts"] for e in b.events() if e["kind"] == "finished"]
        assert (first["reliableSent"], first["reliableStored"], first["deduped"]) == (3, 3, 0)
        assert (second["reliableSent"], second["reliableStored"], second["deduped"]) == (3, 0, 3)


def test_a_cancel_does_not_take_back_what_another_connection_relies_on(tmp_path: Path) -> None:
    """A producer that came back sends again what its old connection brought in the same group;
    then the old one is cancelled: the repeat is acked, so its row has to be there."""
    with bench(tmp_path) as b:
        headers = connection_headers(producer="p", sequence_start=0)
        old, new = Scene(b, headers=headers), Scene(b, headers=headers)
        channels = [
            scene.attach(channel_headers(name="c", sequence_start=0))[0] for scene in (old, new)
        ]
        old.rest(0.2)
        new.rest(0.2)
        old.send(channels[0], b"once")
        old.take()
        new.send(channels[1], b"once")
        new.take()
        old.client.cancel(channels[0], old.pair.now)
        old.take()
        new.rest(0.3)
        assert new.delivered(channels[1], True) == [0]
        assert [row["value"] for row in of(b, "c")] == [b"once"]


def test_events_of_a_full_spool_come_when_there_is_room_in_order(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=64_000) as b:
        scene = Scene(b)
        (filler,) = scene.attach(channel_headers(name="filler"))
        scene.send(filler, bytes(70_000))
        scene.rest(0.3)
        before = kinds(b)
        (channel,) = scene.attach(channel_headers(name="c"))
        scene.send(channel, b"a")
        scene.client.finish(channel, scene.pair.now)
        scene.rest(1.0)
        assert kinds(b) == before
        assert b.groups.holding
        assert b.groups.held_bytes > 0
        b.pass_all()
        while b.spool.full:
            b.spool.trim()
        scene.rest(0.5)
        assert kinds(b, "c") == ["opened", "finished"]
        assert only(b, "finished")["counts"]["reliableStored"] == 1
        assert scene.end_of(channel) is End.FINISHED
        assert (b.groups.held_bytes, b.groups.holding) == (0, False)


def test_events_survive_a_restart_and_go_on_behind(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        Scene(b).rest(0.2)
        first = b.events()
    with bench(tmp_path) as b:
        Scene(b).rest(0.2)
        events = b.events()
        assert events[: len(first)] == first
        assert [e["offset"] for e in events] == list(range(2 * len(first)))


def test_the_entrypoint_is_a_channel_like_others(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        scene = Scene(b)
        scene.send(AqueductEngine.ENTRYPOINT, b"hello")
        scene.client.finish(AqueductEngine.ENTRYPOINT, scene.pair.now)
        scene.rest(0.5)
        assert kinds(b, "0") == ["opened", "finished"]

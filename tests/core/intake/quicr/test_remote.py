"""An origin that is dialled: what is asked of it on each connection, and what its end means."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import AuthFailed
from aqueduct_core.flight.subscription_status import Failure
from aqueduct_core.intake.quicr.remote import QuicrRemote
from aqueduct_core.intake.quicr.roles import ReaderSession
from aqueduct_core.quicr.events import EndReason, Requested, Subscribed, TransactionEnded
from aqueduct_core.quicr.media.position import Position
from tests.core.intake.quicr.scene import MediaScene, media_bench, settings
from tests.core.quicr.ends import media, queue_of
from tests.support.rules import rule


def remote() -> QuicrRemote:
    given = settings(("u",))
    assert given.connect is not None
    return QuicrRemote("origin:1", given, given.connect, {})


def serve(scene: MediaScene, url: bytes, *groups: int, finished: bool = True) -> None:
    """Have the peer serve a media to who asks from now on, and who has asked."""
    queue = queue_of(media(*groups), finished=finished, now=scene.link.now)
    scene.peer.serves[url] = queue
    for event in scene.peer.told(Requested):
        if event.url == url:
            scene.peer.engine.serve(event.stream, queue, scene.link.now)
    scene.peer.end.kick()


def test_more_media_than_the_peer_lets_us_ask_for_wait_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is said to be open that is not, and each comes when another one has ended."""
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(prefix="u"), max_streams_bidi=3)
        scene.run()
        [subscribed] = scene.peer.told(Subscribed)
        urls = [b"u/%d" % n for n in range(5)]
        for url in urls:
            scene.peer.engine.notify(subscribed.stream, url, scene.link.now)
        scene.peer.end.kick()
        scene.run()
        assert [event.url for event in scene.peer.told(Requested)] == urls[:2]
        assert len(scene.events("opened")) == 2
        assert len(caplog.records) == 1
        assert "no more than 2 media at once: others (now 3)" in caplog.text
        for url in urls:
            serve(scene, url, 1)
        scene.run(3.0)
        assert [event.url for event in scene.peer.told(Requested)] == urls
        assert len(scene.events("finished")) == len(urls)


@rule("Q-6", "Q-7")
@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_an_object_that_is_too_large_costs_its_media_alone(
    delivery: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told as an event, in the log and as a failure, with what to raise; others under the
    prefix go on, and it is not asked for again soon."""
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(prefix="u/", largest=5_000, delivery=delivery))
        scene.run()
        [subscribed] = scene.peer.told(Subscribed)
        live = queue_of(media(2), finished=False)
        big = media(1, 1) | {Position(1, 1): (0, bytes(5_001))}
        scene.peer.serves = {b"u/live": live, b"u/big": queue_of(big)}
        for url in scene.peer.serves:
            scene.peer.engine.notify(subscribed.stream, url, scene.link.now)
        scene.peer.end.kick()
        scene.run(2.0)
        asked = {event.url: event.stream for event in scene.peer.told(Requested)}
        live.append(Position(0, 2), b"more", 0, scene.link.now)
        scene.peer.engine.wake(asked[b"u/live"], scene.link.now)
        scene.peer.end.kick()
        scene.run(20.0)
        assert len(scene.objects("u/live")) == 3
        assert scene.objects("u/big") == media(1, 1)
        assert len(scene.peer.told(Requested)) == 2
        assert [event.stream for event in scene.peer.told(TransactionEnded)] == [asked[b"u/big"]]
        assert scene.session._engine.closed is None
        [event] = scene.events("cancelled")
        reason = "object (1, 1) has more than 5000 bytes (maxMessageBytes). Raise maxMessageBytes"
        assert (event["channel"], event["reason"]) == ("u/big", reason)
        assert scene.requests is not None
        assert list(scene.requests.failed) == [Failure("u/big", "too large", reason)]
        assert f"media 'u/big': {reason}" in caplog.text


def test_a_read_that_ends_fails_with_an_object_that_is_too_large(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(("u", "v"), largest=5_000, bounded=True))
        serve(scene, b"v", 2)
        scene.peer.serves[b"u"] = queue_of({Position(0, 0): (0, bytes(6_000))})
        scene.run()
        assert scene.requests is not None
        assert (scene.requests.finished, scene.requests.settled) == (1, True)
        assert [(each.channel, each.end) for each in scene.requests.failed] == [("u", "too large")]
        assert scene.session.memory == 0


@pytest.mark.parametrize("delivery", ["stream", "datagram"])
def test_media_are_asked_for_on_the_next_connection_until_they_have_finished(
    delivery: str, tmp_path: Path
) -> None:
    given = settings(("u", "v"), delivery=delivery)
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, given)
        requests = scene.requests
        assert requests is not None
        serve(scene, b"u", 3, 2)
        serve(scene, b"v", 2, finished=False)
        scene.run()
        assert {event.url for event in scene.peer.told(Requested)} == {b"u", b"v"}
        assert scene.peer.told(TransactionEnded) == [
            TransactionEnded(scene.peer.told(Requested)[0].stream, EndReason.COMPLETE)
        ]
        assert (requests.finished, requests.open) == (1, 1)
        assert isinstance(scene.session, ReaderSession)
        assert scene.session.progress
        assert not scene.session.idle
        scene.link.lose("gone")
        scene.run()
        assert requests.next_at is not None
        again = MediaScene(b, given, requests=requests)
        serve(again, b"v", 2, 2)
        again.run(3.0)  # its clock begins anew
        assert [event.url for event in again.peer.told(Requested)] == [b"v"]
        assert requests.settled
        assert isinstance(again.session, ReaderSession)
        assert again.session.idle
        assert again.session.left
        assert again.objects("v") == media(2, 2)
        assert again.objects("u") == media(3, 2)
        assert len(b.rows()) == 9


@rule("Q-25")
def test_urls_are_told_and_asked_for_once(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(prefix="cam"))
        scene.run(0.5)
        [subscribed] = scene.peer.told(Subscribed)
        assert subscribed.prefix == b"cam"
        serve(scene, b"cam1", 2)
        for _ in range(2):
            scene.peer.engine.notify(subscribed.stream, b"cam1", scene.link.now)
            scene.peer.end.kick()
            scene.run(0.5)
        assert [event.url for event in scene.peer.told(Requested)] == [b"cam1"]
        assert scene.objects("cam1") == media(2)
        assert scene.requests is not None
        assert not scene.requests.settled


def test_what_its_sender_gives_up_is_asked_for_again_after_a_while(tmp_path: Path) -> None:
    with media_bench(tmp_path) as b:
        scene = MediaScene(b, settings(("u",), delivery="datagram"))
        serve(scene, b"u", 2, finished=False)
        scene.run(0.5)
        [requested] = scene.peer.told(Requested)
        scene.peer.engine.cancel(requested.stream, scene.link.now)
        serve(scene, b"u", 2, 1)
        scene.run(2.0)
        assert len(scene.peer.told(Requested)) == 2
        assert scene.objects() == media(2, 1)
        assert scene.kinds() == [
            "connected", "opened", "cancelled", "opened", "repeated", "finished",
        ]  # fmt: skip


def test_what_its_end_means() -> None:
    """Only a fault of the peer's that we found is not cured by dialling again."""
    broken = LinkLost(1, "unknown type", by_peer=False, origin=CloseOrigin.TRANSPORT)
    error = remote().why(broken, accepted=True)
    assert error.name == "AQUEDUCT_PROTOCOL_VIOLATION"
    assert "origin:1 broke the protocol" in error.what
    assert "unknown type" in error.what
    for lost in (
        LinkLost(1, "no", by_peer=True, origin=CloseOrigin.TRANSPORT),
        LinkLost(0, "", by_peer=False, origin=CloseOrigin.IDLE_TIMEOUT),
        LinkLost(0, "bye", by_peer=True),
    ):
        assert remote().why(lost, accepted=True).name == "AQUEDUCT_CONNECT.NO_REPLY"
    assert "before it was accepted" in remote().why(lost, accepted=False).what


def test_a_token_has_no_place() -> None:
    with pytest.raises(AuthFailed, match="no place for a token"):
        remote().prepare("secret")

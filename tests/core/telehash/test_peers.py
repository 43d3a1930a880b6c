"""What real peers do otherwise than the document says: met by scripted ones."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import ChannelClosed, CloseReason
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.telehash.ends import Application
from tests.core.telehash.peers import PeerLikeC, PeerLikeJs
from tests.core.telehash.raw import receiving, sending
from tests.support.rules import rule

COUNT = 200


class Meeting:
    """Our engine, odd, and a scripted peer."""

    def __init__(
        self, peer: PeerLikeJs | PeerLikeC, *, config: TelehashConfig | None = None, **link: Any
    ) -> None:
        self.ours = Application(TelehashEngine(odd=True, config=config))
        self.peer = peer
        self.link = MemoryLink(self.ours.engine, peer, on_client_events=self.ours.hear, **link)
        self.ours.link = self.link
        self.ours.end = self.link.client
        self.link.kick()

    def send(self, count: int) -> int:
        """Of ours, with an end."""
        engine = self.ours.engine
        channel = engine.open("_t", reliable=True, body=b"0", now=self.link.now)
        for number in range(1, count):
            if not engine.room(channel):
                self.kick()
                self.link.run_until(lambda: engine.room(channel) > 0)
            last = number == count - 1
            engine.send(channel, body=b"%d" % number, end=last, now=self.link.now)
        self.kick()
        return channel

    def kick(self) -> None:
        for end in self.link.ends:
            end.kick()
        self.link.kick()

    def hear(self, count: int, most: int) -> int:
        """Of the peer, which keeps so many under way."""
        for number in range(count):
            self.link.run_until(lambda: len(self.peer.unacked[2]) < most)
            self.peer.say(2, b"%d" % number, self.link.now, end=number == count - 1)
            self.kick()
        self.link.run_until(lambda: not self.peer.unacked[2])
        return 2


LOSSES: dict[str, dict[str, Any]] = {
    "none": {},
    "reordered": {"jitter": 0.05},
    "lossy": {"jitter": 0.02, "loss": 0.1, "duplicate": 0.1},
}


@rule("T-4", "T-5", "T-6", "T-11", "T-12", "T-13")
@pytest.mark.parametrize("path", LOSSES)
def test_a_peer_like_js_gets_all_in_order(path: str) -> None:
    """Of 50 that it keeps we send 32 at most."""
    meeting = Meeting(PeerLikeJs(), config=TelehashConfig(channel_timeout=60), **LOSSES[path])
    channel = meeting.send(COUNT)
    meeting.link.run_until(lambda: channel in meeting.ours.closed, 200)
    assert meeting.peer.got[channel] == [b"%d" % number for number in range(COUNT)]
    assert meeting.peer.problems == []
    assert meeting.ours.closed[channel].reason is CloseReason.ENDED


@rule("T-5", "T-6", "T-10", "T-11", "T-15", "T-16")
@pytest.mark.parametrize("path", LOSSES)
def test_a_peer_like_js_is_heard_in_order(path: str) -> None:
    meeting = Meeting(PeerLikeJs(), **LOSSES[path])
    channel = meeting.hear(COUNT, 50)
    assert meeting.ours.bodies[channel] == [b"%d" % number for number in range(COUNT)]
    assert meeting.ours.closed[channel].reason is CloseReason.PEER_ENDED
    assert meeting.peer.problems == []


@rule("T-4", "T-5", "T-11", "T-12")
@pytest.mark.parametrize("path", LOSSES)
def test_a_peer_like_c_gets_all_in_order(path: str) -> None:
    """It does not ack again what it has, so of its last ack nothing may be lost: where it is, our
    end waits for nobody."""
    meeting = Meeting(PeerLikeC(), **LOSSES[path])
    try:
        channel = meeting.send(COUNT)
        meeting.link.run_until(lambda: channel in meeting.ours.closed, 100)
        reason = meeting.ours.closed[channel].reason
    except TimeoutError:
        channel, reason = 1, CloseReason.TIMED_OUT
    got = meeting.peer.got[channel]
    assert got == [b"%d" % number for number in range(len(got))]
    assert meeting.peer.problems == []
    assert reason is CloseReason.ENDED or path == "lossy"
    assert len(got) == COUNT or path == "lossy"


@rule("T-5", "T-6", "T-15")
@pytest.mark.parametrize("path", ["none", "reordered"])
def test_a_peer_like_c_is_heard_in_order_with_stale_acks(path: str) -> None:
    meeting = Meeting(PeerLikeC(), **LOSSES[path])
    meeting.peer.types[1] = "_t"
    channel = meeting.hear(COUNT, 32)
    assert meeting.ours.bodies[channel] == [b"%d" % number for number in range(COUNT)]


@rule("T-11")
@pytest.mark.parametrize("late", [1, 3])
def test_a_peer_like_js_whose_opening_was_lost_goes_on_and_is_acked(late: int) -> None:
    """It takes no ack any more behind a miss without one, unless that has a miss, too."""
    meeting = Meeting(PeerLikeJs())
    meeting.link.loss = 1.0
    meeting.peer.say(2, b"0", 0.0)
    meeting.kick()
    meeting.link.loss = 0.0
    for number in range(1, late + 1):
        meeting.peer.say(2, b"%d" % number, meeting.link.now)
    meeting.kick()
    meeting.link.run_until(lambda: not meeting.peer.unacked[2], 9)
    meeting.peer.say(2, b"", meeting.link.now, end=True)
    meeting.kick()
    meeting.link.run_until(lambda: 2 in meeting.ours.closed, 9)
    meeting.link.run_until(lambda: not meeting.peer.unacked[2], 1)
    assert len(meeting.ours.bodies[2]) == late + 2


# --- one by one -----------------------------------------------------------------------------


@rule("P-5")
def test_an_end_that_is_hidden_is_an_end() -> None:
    raw = receiving()
    raw.hear({"_": {"end": True}, "seq": 1, "c": 2})
    raw.engine.done(2, 2, raw.now)
    raw.turn()
    assert raw.told(ChannelClosed) == [ChannelClosed(2, CloseReason.PEER_ENDED, by_peer=True)]


@rule("T-18")
def test_content_behind_an_end_is_not_delivered() -> None:
    raw = receiving()
    raw.hear({"c": 2, "seq": 1, "end": True}, b"last")
    raw.hear({"c": 2, "seq": 2}, b"more")
    raw.engine.done(2, 2, raw.now)
    raw.turn()
    raw.hear({"c": 2, "seq": 3}, b"and more")
    assert raw.bodies(2) == [b"0", b"last"]


@rule("T-19", "P-6")
def test_an_ack_behind_an_err_is_nothing() -> None:
    raw = sending(3)
    raw.hear({"c": 1, "err": "x"})
    assert raw.hear({"c": 1, "ack": 2}) == []
    assert len(raw.told(ChannelClosed)) == 1


@rule("T-11", "T-12")
def test_a_miss_that_is_empty_or_names_what_was_never_sent() -> None:
    raw = sending(5)
    raw.sent()
    raw.hear({"c": 1, "ack": 0, "miss": []})
    assert raw.heads() == []
    raw.hear({"c": 1, "ack": 2, "miss": [3, 5, 6, 7, 8, 9, 10, 11, 12]})
    assert [head["seq"] for head in raw.heads()] == [3]
    assert raw.faults() == {}


@rule("T-6", "T-15")
def test_a_stale_ack_in_a_packet_that_goes_again_takes_nothing_back() -> None:
    raw = sending(5)
    raw.hear({"c": 1, "ack": 3, "seq": 0})
    raw.hear({"c": 1, "ack": 0, "seq": 1, "miss": [4]})
    raw.sent()
    raw.wait(2)
    assert {head["seq"] for head in raw.heads() if "seq" in head} == {4}
    assert raw.faults() == {}


@rule("T-16")
def test_who_does_not_ack_repeats_and_asks_once_gets_what_it_lacks() -> None:
    """As telehash-c does: what was sent again for its one miss may be lost, too."""
    raw = sending(4)
    raw.hear({"c": 1, "ack": 0, "miss": [1]})
    raw.sent()
    raw.wait(3)
    assert [head["seq"] for head in raw.heads()] == [1, 3]


@rule("T-2")
def test_reliability_is_never_asked_for_by_itself() -> None:
    raw = sending(1)
    raw.engine.open("seek", reliable=False, js={"seek": "ab"}, now=raw.now)
    raw.turn()
    assert raw.heads()[-1] == {"c": 3, "type": "seek", "seek": "ab"}

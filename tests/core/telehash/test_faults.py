"""Bad packets, each an outcome by name; its channel, and others, go on."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.engine.inputs import Datagram
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    CloseReason,
    PacketBatch,
    PacketsDropped,
)
from aqueduct_core.telehash.faults import PacketFault
from tests.core.telehash.raw import Raw, packet, receiving, sending
from tests.support.rules import rule

Head = dict[str, Any]

NO_PACKETS = {
    "a byte": b"\0",
    "a head longer than the packet": b'\0\x50{"c":2}',
    "no UTF-8": packet(b'{"c":2,"seq":1,"_":"\xff"}'),
    "no JSON": packet("{c:2}"),
    "JSON 10,000 deep": packet('{"c":2,"seq":1,"_":' + "[" * 10_000 + "]" * 10_000 + "}"),
    "a repeated key": packet('{"c":2,"seq":1,"c":2}'),
    "no head": b"\0\0body",
    "a head of one byte": b"\0\x01\x07body",
    "an array": packet('["c",2]'),
    "c 0": packet({"c": 0, "seq": 0, "type": "_t"}),
    "c of text": packet({"c": "2", "seq": 1}),
    "seq of text": packet({"c": 2, "seq": "1"}),
    "seq negative": packet({"c": 2, "seq": -1}),
    "seq true": packet({"c": 2, "seq": True}),
    "seq 1.5": packet({"c": 2, "seq": 1.5}),
    "seq 2^32": packet({"c": 2, "seq": 1 << 32}),
    "end of a number": packet({"c": 2, "seq": 1, "end": 1}),
}


@rule("P-1", "P-3", "T-3", "P-5")
@pytest.mark.parametrize("name", NO_PACKETS)
def test_what_cannot_be_read_is_counted_by_name_and_hurts_nobody(name: str) -> None:
    raw = receiving()
    [dropped] = raw.handle(Datagram(NO_PACKETS[name]))
    assert isinstance(dropped, PacketsDropped)
    assert (dropped.count, raw.faults()) == (1, {dropped.fault: 1})
    raw.hear({"c": 2, "seq": 1}, b"goes on")
    raw.hear({"c": 4, "seq": 0, "type": "_other"}, b"too")
    assert raw.bodies(2) == [b"0", b"goes on"]
    assert raw.bodies(4) == [b"too"]
    assert raw.engine.closed is None


CHANNELS: dict[str, tuple[list[Head], PacketFault]] = {
    "an opening of the wrong parity": (
        [{"c": 3, "seq": 0, "type": "_t"}],
        PacketFault.WRONG_PARITY,
    ),
    "a channel of ours that there is not": ([{"c": 3, "ack": 0}], PacketFault.UNKNOWN_CHANNEL),
    "an ack of a channel that there is not": ([{"c": 6, "ack": 0}], PacketFault.UNKNOWN_CHANNEL),
    "content of an unreliable one that there is not": (
        [{"c": 6, "_": {}}],
        PacketFault.UNKNOWN_CHANNEL,
    ),
    "err of one that there is not": ([{"c": 6, "err": "x"}], PacketFault.UNKNOWN_CHANNEL),
    "a first packet without type": ([{"c": 6, "seq": 0}], PacketFault.NO_TYPE),
    "a first seq that is not 0": ([{"c": 6, "seq": 1, "type": "_t"}], PacketFault.FIRST_SEQ),
    "a channel that was used, in another type": (
        [{"c": 2, "seq": 0, "type": "_other"}],
        PacketFault.TYPE_AGAIN,
    ),
    "a channel that was used, unreliable now": ([{"c": 2, "type": "_t"}], PacketFault.TYPE_AGAIN),
    "type in a later packet": ([{"c": 2, "seq": 1, "type": "_t"}], PacketFault.TYPE_AGAIN),
    "content without seq": ([{"c": 2, "_": {"a": 1}}], PacketFault.NO_SEQ),
    "an end without seq": ([{"c": 2, "end": True}], PacketFault.NO_SEQ),
    "seq on an unreliable channel": (
        [{"c": 8, "type": "_t"}, {"c": 8, "seq": 1}],
        PacketFault.UNEXPECTED_SEQ,
    ),
    "an unreliable opening again": (
        [{"c": 8, "type": "_t"}, {"c": 8, "type": "_t"}],
        PacketFault.TYPE_AGAIN,
    ),
    "a seq beyond the window": ([{"c": 2, "seq": 101}], PacketFault.BEYOND_WINDOW),
    "an ack of what was not sent": ([{"c": 2, "ack": 0}], PacketFault.ACK_BEYOND_SENT),
    "a miss of 101": ([{"c": 2, "miss": [*range(101)]}], PacketFault.MISS_TOO_LONG),
    "a miss of text": ([{"c": 2, "miss": ["1"]}], PacketFault.BAD_MISS),
}


@rule("P-3", "P-4", "T-1", "T-3", "T-5", "T-12", "T-20")
@pytest.mark.parametrize("name", CHANNELS)
def test_what_a_channel_does_not_take(name: str) -> None:
    heads, fault = CHANNELS[name]
    raw = receiving()
    for head in heads:
        raw.hear(head)
    assert raw.faults() == {fault: 1}
    assert raw.dropped() == [(fault, 1, heads[-1]["c"])]
    raw.hear({"c": 2, "seq": 1}, b"goes on")
    assert raw.bodies(2) == [b"0", b"goes on"]
    assert not raw.told(ChannelClosed)


@rule("P-3")
def test_numbers_may_be_skipped_and_openings_overtake_each_other() -> None:
    raw = Raw()
    for number in (10, 6, 8, 2, 400, 12):
        raw.hear({"c": number, "seq": 0, "type": "_t"})
    assert [event.channel for event in raw.told(ChannelOpened)] == [10, 6, 8, 2, 400, 12]


@rule("P-3")
@pytest.mark.parametrize("wait", [0.0, 30.0])
def test_a_number_is_used_once(wait: float) -> None:
    raw = receiving()
    raw.engine.fail(2, "no", raw.now)
    raw.turn()
    raw.wait(wait)
    raw.hear({"c": 2, "seq": 0, "type": "_t"})
    assert len(raw.told(ChannelOpened)) == 1
    assert raw.faults() == ({PacketFault.REUSED_CHANNEL: 1} if wait else {})


@rule("T-12")
def test_entries_of_a_miss_below_the_ack_or_never_sent_are_passed_over() -> None:
    raw = sending(4)
    raw.sent()
    raw.hear({"c": 1, "ack": 1, "miss": [0, 1, 3, 4, 99]})
    assert [head["seq"] for head in raw.heads()] == [3]
    assert raw.faults() == {}


def test_several_faults_are_told_once_a_turn() -> None:
    raw = receiving()
    bad = Datagram(b"")
    beyond = [Datagram(packet({"c": 2, "seq": seq})) for seq in (200, 201)]
    unknown = [Datagram(packet({"c": c, "ack": 0})) for c in (6, 8)]
    events = raw.handle(*[bad] * 1_000, *beyond, *unknown)
    assert {tuple(event) for event in events} == {
        (PacketFault.TOO_SHORT, 1_000, None),
        (PacketFault.BEYOND_WINDOW, 2, 2),
        (PacketFault.UNKNOWN_CHANNEL, 2, None),
    }
    assert raw.faults()[PacketFault.TOO_SHORT] == 1_000


@rule("T-2")
def test_ten_thousand_openings_in_a_second() -> None:
    """Those beyond the bound are refused with less than they cost; what is there goes on."""
    raw = receiving(config=TelehashConfig(max_channels=100, max_ended=50))
    sizes = []
    for number in range(4, 20_004, 2):
        opening = packet({"c": number, "type": "x"})
        before = len(raw.out)
        raw.now += 0.0001
        raw.handle(Datagram(opening))
        sizes += [(each.size, len(opening)) for each in raw.out[before:]]
    assert len(raw.told(ChannelOpened)) == 100
    assert raw.faults() == {PacketFault.TOO_MANY_CHANNELS: 10_000 - 99}
    assert len(sizes) == 10_000 - 99
    assert all(size <= asked for size, asked in sizes)
    assert raw.engine.footprint.size < 100 * 4_000
    assert raw.out[-1].head == {"c": 20_002, "err": "no"}
    raw.hear({"c": 2, "seq": 1}, b"goes on")
    assert raw.bodies(2)[-1] == b"goes on"


def test_channels_that_are_opened_and_failed_by_the_thousand_leave_little() -> None:
    raw = Raw(config=TelehashConfig(max_ended=50))
    for number in range(2, 20_002, 2):
        raw.hear({"c": number, "seq": 0, "type": "x"})
        raw.engine.fail(number, "no such type", raw.now)
        raw.turn()
    assert raw.engine.footprint.size < 50 * 1_000


@rule("P-7")
def test_an_unreliable_channel_that_is_silent_gives_way_when_a_place_is_wanted() -> None:
    raw = Raw(config=TelehashConfig(max_channels=2))
    raw.hear({"c": 2, "type": "_t"})
    raw.hear({"c": 4, "type": "_t"})
    raw.wait(6)
    raw.hear({"c": 2, "_": {}})
    raw.hear({"c": 6, "type": "_t"})
    assert raw.faults() == {PacketFault.TOO_MANY_CHANNELS: 1}
    raw.wait(5)
    raw.hear({"c": 8, "type": "_t"})
    assert raw.told(ChannelClosed) == [ChannelClosed(4, CloseReason.TIMED_OUT)]
    assert raw.told(ChannelOpened)[-1].channel == 8


def test_packets_whose_opening_is_missing_are_few_and_are_let_go() -> None:
    raw = Raw(config=TelehashConfig(max_unopened=3))
    for number in range(2, 22, 2):
        raw.hear({"c": number, "seq": 1}, bytes(1_000))
    assert raw.faults() == {PacketFault.TOO_MANY_UNOPENED: 7}
    assert raw.engine.footprint.size > 3 * 4_000
    raw.wait(11)
    assert raw.engine.footprint.size == 0
    assert not raw.told(ChannelClosed)
    raw.hear({"c": 2, "seq": 0, "type": "_t"}, b"new")
    assert raw.bodies(2) == [b"new"]


@rule("T-5")
def test_bytes_that_wait_for_what_is_missing_are_bounded_for_the_whole_line() -> None:
    raw = Raw(config=TelehashConfig(receive_bytes=10_000))
    for number in (2, 4, 6):
        raw.hear({"c": number, "seq": 0, "type": "_t"})
        for seq in range(2, 9):
            raw.hear({"c": number, "seq": seq}, bytes(1_000))
    assert raw.faults() == {PacketFault.NO_ROOM: 21 - 7}
    assert raw.engine.footprint.size < 3 * 3_500 + 10_000
    raw.hear({"c": 2, "seq": 1})
    assert len(raw.bodies(2)) == 9


def test_a_pause_loses_packets_and_no_channel() -> None:
    raw = receiving()
    raw.engine.pause()
    raw.hear({"c": 2, "seq": 1}, b"1")
    assert raw.dropped() == [(PacketFault.PAUSED, 1, None)]
    raw.engine.resume(raw.now)
    raw.hear({"c": 2, "seq": 1}, b"1")
    assert raw.bodies(2) == [b"0", b"1"]
    assert raw.told(PacketBatch)[-1].first == 1

"""Channels that are used before the message that carries them comes, or that nobody takes."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import Config
from aqueduct_core.aqueduct.events import Counts, End, Ended
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import CARRIER_8, Wire, ends, payloads


@rule("AQ-LIFE-22", "AQ-LIFE-15")
def test_a_channel_that_finished_before_its_carrier_came() -> None:
    server = Wire.server()
    server.stream("030804000000016d" + "0601", end=True)
    assert server.sent() == ["7: 0308080200010a FIN"]
    assert server.all_events() == []
    server.stream(CARRIER_8)
    assert payloads(server) == [(0, b""), (8, b"m")]
    assert ends(server) == [(8, End.FINISHED)]


@rule("AQ-LIFE-22", "AQ-LIFE-6")
def test_a_forget_throws_an_unclaimed_queue_away() -> None:
    server = Wire.server()
    server.stream("030804000000016d" + "0601", end=True)
    server.stream("03080b")
    server.stream(CARRIER_8)
    assert payloads(server) == [(0, b"")]
    assert server.events(Ended) == [Ended(8, End.LOST, Counts())]


@rule("AQ-LIFE-22", "AQ-LIFE-14")
def test_a_claim_after_cancel() -> None:
    server = Wire.server()
    server.stream("030804000000016d")
    server.stream("030807")
    assert server.all_events() == []
    server.stream(CARRIER_8)
    assert payloads(server) == [(0, b"")]
    assert ends(server) == [(8, End.CANCELLED)]


@rule("AQ-LIFE-22", "AQ-LIFE-13")
def test_a_claim_of_a_sender_after_close_receiver() -> None:
    server = Wire.server()
    server.stream("03020a")
    assert server.all_events() == []
    server.stream("030004000002020000")
    assert ends(server) == [(2, End.CLOSED)]
    with pytest.raises(Exception, match="no sender"):
        server.engine.send(2, b"", now=0)


@rule("AQ-LIFE-22")
def test_a_tree_that_came_upside_down() -> None:
    """24 on 16 on 8 on 0, told in the order of their carriers."""
    server = Wire.server()
    server.stream("0318" + "0400000001" + "64")
    server.stream("0310" + "040000021800" + "0163")
    server.stream("0308" + "040000021000" + "0162")
    assert server.all_events() == []
    server.stream("0300" + "040000020800" + "0161")
    assert payloads(server) == [(0, b"a"), (8, b"b"), (16, b"c"), (24, b"d")]


@rule("AQ-LIFE-22")
def test_what_several_waiting_messages_carry_is_told_with_them() -> None:
    server = Wire.server()
    server.stream("0310" + "0400000001" + "62")
    server.stream("0318" + "0400000001" + "63")
    server.stream("0308" + "04000002100000" + "04010002180000")
    server.stream(CARRIER_8)
    expected = [(0, b""), (8, b""), (8, b""), (16, b"b"), (24, b"c")]
    assert sorted(payloads(server)) == expected


@rule("AQ-LIFE-20")
def test_dropping_a_tree_closes_every_branch() -> None:
    server = Wire.server()
    server.stream("0310" + "040000021a00" + "0163")  # 26: the server sends
    server.stream("0308" + "040000021000" + "0162")
    server.stream("030807")  # cancelled unread: its carried channels are nobody's
    assert server.all_events() == []
    sent = server.sent()
    assert [line for line in sent if line.endswith("0a FIN")]
    assert not server.engine.half_open(16)
    assert not server.engine.can_send(26)
    assert server.engine._channels._remote_channels.bytes == 0


@rule("AQ-LIFE-20", "AQ-LIFE-6")
def test_dropping_a_record_that_ended_unread() -> None:
    server = Wire.server()
    server.stream("0310" + "0400000001" + "63" + "0601", end=True)
    server.stream("0308" + "040000021000" + "0162")
    server.stream("03080b")
    assert server.engine._channels._remote_channels.bytes == 0
    assert server.engine._context.credit.total == 0
    assert server.all_events() == []


@rule("AQ-LIFE-20", "AQ-LIFE-6")
def test_forgetting_a_channel_closes_what_its_unread_messages_carried() -> None:
    server = Wire.server()
    server.stream("0310" + "0400000001" + "63")
    server.stream("0308" + "040000021000" + "0162")
    server.stream("03080b")
    assert not server.engine.half_open(16)
    assert [line for line in server.sent() if line.endswith("0a FIN")]
    assert server.code is None


@rule("AQ-LIFE-20", "AQ-LIFE-21")
def test_nothing_is_kept_of_channels_that_nobody_will_claim() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_channels=2))
    server.stream("0308" + "04000004100002" + "00" + "0162")
    server.stream("030807")  # of 8 it is kept how it ended, until its carrier comes
    server.stream("03020a")
    server.stream("0318")
    assert server.code is None
    server.stream("0320")
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-LIFE-20")
def test_the_end_of_a_dropped_channel_is_told_to_nobody() -> None:
    server = Wire.server()
    server.stream("0308" + "040000020200" + "0162")
    server.stream("030807")
    server.stream("03020a")
    assert server.all_events() == []
    server.stream(CARRIER_8)
    assert ends(server) == [(8, End.CANCELLED)]


@rule("AQ-LIFE-20")
def test_dropping_what_the_application_was_told_of() -> None:
    server = Wire.server()
    server.stream("03000400000608000200" + "0a0000")
    (batch,) = server.events(MessageBatch)
    server.engine.finish(2, 0)
    server.engine.drop(batch.attachments[0], 0)  # a finished sender is left alone
    server.engine.drop(batch.attachments[0], 0)
    assert not server.engine.half_open(8)
    assert server.engine.half_open(2)


@rule("AQ-LIFE-21")
def test_unclaimed_channels_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_channels=4))
    for index in range(1, 5):
        server.stream(f"03{index * 8:02x}")
    assert server.code is None
    server.stream("0328")
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-LIFE-21")
def test_records_count_as_unclaimed() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_channels=4))
    for index in range(1, 5):
        server.stream(f"03{index * 8:02x}0600")
    server.stream("03000400000208" + "0000")  # a claim makes room
    server.stream("0328")
    assert server.code is None
    server.stream("0330")
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-LIFE-21")
def test_unclaimed_bytes_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_bytes=18))
    server.stream("0308040000000161")
    server.stream("0310040000000161")
    server.stream("0318040000000161")
    assert server.code is None
    server.stream("0308040100000161")
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-LIFE-21")
def test_a_claim_of_a_channel_that_is_alive_makes_room() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_channels=1))
    server.stream("0308")
    server.stream(CARRIER_8)
    server.stream("0310")
    assert server.code is None
    server.stream("0318")
    assert server.code == Code.RESOURCE_LIMIT


def test_machines_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_channels=3))
    server.stream("0308")
    server.stream("0310")
    assert server.code is None
    server.stream("0318")
    assert server.code == Code.RESOURCE_LIMIT

"""Birth and death of channels: routing, attachments, claims, tombstones, loss."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import Attach, Config, Mode
from aqueduct_core.aqueduct.events import Counts, Delivered, End, Ended
from aqueduct_core.aqueduct.faults import Code, NotAllowed
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

CARRIER_8 = "030004000002080000"


def ends(wire: Wire) -> list[tuple[int, End]]:
    return [(ended.channel, ended.end) for ended in wire.events(Ended)]


def batches(wire: Wire) -> list[tuple[int, bytes]]:
    return [(batch.channel, batch.payload) for batch in wire.events(MessageBatch)]


# --- routing -------------------------------------------------------------------------------


@rule("AQ-LIFE-5")
def test_a_local_channel_that_was_never_made() -> None:
    server = Wire.server()
    server.stream("0309")
    server.advance(1)
    assert server.sent() == ["7: 03090b FIN"]
    strict = Wire.server(Config(auto_accept=True, strict_unknown_local=True))
    strict.stream("0309")
    assert strict.code == Code.STATE


@rule("AQ-LIFE-5", "AQ-LIFE-4")
def test_strict_still_forgets_what_was_made() -> None:
    client = Wire.client(Config(strict_unknown_local=True))
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.engine.close(2, 0)
    client.advance(5)
    client.sent()
    client.stream("0302")
    client.advance(1)
    assert client.sent() == ["18: 03020b FIN"]


@rule("AQ-SEQ-11")
def test_the_rest_of_a_stream_to_a_local_channel_is_not_even_parsed() -> None:
    server = Wire.server()
    stream = server.stream("0301ffffff")
    server.stream("ff" * 100, stream, end=True)
    assert server.code is None
    client = Wire.client()
    client.engine.send(0, b"x", now=0)
    stream = client.stream("03000a")
    client.stream("ffff", stream)
    client.stream("0d", stream, end=True)
    assert client.code is None


@rule("AQ-SEQ-11", "AQ-LIFE-6", "AQ-LIFE-22")
def test_a_forget_on_the_stream_of_an_ended_machine_drops_its_record() -> None:
    server = Wire.server()
    stream = server.stream("0308040000000161" + "0601")
    assert server.sent() == ["7: 030808020001" + "0a FIN"]
    server.stream("0b", stream)
    server.stream(CARRIER_8)
    assert batches(server) == [(0, b"")]
    assert ends(server) == [(8, End.LOST)]


@rule("AQ-LIFE-17", "AQ-ERR-4")
def test_a_tombstone_ignores_and_still_checks_the_syntax() -> None:
    server = Wire.server()
    server.stream(CARRIER_8)
    server.engine.close(8, 0)
    server.advance(0.1)
    server.fresh()
    for _ in range(2):
        server.stream("0308040000000161")
    server.datagram("0308040000000161")
    server.advance(5)
    assert server.sent() == []
    assert server.all_events() == []
    server.stream("03080d")
    assert server.code == Code.ENCODING


@rule("AQ-ERR-4")
def test_a_tombstone_still_checks_the_context() -> None:
    server = Wire.server()
    server.stream("030806" + "00")
    server.stream("0308" + "0a")
    assert server.code == Code.CONTEXT


@rule("AQ-LIFE-23")
def test_the_entrypoint_is_never_made_again() -> None:
    server = Wire.server()
    server.engine.close(0, 0)
    server.fresh()
    server.stream("0300040000000161")
    server.stream("03000b")
    server.advance(5)
    assert server.sent() == []
    assert server.all_events() == []


@rule("AQ-LIFE-4", "AQ-LIFE-23")
def test_a_client_forgets_an_entrypoint_that_ended() -> None:
    client = Wire.client()
    client.engine.finish(0, 0)
    client.stream("03000a", end=True)
    client.sent()
    client.stream("0300")
    client.advance(1)
    assert client.sent() == ["14: 03000b FIN"]


@rule("AQ-LIFE-3", "AQ-LIFE-9")
def test_route_back_is_first_on_the_control_stream() -> None:
    server = Wire.server()
    server.stream("03000400000408000200" + "00")
    assert server.sent() == ["7: 0308", "11: 0302"]
    server.engine.send(2, b"y", now=0)
    server.stream("0308040000000161")
    server.advance(0.02)
    assert sorted(server.sent()) == ["11: 040000000179", "15: 030008020001", "7: 08020001"]
    quiet = Wire.server(Config(auto_accept=True, route_back_on_attach=False))
    quiet.stream(CARRIER_8)
    assert quiet.sent() == []


# --- attachments ---------------------------------------------------------------------------


@rule("AQ-SEND-11")
def test_no_machine_before_its_carrier_is_sent() -> None:
    client = Wire.client()
    assert not client.engine.half_open(8)
    client.engine.send(0, b"", now=0, attach=[Attach(True), Attach(False)])
    assert client.engine.half_open(8)
    assert client.engine.half_open(2)
    assert client.sent() == ["10: 03000400000408000200" + "00"]


@rule("AQ-LIFE-8")
def test_both_kinds_of_attachment() -> None:
    server = Wire.server()
    pair = "04016b0176"
    server.stream(f"03000401001008{pair}02{pair}0a001200" + "0178")
    headers = ((b"k", b"v"),)
    (batch,) = server.events(MessageBatch)
    assert batch.attachments == {
        0: (Attachment(8, headers), Attachment(2, headers), Attachment(10, ()), Attachment(18, ()))
    }
    assert server.code is None
    assert server.engine.half_open(8)
    assert server.engine.can_send(2)


@rule("AQ-LIFE-10")
def test_one_channel_in_two_messages() -> None:
    for pause in (False, True):
        server = Wire.server()
        server.stream(CARRIER_8)
        if pause:
            server.engine.close(8, 0)
        server.stream("030004010002080000")
        assert server.code == Code.STATE


@rule("AQ-LIFE-10")
def test_the_entrypoint_cannot_be_attached() -> None:
    server = Wire.server()
    server.stream("030004000002000000")
    assert server.code == Code.CONTEXT


@rule("AQ-LIFE-22", "AQ-LIFE-15")
def test_a_channel_that_finished_before_its_carrier_came() -> None:
    server = Wire.server()
    server.stream("030804000000016d" + "0601", end=True)
    assert server.sent() == ["7: 0308080200010a FIN"]
    assert server.all_events() == []
    server.stream(CARRIER_8)
    assert batches(server) == [(0, b""), (8, b"m")]
    assert ends(server) == [(8, End.FINISHED)]


@rule("AQ-LIFE-22", "AQ-LIFE-6")
def test_a_forget_throws_an_unclaimed_queue_away() -> None:
    server = Wire.server()
    server.stream("030804000000016d" + "0601", end=True)
    server.stream("03080b")
    server.stream(CARRIER_8)
    assert batches(server) == [(0, b"")]
    assert server.events(Ended) == [Ended(8, End.LOST, Counts())]


@rule("AQ-LIFE-22", "AQ-LIFE-14")
def test_a_claim_after_cancel() -> None:
    server = Wire.server()
    server.stream("030804000000016d")
    server.stream("030807")
    assert server.all_events() == []
    server.stream(CARRIER_8)
    assert batches(server) == [(0, b"")]
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
    assert batches(server) == [(0, b"a"), (8, b"b"), (16, b"c"), (24, b"d")]


@rule("AQ-LIFE-22")
def test_what_several_waiting_messages_carry_is_told_with_them() -> None:
    server = Wire.server()
    server.stream("0310" + "0400000001" + "62")
    server.stream("0318" + "0400000001" + "63")
    server.stream("0308" + "04000002100000" + "04010002180000")
    server.stream(CARRIER_8)
    assert sorted(batches(server)) == [(0, b""), (8, b""), (16, b"b"), (24, b"c")]


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


# --- forget and loss -----------------------------------------------------------------------


@rule("AQ-LIFE-6")
def test_forget_destroys_a_receiver() -> None:
    server = Wire.server()
    server.stream(CARRIER_8)
    server.advance(0.1)
    server.fresh()
    server.stream("0308040000000161")
    server.stream("03080b")
    assert server.sent() == ["RESET 7"]
    assert batches(server) == [(8, b"a")]  # it was told before
    assert server.events(Ended) == [Ended(8, End.LOST, Counts(reliable_received=1))]
    server.advance(5)
    assert server.sent() == []


@rule("AQ-LIFE-6", "AQ-LOST-8")
def test_forget_of_a_sender_nacks_and_loses_what_it_carried() -> None:
    server = Wire.server()
    server.stream("030004000002020000")
    server.pump()
    server.engine.send(2, b"x", now=0, attach=[Attach(True), Attach(False)])
    server.engine.send(3, b"y", now=0, mode=Mode.UNORDERED)
    server.advance(0.1)
    server.fresh()
    server.stream("03020b")
    assert server.events(Delivered) == [
        Delivered(2, True, 0, 1, False),
        Delivered(3, True, 0, 1, False),
    ]
    assert ends(server) == [(2, End.LOST), (3, End.LOST), (1, End.LOST)]
    server.advance(0.1)
    assert server.sent() == ["RESET 7", "RESET 11", "19: 03030b FIN"]


@rule("AQ-LIFE-6")
def test_forget_while_an_ended_channel_is_still_read() -> None:
    server = Wire.server()
    server.stream(CARRIER_8)
    server.stream("0308040000000161" + "0601", end=True)
    assert ends(server) == [(8, End.FINISHED)]
    server.stream("03080b")
    assert ends(server) == []
    assert server.code is None


@rule("AQ-LOST-4")
def test_a_lost_channel_that_was_never_routed_says_nothing() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True), Attach(False)])
    client.sent()
    client.stream("03000a")
    client.advance(1)
    assert client.events(Ended) == [
        Ended(0, End.CLOSED, Counts(reliable_sent=1, nacked=1)),
        Ended(8, End.LOST, Counts()),
        Ended(2, End.LOST, Counts()),
    ]
    assert client.sent() == ["RESET 10"]


@rule("AQ-LOST-4")
def test_a_lost_channel_that_was_routed_in_a_datagram() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(8, b"u", now=0, mode=Mode.UNRELIABLE)
    client.sent()
    client.stream("03000a")
    client.advance(1)
    assert "14: 03080b FIN" in client.sent()


@rule("AQ-LOST-5")
def test_a_channel_that_finished_before_its_carrier_was_nacked() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(8, b"", now=0, attach=[Attach(True)])
    client.engine.finish(8, 0)
    client.stream("0308080200010a", end=True)
    assert ends(client) == [(8, End.FINISHED)]
    assert client.engine.half_open(16)
    client.sent()
    client.stream("03000a")
    assert ends(client) == [(0, End.CLOSED), (16, End.LOST)]
    client.advance(1)
    assert client.sent() == ["RESET 10", "18: 03080b FIN"]


@rule("AQ-LOST-3", "AQ-ACK-7")
def test_a_nacked_datagram_loses_its_channels() -> None:
    client = Wire.client()
    for _ in range(2):
        client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE, attach=[Attach(True)])
    client.advance(0.1)
    client.stream("0300" + "09020101")
    assert ends(client) == [(16, End.LOST)]
    assert client.engine.half_open(8)
    assert not client.engine._channels.lineage.is_pending(8)


@rule("AQ-LIFE-11", "AQ-LIFE-18")
def test_forget_goes_on_the_lingering_stream() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.stream("0302040000000172")
    client.engine.close(2, 0)
    assert client.sent() == ["14: 0302080200010a", "10: 030004000002020000"]
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["14: 0b"]
    # a second one on a stream of its own could overtake the acks as well as the first
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["14: 0b"]
    client.advance(1)
    assert client.sent() == ["14:  FIN"]
    client.stream("0302")
    client.advance(0.1)
    assert client.sent() == ["18: 03020b FIN"]


@rule("AQ-LIFE-11", "AQ-LIFE-18")
def test_forgets_that_are_due_together_each_go_their_way() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False), Attach(False)])
    client.engine.close(10, 0)
    client.advance(2)
    client.engine.close(2, client.now)
    assert client.sent() == [
        "14: 030a0a",
        "10: 0300040000040200" + "0a0000",
        "14:  FIN",
        "18: 03020a",
    ]
    client.stream("0302")
    client.stream("030a")
    client.advance(0.1)
    assert client.sent() == ["18: 0b", "22: 030a0b FIN"]


@rule("AQ-LIFE-11")
def test_the_end_of_a_lingering_stream_leaves_before_messages() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(False)])
    client.engine.close(2, 0)
    client.fresh()
    client.engine.tick(1.0)
    client.engine.send(0, b"x", now=1.0)
    assert client.sent() == ["14:  FIN", "10: 0401000001" + "78"]


@rule("AQ-LIFE-18")
def test_a_forget_waits_for_others_of_its_channel() -> None:
    server = Wire.server(Config(auto_accept=True, forget_delay=0.5))
    for _ in range(100):
        server.advance(0.004)
        server.stream("0301")
    server.advance(0.1)
    assert server.sent() == []
    server.advance(0.1)
    assert server.sent() == ["7: 03010b FIN"]


def test_forgets_for_the_peer_are_bounded() -> None:
    server = Wire.server(Config(auto_accept=True, max_pending_forgets=2))
    for channel in ("01", "09", "01"):
        server.stream("03" + channel)
    assert server.code is None
    server.stream("0311")
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-LIFE-24")
def test_drained() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.finish(0, 0)
    client.stream("0300080200010a")
    assert not client.engine.drained
    client.engine.cancel(8, 0)
    with pytest.raises(NotAllowed):
        client.engine.finish(8, 0)
    client.stream("03080a")
    assert client.engine.drained


@rule("AQ-LOST-7")
def test_a_deep_chain_of_channels() -> None:
    depth = 20_000
    client = Wire.client(Config(max_channels=depth + 10, max_unacked_attachment_messages=depth))
    parent = 0
    for _ in range(depth):
        (parent,) = client.engine.send(parent, b"", now=0, attach=[Attach(True)]).attached
    client.stream("03000a")
    assert len(ends(client)) == depth + 1
    assert client.engine.open_channels == 0
    assert len(client.engine._channels.lineage) == 0

"""Birth and death of channels: routing, attachments, claims, tombstones, loss."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import Attach, Config
from aqueduct_core.aqueduct.events import End
from aqueduct_core.aqueduct.faults import Code, NotAllowed
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.support.rules import rule
from tests.support.wire import CARRIER_8, Wire, ends, payloads

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
    assert payloads(server) == [(0, b"")]
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

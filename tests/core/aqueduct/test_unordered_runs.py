"""Unordered messages in a row on one stream, for peers that said that they take them."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Mode, Side
from aqueduct_core.aqueduct.events import Opened
from aqueduct_core.aqueduct.faults import BadArgument
from aqueduct_core.aqueduct.send_queue import Attach
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers, MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

KEY = b"unordered-runs"
HEADERS = f"V02{len(KEY) + 2:02x}{len(KEY):02x}{KEY.hex()}0001"
UNORDERED = Mode.UNORDERED
LINES = [b"%04d a line" % i for i in range(200)]


def client(config: Config | None = None) -> Wire:
    """A client whose server takes runs."""
    wire = Wire(AqueductEngine(Side.CLIENT, (), config or Config()))
    wire.pump()
    wire.stream(HEADERS, end=True)
    wire.pump()
    return wire.fresh()


def streams(wire: Wire) -> list[str]:
    wire.pump()
    return wire.sent()


def test_as_many_leave_on_a_stream_as_fit_a_datagram() -> None:
    wire = client()
    assert wire.engine.send_many(0, LINES, now=0, mode=UNORDERED) == (0, 200)
    sent = streams(wire)
    assert 2 <= len(sent) <= 1 + 200 * (len(LINES[0]) + 6) // 1_000
    assert all(text.endswith(" FIN") for text in sent)
    sizes = [len(bytes.fromhex(text.split()[1])) for text in sent]
    assert max(sizes) <= wire.engine.config.max_datagram_size
    assert min(sizes[:-1]) > 0.9 * wire.engine.config.max_datagram_size


def test_what_fits_no_datagram_has_a_stream_of_its_own() -> None:
    wire = client()
    payloads = [b"a", b"b", bytes(5_000), b"c", b"d"]
    assert wire.engine.send_many(0, payloads, now=0, mode=UNORDERED) == (0, 5)
    assert len(streams(wire)) == 3


@rule("AQ-SEND-2")
@pytest.mark.parametrize("single", [True, False])
def test_a_peer_that_did_not_say_so_gets_a_stream_for_each(single: bool) -> None:
    wire = Wire.client()
    if single:
        for payload in LINES[:10]:
            wire.engine.send(0, payload, now=0, mode=UNORDERED)
    else:
        assert wire.engine.send_many(0, LINES[:10], now=0, mode=UNORDERED) == (0, 10)
    assert len(streams(wire)) == 10


@pytest.mark.parametrize("headers", [(), ((b"k", b"v"),)])
def test_one_by_one_they_share_a_stream_as_well_until_it_leaves(headers: Headers) -> None:
    wire, bulk = client(), client()
    column = HeaderColumn.of([headers] * 200) if headers else None
    bulk.engine.send_many(0, LINES, headers=column, now=0, mode=UNORDERED)
    for payload in LINES:
        wire.engine.send(0, payload, headers=headers, now=0, mode=UNORDERED)
    assert streams(wire) == streams(bulk)
    wire.fresh()
    wire.engine.send(0, b"later", now=0, mode=UNORDERED)
    assert len(streams(wire)) == 1


def test_what_brings_a_channel_along_has_a_stream_of_its_own() -> None:
    wire = client()
    for attach in ([], [Attach(sends=True)], [], []):
        wire.engine.send(0, b"x", attach=attach, now=0, mode=UNORDERED)
    assert len(streams(wire)) == 3


@rule("AQ-SEND-10")
def test_a_cancel_resets_a_stream_that_was_shared_one_by_one() -> None:
    wire = client()
    for payload in LINES[:3]:
        wire.engine.send(0, payload, now=0, mode=UNORDERED)
    assert len(streams(wire)) == 1
    wire.fresh()
    wire.stream("0300" + "0802" + "0001", end=False)  # the first of them
    wire.engine.cancel(0, 0)
    wire.pump()
    assert sum("RESET" in text for text in wire.sent()) == 1


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_all_of_it_arrives_whatever_stream_is_first(backwards: bool, column: bool) -> None:
    headers = HeaderColumn.of([((b"k", b"%d" % i),) for i in range(200)]) if column else None
    wire, server = client(), Wire.server()
    wire.engine.send_many(0, LINES, headers=headers, now=0, mode=UNORDERED)
    sent = streams(wire)
    for text in reversed(sent) if backwards else sent:
        server.stream(text.split()[1], end=True)
    got: dict[int, bytes] = {}
    for batch in server.events(MessageBatch):
        for i, message in enumerate(batch.messages()):
            got[batch.first + i] = message.payload
            assert (message.headers != ()) is column
    assert [got[i] for i in range(200)] == LINES
    assert server.code is None


@rule("AQ-FLOW-4")
def test_a_run_takes_the_credit_that_there_is() -> None:
    config = Config(flow_per_channel=0)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    wire.pump()
    flow = b"flow-control-5a3c19"
    size = len(KEY) + 2 + len(flow) + 5
    wire.stream(
        f"V02{size:02x}{len(flow):02x}{flow.hex()}03c80100{len(KEY):02x}{KEY.hex()}0001", end=True
    )
    wire.fresh()
    first, stop = wire.engine.send_many(0, LINES, now=0, mode=UNORDERED)
    assert (first, stop) == (0, 200 // (len(LINES[0]) + 5))
    assert wire.engine.statistics.short_of_credit == 0


@rule("AQ-SEND-10")
def test_a_cancel_resets_the_streams_of_which_not_all_is_acked() -> None:
    wire = client()
    wire.engine.send_many(0, LINES, now=0, mode=UNORDERED)
    sent = streams(wire)
    wire.fresh()
    wire.stream("0300" + "0802" + "0001", end=False)  # the first message of the first stream
    wire.engine.cancel(0, 0)
    wire.pump()
    assert sum("RESET" in text for text in wire.sent()) == len(sent)


def test_who_takes_runs_says_so_and_the_application_does_not_see_it() -> None:
    client, server = (
        Wire(AqueductEngine(side, (), Config(unordered_runs=True, auto_accept=True)))
        for side in Side
    )
    client.pump()
    assert any(KEY.hex() in text for text in client.sent())
    server.stream(HEADERS.removesuffix("01"), end=True)
    server.pump()
    assert server.events(Opened) == [Opened(())]
    assert any(KEY.hex() in text for text in server.sent())
    with pytest.raises(BadArgument):
        AqueductEngine(Side.CLIENT, ((KEY, b""),))

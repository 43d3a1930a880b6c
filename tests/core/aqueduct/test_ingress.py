"""From the peer's bytes to machines: datagrams in both ways, held bytes, a pause."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.aqueduct.events import Ended, Event, Ignored
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.actions import Consumed
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

MESSAGE = "0400" + "0000" + "0161"


def numbers(wire: Wire) -> list[tuple[int, int]]:
    """The messages that were told, each as its channel and number."""
    return [
        (batch.channel, batch.first + i)
        for batch in wire.events(MessageBatch)
        for i in range(batch.count)
    ]


# --- datagrams --------------------------------------------------------------------------


@rule("AQ-SEQ-2", "AQ-SEQ-5", "AQ-SEQ-7", "AQ-SEQ-10")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("0000" + MESSAGE, Code.ENCODING, id="unknown frame before it"),
        pytest.param("0400" + MESSAGE, Code.PROTOCOL, id="not routed"),
        pytest.param("0100" + MESSAGE, Code.PROTOCOL, id="another frame before it"),
        pytest.param("0300" + "0500" + "0000" + "0161", Code.PROTOCOL, id="another frame"),
        pytest.param("0300" + "0400" + "0000" + "0261", Code.ENCODING, id="cut in its payload"),
        pytest.param("0300" + "0480", Code.ENCODING, id="cut in its number"),
        pytest.param("0300" + "048000" + "0000" + "0161", Code.ENCODING, id="not shortest"),
        pytest.param("0380", Code.ENCODING, id="cut in its channel"),
        pytest.param("038000" + MESSAGE, Code.ENCODING, id="channel not shortest"),
        pytest.param("0302" + MESSAGE, Code.CONTEXT, id="from the wrong side"),
    ],
)
def test_a_datagram_that_breaks_a_rule_ends_the_connection(text: str, code: Code) -> None:
    server = Wire.server()
    server.datagram("0300" + MESSAGE)
    assert numbers(server) == [(0, 0)]
    server.datagram(text)
    assert server.code == code
    assert numbers(server) == []


@rule("AQ-VARINT-2")
def test_the_reason_of_an_end_says_what_is_wrong() -> None:
    server = Wire.server()
    server.stream("0300" + "048000")
    assert server.engine.closed is not None
    assert server.engine.closed.reason == "a varint that is not in its shortest form"


def test_a_datagram_reaches_the_channel_that_it_names() -> None:
    """Also where a part of the identifier is that of another channel."""
    server = Wire.server()
    far = 8 | 8 << 7
    server.stream("0300" + "0400" + "00" + "0208" + "00" + "00")
    carrier = codec.encode_route_to(far).hex()[2:]
    server.stream("0300" + "0401" + "00" + f"{len(carrier) // 2 + 1:02x}{carrier}00" + "00")
    server.events(MessageBatch)
    server.datagram("03" + carrier + MESSAGE)
    server.datagram("0308" + MESSAGE)
    assert numbers(server) == [(far, 0), (8, 0)]


@rule("AQ-SEQ-10")
def test_a_datagram_may_carry_several_messages() -> None:
    server = Wire.server()
    server.datagram("0300" + "".join(f"04{number:02x}00000161" for number in (0, 1, 2, 5)))
    assert server.code is None
    batches = server.events(MessageBatch)
    assert [(batch.reliable, batch.first, batch.count) for batch in batches] == [
        (False, 0, 3),
        (False, 5, 1),
    ]
    server.datagram("0300" + "040300000161")
    assert server.code is None
    server.datagram("0300" + "040100000161")
    assert server.code == Code.STATE  # it came twice


@rule("AQ-HDR-4")
@pytest.mark.parametrize("text", ["0300" + MESSAGE, "V0300" + MESSAGE])
def test_a_datagram_waits_until_the_server_has_answered(text: str) -> None:
    server = Wire(AqueductEngine(Side.SERVER))
    server.stream("V0200")
    server.datagram(text)
    server.pump()
    assert numbers(server) == []
    server.engine.accept((), 0)
    assert numbers(server) == [(0, 0)]


# --- before the headers -----------------------------------------------------------------


def test_streams_that_are_reset_wait_for_the_headers_no_more() -> None:
    server = Wire(AqueductEngine(Side.SERVER, (), Config(max_prehandshake_bytes=100)))
    held = server.stream("V0300" + MESSAGE)
    for _ in range(50):
        server.reset(server.stream("V0300" + 5 * MESSAGE))
    server.stream("61" * (100 - 8), held)
    assert server.code is None
    server.stream("61", held)
    assert server.code == Code.RESOURCE_LIMIT


# --- streams that are reset -------------------------------------------------------------


@rule("AQ-SEQ-4")
def test_what_a_reset_cuts_off_is_given_back_to_its_stream() -> None:
    server = Wire.server(Config(auto_accept=True, early_credit_bytes=0))
    first = server.stream("0300" + MESSAGE + "0401" + "0000" + "0261")
    server.reset(first)
    given: dict[int, int] = {}
    for action in server.engine.actions():
        if isinstance(action, Consumed):
            given[action.stream_id] = given.get(action.stream_id, 0) + action.count
    assert given == {first: 2 + 6}


# --- a pause ----------------------------------------------------------------------------


def test_frames_that_came_in_a_pause_wait_for_its_end_and_those_behind_it_do_not() -> None:
    server = Wire.server()
    first = server.stream("0300" + MESSAGE)
    numbers(server)
    server.engine.pause()
    server.stream("0401" + "0000" + "0161", first)
    second = server.stream("0300" + "0402" + "0000" + "0161")
    server.stream("0403" + "0000" + "0161", first, end=True)
    assert numbers(server) == []
    assert server.credit == 2
    server.engine.resume(server.now)
    assert numbers(server) == [(0, 1), (0, 2), (0, 3)]
    server.stream("0404" + "0000" + "0161", second)
    assert numbers(server) == [(0, 4)]


@rule("AQ-SEQ-4")
@pytest.mark.parametrize("whole", [True, False])
def test_a_reset_in_a_pause_cuts_off_at_its_end_what_is_not_whole(whole: bool) -> None:
    server = Wire.server()
    before = server.engine.footprint.size
    received = server.received
    server.engine.pause()
    stream = server.stream("0300" + (MESSAGE if whole else "") + "0401" + "0000" + "0261")
    server.reset(stream)
    server.engine.resume(server.now)
    assert numbers(server) == ([(0, 0)] if whole else [])
    server.engine.consumed(0, 100, server.now)
    assert server.credit == server.received - received
    assert server.engine.footprint.size <= before + 200


def test_datagrams_in_a_pause_are_lost() -> None:
    server = Wire.server()
    server.engine.pause()
    server.datagram("0300" + MESSAGE)
    server.engine.resume(server.now)
    assert numbers(server) == []
    server.datagram("0300" + "0401" + "0000" + "0161")
    assert numbers(server) == [(0, 1)]
    assert server.engine.statistics.datagrams_dropped == 1


# --- channels that this side never saw --------------------------------------------------


@rule("AQ-LIFE-6")
def test_a_peer_with_all_channels_that_it_may_have_can_forget_another_one() -> None:
    server = Wire.server(Config(auto_accept=True, max_unclaimed_channels=1))
    server.stream("0308")
    server.stream("0310" + "0b")
    assert server.code is None
    seen: list[Event] = server.all_events()
    assert not any(isinstance(event, Ended | Ignored) for event in seen)
    server.stream("0318")
    assert server.code == Code.RESOURCE_LIMIT

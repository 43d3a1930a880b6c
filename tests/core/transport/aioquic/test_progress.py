"""What has left of streams, told to an engine that asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from aqueduct_core.engine.inputs import Input, LinkReady, StreamLeft
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.aioquic.twins import by_the_library
from tests.core.transport.early import early_terms, second, session_of
from tests.core.transport.wire import Wire

ASKED = LinkSettings(stream_progress=True, max_streams_bidi=4)


@pytest.fixture(params=["runs", "library"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Packets are built by the short way, and by the library."""
    with by_the_library() if request.param == "library" else nullcontext():
        yield


def watched(wire: Wire) -> list[Input]:
    """The inputs of the client, as they come."""
    seen: list[Input] = []
    wire.client.probe.on_input = seen.append
    wire.connect()
    return seen


def left(seen: list[Input], stream: int) -> list[int]:
    """The totals that were told of a stream."""
    return [input.total for input in seen if isinstance(input, StreamLeft) and input[0] == stream]


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_what_has_left_grows_with_the_window_and_each_byte_leaves_once(loss: float) -> None:
    wire = Wire(delay=0.05, settings=ASKED)
    seen = watched(wire)
    assert any(isinstance(input, LinkReady) and input.stream_progress for input in seen)
    wire.loss = loss
    client, server = wire.client.probe, wire.server.probe
    one, other = client.open(), client.open(bidirectional=True)
    client.write(one, bytes(200_000))
    client.write(other, bytes(30_000), end=True)
    wire.pump()
    assert 0 < left(seen, one)[-1] + left(seen, other)[-1] < 20_000  # the first window
    wire.run(lambda: left(seen, one)[-1] == 200_000)
    assert server.streams[one] <= 200_000
    client.write(one, bytes(1_000))
    client.write(one, b"", end=True)
    wire.run(lambda: {one, other} <= server.ended)
    wire.rest(5.0)
    for stream, size in ((one, 201_000), (other, 30_000)):
        totals = left(seen, stream)
        assert totals == sorted(set(totals))
        assert totals[-1] == size
    assert not wire.client.link._progress._leaving


def test_what_waits_for_credit_has_not_left() -> None:
    settings = LinkSettings(stream_window=20_000, stream_progress=True)
    wire = Wire(settings=settings, server_consumes=False)
    seen = watched(wire)
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(30_000))
    wire.rest(1.0)
    assert left(seen, stream)[-1] == 20_000
    wire.server.probe.consume_owed()
    wire.rest(1.0)
    assert left(seen, stream)[-1] == 30_000


def test_nothing_is_told_of_what_was_given_up() -> None:
    settings = LinkSettings(stream_window=20_000, stream_progress=True)
    wire = Wire(settings=settings, server_consumes=False)
    seen = watched(wire)
    client = wire.client.probe
    ours, theirs = client.open(), client.open()
    for stream in (ours, theirs):
        client.write(stream, bytes(30_000))
    wire.rest(1.0)
    client.reset(ours, 1)
    wire.server.probe.stop(theirs, 2)
    wire.rest(1.0)
    client.write(theirs, b"more")
    client.write(client.open(), b"another")
    wire.rest(1.0)
    assert (left(seen, ours)[-1], left(seen, theirs)[-1]) == (20_000, 20_000)
    assert not wire.client.link._progress._leaving


def test_a_server_is_told_of_streams_that_its_client_opened() -> None:
    """Also where the protocol that asks is not the first of its listener."""
    protocols = {"one": LinkSettings(), "two": ASKED}
    wire = Wire(alpn="two", protocols=protocols, settings=ASKED, server_echoes=True)
    wire.connect()
    seen: list[Input] = []
    wire.server.probe.on_input = seen.append
    stream = wire.client.probe.open(bidirectional=True)
    wire.client.probe.write(stream, bytes(5_000), end=True)
    wire.run(lambda: stream in wire.client.probe.ended)
    assert left(seen, stream)[-1] == 5_000
    assert wire.server.probe.ready is not None
    assert wire.server.probe.ready.stream_progress


def test_without_the_setting_nothing_is_told() -> None:
    wire = Wire()
    seen = watched(wire)
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(5_000), end=True)
    wire.run(lambda: stream in wire.server.probe.ended)
    assert not any(isinstance(input, StreamLeft) for input in seen)
    assert not any(isinstance(input, LinkReady) and input.stream_progress for input in seen)


@pytest.mark.parametrize("accepted", [True, False])
def test_early_bytes_leave_once_whether_they_are_accepted_or_repeated(accepted: bool) -> None:
    terms = early_terms()
    session = session_of(terms)
    it = second(session, terms if accepted else early_terms(), settings=ASKED)
    short, long = it.write(b"an early stream"), it.write(bytes(40_000))
    it.wire.pump()
    assert left(it.client_inputs, short) == [15]
    early = left(it.client_inputs, long)
    assert 0 < early[-1] < 20_000
    it.run_until_all_is_there()
    assert it.wire.client.link.early_accepted is accepted
    assert left(it.client_inputs, short) == [15]
    totals = left(it.client_inputs, long)
    assert totals == sorted(set(totals))
    assert totals[-1] == 40_000

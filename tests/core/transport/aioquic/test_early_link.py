"""0-RTT on aioquic, on a virtual clock: accepted, rejected, replayed, with Retry, under loss."""

from __future__ import annotations

import random

import pytest

from aqueduct_core.engine.inputs import (
    Datagram,
    EarlyReady,
    EarlyRejected,
    LinkLost,
    LinkReady,
    StreamBytes,
)
from aqueduct_core.transport.address_tokens import AddressTokens, TokenState
from aqueduct_core.transport.aioquic.factory import server_link
from aqueduct_core.transport.aioquic.incoming import EARLY_DATAGRAMS
from aqueduct_core.transport.link import AcceptTerms, Resumption
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.early import carried, early_terms, second, session_of, watch_server
from tests.core.transport.ends import ALPN
from tests.core.transport.probe import Probe
from tests.core.transport.wire import CLIENT, STACK, End, Wire
from tests.support.event_loop import server_tls
from tests.support.rules import rule

KB = 1024
DELAY = 0.05


@rule("AQ-0RTT-1", "AQ-0RTT-3")
def test_accepted_early_data_is_there_within_one_way_and_told_when_the_handshake_is_complete() -> (
    None
):
    terms = early_terms()
    it = second(session_of(terms), terms, delay=DELAY)
    assert it.wire.client.link.early
    assert not it.wire.client.link.ready
    data = random.Random(1).randbytes(9 * KB)
    it.write(data)
    start = it.wire.now
    it.wire.pump()
    watch_server(it)
    quic = it.wire.server.link._quic
    it.wire.run(lambda: quic._local_max_data.used == len(data))
    # All bytes came in the first flight; nobody is told, for the handshake is not complete.
    assert it.wire.now - start < 1.5 * DELAY
    assert it.server_inputs == []
    assert not it.wire.server.link.ready
    # From here on nothing of the client but its part of the handshake: they need not come again.
    it.run_until_all_is_there()
    assert it.wire.now - start < 3.5 * DELAY
    assert isinstance(it.server_inputs[0], LinkReady)
    assert [type(input) for input in it.client_inputs[:2]] == [EarlyReady, LinkReady]
    assert it.wire.client.link.early_accepted is True
    assert it.wire.server.link.early_accepted is True
    assert it.wire.client.link.peer_fingerprint == server_tls().fingerprint


@rule("AQ-0RTT-2")
@pytest.mark.parametrize("seed", range(6))
def test_rejected_early_data_arrives_exactly_once_on_new_streams(seed: int) -> None:
    rng = random.Random(seed)
    loss = 0.0 if seed == 0 else 0.15
    it = second(session_of(early_terms()), early_terms(), seed=seed, loss=loss, jitter=0.01)
    for _ in range(30):
        it.write(rng.randbytes(rng.choice((0, 1, 40, 3_000))))
    it.wire.client.probe.datagram(b"an early datagram")
    it.wire.pump()
    it.write(b"written while the handshake goes on")
    it.run_until_all_is_there()
    rejected, ready = it.client_inputs[1:3]
    assert isinstance(rejected, EarlyRejected)
    assert rejected.streams >= 31
    assert isinstance(ready, LinkReady)
    assert it.wire.client.link.early_accepted is False
    assert it.wire.server.link.early_accepted is None
    it.wire.rest(2.0)
    assert it.wire.server.probe.datagrams == []
    assert it.wire.client.link.unsent == 0
    quic = it.wire.client.link._quic
    assert len(quic._table) == 0
    assert quic._loss.bytes_in_flight == 0


def test_rejection_is_no_sign_of_congestion_and_waits_for_no_timer() -> None:
    it = second(session_of(early_terms()), early_terms(), delay=DELAY)
    window = it.wire.client.link._quic._loss.congestion_window
    start = it.wire.now
    it.write(bytes(5 * KB))
    it.run_until_all_is_there()
    # Told at one round trip, sent at once, there half a round trip later.
    assert it.wire.now - start < 3.5 * DELAY
    assert it.wire.client.link._quic._loss.congestion_window >= window


@rule("AQ-0RTT-2")
def test_after_a_rejection_only_the_new_limits_hold() -> None:
    small = LinkSettings(stream_window=4 * KB, connection_window=16 * KB, max_streams_uni=2)
    it = second(session_of(early_terms()), early_terms(), server_settings=small)
    for size in (20 * KB, 3, 9 * KB, 0, 5 * KB):
        it.write(random.Random(size).randbytes(size))
    it.run_until_all_is_there()
    assert it.wire.client.probe.lost is None


@rule("AQ-0RTT-2")
def test_a_limit_that_is_told_no_more_is_none() -> None:
    """A transport parameter that is absent means 0 (RFC 9000 §18.2), not what it was before."""
    it = second(session_of(early_terms()), early_terms())
    it.write(b"waits for credit")
    it.wire.pump()
    it.wire.server.link._quic._local_max_stream_data_uni = None
    it.wire.connect()
    it.wire.rest(1.0)
    assert it.wire.client.probe.lost is None
    assert it.wire.server.probe.lost is None
    assert it.wire.server.probe.streams == {}
    assert it.wire.client.link.unsent == len(b"waits for credit")


@rule("AQ-0RTT-1")
@pytest.mark.parametrize("seed", range(6))
def test_early_data_that_gets_lost_is_repeated_like_any_other(seed: int) -> None:
    rng = random.Random(seed)
    terms = early_terms()
    it = second(session_of(terms), terms, seed=seed, loss=0.2, jitter=0.02)
    for _ in range(20):
        it.write(rng.randbytes(rng.choice((0, 1, 40, 3_000))))
    it.wire.pump()
    it.run_until_all_is_there()
    it.wire.rest(5.0)
    assert it.wire.client.link.early_accepted is True
    assert it.wire.client.link.unsent == 0
    assert len(it.wire.client.link._quic._table) == 0


def test_limits_that_grew_hold_for_streams_opened_early() -> None:
    """A server with more room tells of it only after half of that room was consumed."""
    terms = early_terms()
    session = session_of(terms, LinkSettings(stream_window=2 * KB, connection_window=4 * KB))
    it = second(session, terms, server_settings=LinkSettings())
    for size in (50 * KB, 30 * KB):
        it.write(random.Random(size).randbytes(size))
    it.run_until_all_is_there()
    assert it.wire.client.link.early_accepted is True


@rule("AQ-0RTT-2")
def test_a_stream_reset_early_is_reset_again_and_counts_as_ended() -> None:
    it = second(session_of(early_terms()), early_terms())
    probe = it.wire.client.probe
    probe.write(probe.open(), bytes(2_000))
    it.wire.pump()
    probe.reset(2, 7)
    it.wire.pump()
    it.write(b"another", end=True)
    it.run_until_all_is_there()
    it.wire.rest(1.0)
    assert it.wire.server.probe.resets == {2: 7}
    assert len(it.wire.client.link._quic._table) == 0


@rule("AQ-0RTT-3")
def test_a_listener_without_early_data_refuses_it_in_tls_although_it_resumes() -> None:
    terms = early_terms()
    session = session_of(terms)
    it = second(session, AcceptTerms(sessions=terms.sessions))
    it.write(b"refused")
    it.run_until_all_is_there()
    assert it.wire.client.link._quic.resumed
    assert it.wire.client.link.early_accepted is False
    # The sessions that it gives itself do not invite early data.
    assert not session_of(AcceptTerms(sessions=terms.sessions)).early_data


def test_a_session_is_resumed_without_early_data_unless_it_is_asked_for() -> None:
    terms = early_terms()
    wire = Wire(terms=terms, resumption=Resumption(session_of(terms)))
    assert not wire.client.link.early
    wire.connect()
    assert wire.client.link._quic.resumed
    assert wire.client.link.early_accepted is None
    assert isinstance(wire.client.probe.ready, LinkReady)


@rule("AQ-0RTT-3")
@pytest.mark.parametrize("remembers", [True, False])
def test_a_replayed_first_flight_is_never_processed(remembers: bool) -> None:
    """``remembers``: the server that is shown it again; or another one that knows the session."""
    terms = early_terms()
    session = session_of(terms)
    assert terms.sessions is not None
    copy = early_terms()
    assert copy.sessions is not None
    copy.sessions._sessions.update(terms.sessions._sessions)
    it = second(session, terms)
    it.write(b"pay the bill")
    it.wire.client.probe.datagram(b"now")
    it.wire.pump()
    flight = [data for _, _, data in it.wire.server.inbox]
    it.run_until_all_is_there()

    now = it.wire.now
    hello = STACK.hello(flight[0])
    assert hello is not None
    again = terms if remembers else copy
    link = server_link({ALPN: LinkSettings()}, server_tls().identity, hello, again)
    victim = End(link, Probe(client=False))
    link.receive([(data, CLIENT) for data in flight], now)
    held = link._quic._local_max_data.used
    assert held == (0 if remembers else len(b"pay the bill"))
    inputs = link.inputs()
    while not link.closed:
        assert link.timer is not None
        now = max(now, link.timer)
        link.fire(now)
        inputs += link.inputs()
        link.transmit(now)
    assert [type(input) for input in inputs] == [LinkLost]
    assert carried(inputs) == []
    assert victim.probe.ready is None


@rule("AQ-0RTT-3")
def test_early_datagrams_are_held_up_to_a_bound() -> None:
    terms = early_terms()
    it = second(session_of(terms), terms)
    for number in range(EARLY_DATAGRAMS + 40):
        it.wire.client.probe.datagram(b"%d" % number)
    it.wire.connect()
    it.wire.rest(1.0)
    got = it.wire.server.probe.datagrams
    assert got[:EARLY_DATAGRAMS] == [b"%d" % number for number in range(EARLY_DATAGRAMS)]
    assert it.wire.server.link.counts.early_datagrams_dropped == 40
    it.wire.client.probe.datagram(b"later")
    it.wire.run(lambda: got[-1] == b"later")


@rule("AQ-0RTT-1")
def test_early_datagrams_have_the_size_that_the_session_remembers() -> None:
    terms = early_terms()
    none = LinkSettings(max_datagram_frame_size=0)
    it = second(session_of(terms, none), terms)
    it.wire.connect()
    early, ready = it.client_inputs[:2]
    assert early == EarlyReady(0)
    assert isinstance(ready, LinkReady)
    assert ready.max_datagram_size > 1_000


@rule("AQ-0RTT-4")
def test_what_a_server_sends_before_the_handshake_is_complete_is_taken() -> None:
    terms = early_terms()
    it = second(session_of(terms), terms, delay=DELAY)
    it.write(b"a question")
    it.wire.pump()
    start = it.wire.now
    quic = it.wire.server.link._quic
    it.wire.run(lambda: quic._local_max_data.used > 0)
    quic.send_stream_data(3, b"an answer", end_stream=True)
    quic.send_datagram(b"and more", 0)
    assert not it.wire.server.link.ready
    it.wire.run(lambda: 3 in it.wire.client.probe.ended)
    assert it.wire.now - start < 2.5 * DELAY
    inputs = it.client_inputs
    assert [type(input) for input in inputs[:2]] == [EarlyReady, LinkReady]
    it.wire.run(lambda: Datagram(b"and more") in inputs)
    assert StreamBytes(3, b"an answer", True) in inputs


@rule("AQ-0RTT-2")
@pytest.mark.parametrize("accepts", [True, False])
def test_early_data_outlives_a_retry(accepts: bool) -> None:
    terms = early_terms()
    session = session_of(terms)
    it = second(session, terms if accepts else early_terms(), delay=DELAY)
    wire, link = it.wire, it.wire.client.link
    data = random.Random(3).randbytes(3 * KB)
    stream = it.write(data)
    tokens = AddressTokens()
    for end in wire.ends:
        for input in end.link.inputs():
            end.probe.handle(input, wire.now)
    link.apply(wire.client.probe.actions(), wire.now)
    first = link.transmit(wire.now)
    hello = STACK.hello(first[0][0])
    assert hello is not None
    source = b"retried!"
    token = tokens.for_retry(CLIENT, hello.destination, source, wire.now)
    link.receive([(STACK.retry(hello, source, token), ("127.0.0.1", 2222))], wire.now)
    (data_again, _), *_rest = link.transmit(wire.now)
    again = STACK.hello(data_again)
    assert again is not None
    assert again.destination == source
    checked = tokens.check(again.token, CLIENT, again.destination, wire.now)
    assert checked.state is TokenState.PROVED
    assert checked.original == hello.destination
    wire._terms = AcceptTerms(
        original=checked.original,
        proved=True,
        sessions=terms.sessions if accepts else early_terms().sessions,
        early_data=True,
    )
    # The first server end was never made: what the Retry's answer brings makes it.
    for piece in (data_again, *(data for data, _ in _rest)):
        wire._carry(wire.client, piece)
    watch_server(it)
    quic = wire.server.link._quic
    wire.run(lambda: quic.has_path)
    # The token has proved the address before any packet of the handshake could.
    assert quic._network_paths[0].is_validated
    assert not wire.server.link.ready
    it.run_until_all_is_there()
    assert it.sent == {stream: data}
    assert link.early_accepted is accepts
    # Nor does what went to nobody count as in flight for ever.
    wire.rest(2.0)
    assert link._quic._loss.bytes_in_flight == 0
    assert link.unsent == 0


@rule("AQ-0RTT-5")
@pytest.mark.parametrize("seed", range(12))
def test_a_token_that_gets_lost_is_sent_again(seed: int) -> None:
    kept: list[bytes] = []
    wire = Wire(
        seed=seed,
        loss=0.3,
        terms=AcceptTerms(token=b"for the next time"),
        resumption=Resumption(keep_token=kept.append),
    )
    wire.connect()
    wire.run(lambda: bool(kept))
    assert set(kept) == {b"for the next time"}

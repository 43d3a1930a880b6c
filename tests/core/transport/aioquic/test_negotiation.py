"""Several protocols on one listener: each has its own limits, engine and sessions."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.close_codes import CONNECTION_REFUSED, CloseOrigin
from aqueduct_core.errors import ConnectFailed, InvalidOption
from aqueduct_core.transport import Driver, LinkSettings, ListenedProtocol, PeerInfo, dial, listen
from aqueduct_core.transport.listener import Listener
from tests.core.transport.early import early_terms, second, session_of
from tests.core.transport.ends import ended
from tests.core.transport.probe import Probe
from tests.core.transport.wire import Wire
from tests.support.event_loop import client_tls, eventually, server_tls
from tests.support.virtual_loop import run_virtually

ONE = LinkSettings(max_streams_uni=20, idle_timeout=40.0)
TWO = LinkSettings(
    max_streams_uni=0,
    max_streams_bidi=7,
    stream_window=64 * 1024,
    connection_window=128 * 1024,
    max_datagram_frame_size=0,
    datagram_outcomes=True,
    idle_timeout=60.0,
)
BOTH = {"one": ONE, "two": TWO}


def test_each_protocol_has_its_own_limits() -> None:
    for alpn, settings in BOTH.items():
        wire = Wire(alpn=alpn, protocols=BOTH, settings=LinkSettings(idle_timeout=600.0))
        wire.connect()
        wire.rest(0.5)
        client, server = wire.client.link, wire.server.link
        assert (client.alpn, server.alpn) == (alpn, alpn)
        probe = wire.client.probe
        assert probe.ready is not None
        assert (probe.ready.max_datagram_size == 0) is (settings is TWO)
        assert wire.server.probe.ready is not None
        assert wire.server.probe.ready.datagram_outcomes is settings.datagram_outcomes
        assert probe.limits.get(False, 0) == settings.max_streams_uni
        assert probe.limits.get(True, 0) == settings.max_streams_bidi
        assert client._quic.idle_limit == settings.idle_timeout
        assert client._quic._remote_max_data == settings.connection_window
        wire.server.probe.consumes = False
        stream = probe.open(bidirectional=settings is TWO)
        probe.write(stream, bytes(100 * 1024), end=True)
        wire.rest(2.0)
        assert wire.server.probe.received == min(100 * 1024, settings.stream_window)


@pytest.mark.parametrize("early", [False, True])
def test_a_session_of_another_protocol_is_never_resumed(early: bool) -> None:
    """The library would take it, and what comes with it, without comparing the ALPN."""
    terms = early_terms()
    session = session_of(terms, ONE, alpn="one", protocols=BOTH)
    shared = {"one": ONE, "two": ONE}
    it = second(session, terms, alpn="two", protocols=shared, settings=ONE)
    if early:
        it.write(b"written for protocol one")
    it.wire.connect()
    assert it.wire.client.link.early_accepted is False
    assert it.wire.server.link.early_accepted is None
    assert not it.wire.server.link._quic.resumed
    it.run_until_all_is_there()
    assert terms.sessions is not None
    again = second(session, terms, alpn="one", protocols=shared, settings=ONE)
    again.wire.connect()
    assert again.wire.server.link._quic.resumed, "it was kept for its own"


async def listening(made: list[str]) -> Listener:
    def engines(alpn: str, settings: LinkSettings) -> ListenedProtocol:
        def make(peer: PeerInfo, now: float) -> tuple[Probe, object]:
            made.append(alpn)
            return Probe(client=False), lambda driver, events: None

        return ListenedProtocol(make, settings)  # type: ignore[arg-type]

    protocols = {alpn: engines(alpn, settings) for alpn, settings in BOTH.items()}
    return await listen("127.0.0.1", 0, protocols, tls=server_tls())


async def dialled(listener: Listener, alpn: str) -> tuple[Driver, Probe]:
    probe = Probe(client=True)
    driver = await dial(
        *listener.address,
        alpn=alpn,
        settings=LinkSettings(),
        tls=client_tls(),
        make_engine=lambda now: probe,
        on_events=lambda driver, events: None,
    )
    return driver, probe


def test_one_listener_serves_them_and_refuses_others() -> None:
    async def main() -> None:
        made: list[str] = []
        listener = await listening(made)
        drivers = [(await dialled(listener, alpn))[0] for alpn in ("two", "one", "two")]
        await eventually(lambda: len(made) == 3)
        assert sorted(made) == ["one", "two", "two"]
        with pytest.raises(ConnectFailed, match="another protocol"):
            await dialled(listener, "three")
        await ended(*drivers)
        await listener.close()

    run_virtually(main())


def test_protocols_that_do_not_fit_together_are_refused() -> None:
    async def main(protocols: dict[str, LinkSettings]) -> None:
        table = {
            alpn: ListenedProtocol(lambda peer, now: (Probe(client=False), print), settings)
            for alpn, settings in protocols.items()
        }
        await listen("127.0.0.1", 0, table, tls=server_tls())

    for table, text in (
        ({}, "no protocol"),
        ({"": ONE}, "alpn"),
        ({"one": ONE, "two": LinkSettings(handshake_timeout=1.0)}, "handshake_timeout"),
    ):
        with pytest.raises(InvalidOption, match=text):
            run_virtually(main(table))


def test_an_engine_closes_with_a_code_of_the_transport() -> None:
    wire = Wire()
    wire.connect()
    wire.server.probe.close(CONNECTION_REFUSED, "not now", CloseOrigin.TRANSPORT)
    wire.run(lambda: wire.client.probe.lost is not None)
    for end in wire.ends:
        lost = end.probe.lost
        assert lost is not None
        assert lost.origin is CloseOrigin.TRANSPORT
        assert (lost.code, lost.reason) == (CONNECTION_REFUSED, "not now")
        assert lost.by_peer is (end is wire.client)


def test_a_fault_of_ours_has_the_code_of_the_protocol() -> None:
    def faulty(peer: PeerInfo, now: float) -> tuple[Probe, object]:
        raise RuntimeError("no engine")

    async def main() -> None:
        protocols = {
            "one": ListenedProtocol(faulty, ONE, internal_error=77),  # type: ignore[arg-type]
            "two": ListenedProtocol(faulty, TWO, internal_error=78),  # type: ignore[arg-type]
        }
        listener = await listen("127.0.0.1", 0, protocols, tls=server_tls())
        for alpn, code in (("one", 77), ("two", 78)):
            driver, _ = await dialled(listener, alpn)
            await driver.wait_closed()
            assert driver.lost is not None
            assert (driver.lost.code, driver.lost.by_peer) == (code, True)
        await listener.close()

    run_virtually(main())


def test_a_fault_of_the_dialling_side_too() -> None:
    async def main() -> None:
        server = Probe(client=False)
        protocols = {"one": ListenedProtocol(lambda peer, now: (server, print), ONE)}
        listener = await listen("127.0.0.1", 0, protocols, tls=server_tls())

        driver = await dial(
            *listener.address,
            alpn="one",
            settings=LinkSettings(),
            tls=client_tls(),
            make_engine=lambda now: Probe(client=True),
            on_events=lambda driver, events: None,
            internal_error=79,
        )
        driver.fail("the application failed")
        await eventually(lambda: server.lost is not None)
        assert server.lost is not None
        assert (server.lost.code, server.lost.by_peer) == (79, True)
        await driver.wait_closed()
        await listener.close()

    run_virtually(main())

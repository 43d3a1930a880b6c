"""Whoever sends on a connection that its server has forgotten learns it by the next packet."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport import LinkSettings, ListenLimits, listen
from aqueduct_core.transport.address_validation import RetryMode
from aqueduct_core.transport.link import AcceptTerms
from aqueduct_core.transport.stateless_reset import (
    LONGEST,
    PER_SECOND,
    SHORTEST,
    TOKEN_SIZE,
    StatelessResets,
    is_reset,
)
from tests.core.transport.ends import ALPN, counted, dialled, ended, serving
from tests.core.transport.wire import SERVER, Wire
from tests.support.event_loop import eventually, server_tls
from tests.support.virtual_loop import run_virtually
from tests.support.waiting import LONG

KEY = bytes(range(32))
RESET = LinkLost(0, "stateless reset", by_peer=True, origin=CloseOrigin.STATELESS_RESET)
PATIENT = LinkSettings(idle_timeout=600.0)
"""Nobody finds out by this timeout."""


def packet(size: int, connection_id: bytes = b"12345678") -> bytes:
    return (b"\x40" + connection_id + bytes(size))[:size]


class TestResets:
    def test_a_reset_is_shorter_than_its_packet_and_never_long(self) -> None:
        resets = StatelessResets(KEY)
        for size in range(SHORTEST + 1):
            assert resets.answer(packet(size), 0.0) is None
        for size in (*range(SHORTEST + 1, 60), 1_200, 65_000):
            answer = resets.answer(packet(size), 0.0)
            assert answer is not None
            assert len(answer) == min(size - 1, LONGEST)
            assert answer[0] & 0xC0 == 0x40
            assert is_reset(answer, [resets.token(b"12345678")])

    def test_two_ends_that_know_nothing_come_to_rest(self) -> None:
        ends = StatelessResets(KEY), StatelessResets()
        answer: bytes | None = packet(1_200)
        count = 0
        while answer is not None:
            answer = ends[count % 2].answer(answer, 0.0)
            count += 1
        assert count <= LONGEST - SHORTEST + 2

    def test_packets_with_a_long_header_and_garbage_get_none(self) -> None:
        resets = StatelessResets(KEY)
        for first in (0x00, 0x3F, 0x80, 0xC0, 0xFF):
            assert resets.answer(bytes([first]) + bytes(100), 0.0) is None

    def test_there_are_so_many_a_second(self) -> None:
        resets = StatelessResets(KEY)
        for now in (1_000.0, 1_001.0):
            given = [resets.answer(packet(50), now) for _ in range(PER_SECOND + 100)]
            assert sum(answer is not None for answer in given) == PER_SECOND
        assert resets.answer(packet(50), 1_001.001) is None
        assert resets.answer(packet(50), 1_001.01) is not None

    def test_tokens_follow_from_key_and_id(self) -> None:
        token = StatelessResets(KEY).token
        assert token(b"a") == token(b"a") == StatelessResets(KEY).token(b"a")
        assert len({token(b"a"), token(b"b"), StatelessResets().token(b"a")}) == 3
        assert len(token(b"a")) == TOKEN_SIZE

    @pytest.mark.parametrize("size", [0, 16, 33])
    def test_a_key_has_32_bytes(self, size: int) -> None:
        with pytest.raises(InvalidOption, match=f"has {size} bytes"):
            StatelessResets(bytes(size))

    def test_what_is_too_short_is_no_reset(self) -> None:
        token = StatelessResets(KEY).token(b"a")
        assert is_reset(bytes(5) + token, [b"", bytes(16), token])
        for datagram in (token, bytes(4) + token, b"", bytes(5) + token + b"x"):
            assert not is_reset(datagram, [token])
        assert not is_reset(bytes(40), [])


def up(key: bytes = KEY) -> Wire:
    wire = Wire(settings=PATIENT, terms=AcceptTerms(reset_token=StatelessResets(key).token))
    wire.connect()
    wire.rest(1.0)
    return wire


def sent(wire: Wire) -> list[bytes]:
    """The next packets of the client, which do not arrive."""
    wire.client.link.probe()
    return [data for data, _ in wire.client.link.transmit(wire.now)]


@pytest.mark.parametrize("seed", range(3))
def test_a_client_takes_a_reset_at_once_and_sends_no_more(seed: int) -> None:
    wire = up()
    if seed:
        quic: Any = wire.client.link._quic
        for _ in range(seed):
            quic.change_connection_id()
    answer = StatelessResets(KEY).answer(sent(wire)[0], wire.now)
    assert answer is not None
    wire.client.link.receive([(answer, SERVER)], wire.now)
    assert wire.client.link.lost == RESET
    assert wire.client.link.inputs() == [RESET]
    assert wire.client.link.transmit(wire.now) == []
    wire.client.link.receive([(answer, SERVER)], wire.now)
    assert wire.client.link.transmit(wire.now) == []
    assert wire.client.link.timer == wire.now  # a client that dials again waits for the end of this
    wire.client.link.fire(wire.now)
    assert wire.client.link.closed
    assert wire.client.link.lost == RESET


def test_what_only_looks_like_a_reset_harms_nobody() -> None:
    wire = up()
    (datagram, *_) = sent(wire)
    answer = StatelessResets(KEY).answer(datagram, 0.0)
    other = StatelessResets().answer(datagram, 0.0)
    assert answer is not None
    assert other is not None
    used = datagram[1:9]
    quic: Any = wire.client.link._quic
    waiting = quic._peer_cid_available[0]
    unused = os.urandom(26) + waiting.stateless_reset_token
    wire.client.link.receive([(other, SERVER), (unused, SERVER)], wire.now)
    wire.client.link.receive([(answer, ("127.0.0.1", 3333))], wire.now)
    wire.client.link.receive([(answer[:-1] + b"x", SERVER)], wire.now)
    assert wire.client.link.lost is None
    quic.change_connection_id()
    wire.client.link.receive([(answer, SERVER)], wire.now)  # of an id that was retired
    assert wire.client.link.lost is None
    assert sent(wire)[0][1:9] != used
    wire.connect()


def test_every_id_of_a_server_has_a_token_that_it_can_make_again() -> None:
    wire = up()
    quic: Any = wire.client.link._quic
    token = StatelessResets(KEY).token
    for known in (quic._peer_cid, *quic._peer_cid_available):
        assert known.stateless_reset_token == token(known.cid)
    assert len(quic._peer_cid_available) == 7


@pytest.mark.parametrize("retry", ["never", "always"])
@pytest.mark.parametrize("same", [True, False], ids=["the key was kept", "another key"])
def test_a_listener_in_the_place_of_one_that_is_gone(same: bool, retry: RetryMode) -> None:
    async def main() -> None:
        limits = ListenLimits(retry=retry)
        async with serving(settings=PATIENT, limits=limits, reset_key=KEY) as server:
            driver, probe = await dialled(server, settings=PATIENT)
            await eventually(lambda: bool(server.probes))
            (forgotten,) = server.listener.drivers
            server.listener._socket.close()
            again = await listen(
                "127.0.0.1",
                server.port,
                {ALPN: counted(PATIENT)},
                tls=server_tls(),
                reset_key=KEY if same else os.urandom(32),
            )
            driver.link.probe()
            driver.kick()
            await eventually(lambda: again.counts.resets > 0)
            if same:
                await driver.wait_closed()
                assert probe.lost == RESET
            else:
                assert probe.lost is None
                await ended(driver)
            assert again.counts.accepted == 0
            forgotten.abandon()
            await again.close()

    run_virtually(main())


def test_strangers_get_less_than_they_send() -> None:
    async def main() -> None:
        async with serving() as server:
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.setblocking(False)
                stranger.connect(("127.0.0.1", server.port))
                await loop.sock_sendall(stranger, packet(30))
                answer = await asyncio.wait_for(loop.sock_recv(stranger, 2_000), LONG)
            assert len(answer) == 29
            assert (server.listener.counts.garbage, server.listener.counts.resets) == (1, 1)

    run_virtually(main())

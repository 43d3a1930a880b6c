"""Keys are changed in time, by either end, and nothing that is under way is lost by it."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from aioquic._crypto import CryptoError
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.events import StreamDataReceived
from aioquic.quic.packet import QuicErrorCode, QuicProtocolVersion
from aioquic.tls import CipherSuite, Epoch

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.aioquic import key_updates
from aqueduct_core.transport.aioquic.key_updates import PhasedKeys
from aqueduct_core.transport.aioquic.receive import BurstConnection
from aqueduct_core.transport.settings import KeyLimits, LinkSettings
from tests.core.transport.aioquic.twins import Held, Packet, hold
from tests.core.transport.probe import Probe
from tests.core.transport.wire import CLIENT, SERVER, End, Wire, stock_client

KB = 1024
PHASE = 0x04
OFTEN = KeyLimits(change_after=40)
NETWORKS = {
    "good": {},
    "all of it": {"loss": 0.03, "jitter": 0.004, "twice": 0.03},
}


@pytest.fixture(params=["1", "0"], ids=["short ways", "library"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", request.param)


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts datagrams by the way in which they were received."""
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", "1")
    counts: Counter[str] = Counter()
    run = BurstConnection._receive_run

    def counted(self: BurstConnection, datagrams: Any, at: int, now: float) -> int:
        reached = run(self, datagrams, at, now)
        counts["short"] += reached - at
        counts["all"] = counts["all"] + len(datagrams) if at == 0 else counts["all"]
        return reached

    monkeypatch.setattr(BurstConnection, "_receive_run", counted)
    return counts


def settings(limits: KeyLimits) -> LinkSettings:
    return LinkSettings(max_datagram_size=1_200, key_limits=limits)


def keys_of(end: End) -> PhasedKeys:
    return end.link._quic._keys


def both_ways(wire: Wire, rng: random.Random) -> None:
    """Both ends send on streams of their own, at the same time."""
    ends = (wire.client.probe, wire.server.probe)
    sent = [{probe.open(): hashlib.sha256() for _ in range(3)} for probe in ends]
    for step in range(14):
        for probe, own in zip(ends, sent, strict=True):
            for stream, digest in own.items():
                part = rng.randbytes(15 * KB)
                digest.update(part)
                probe.write(stream, part, end=step == 13)
        wire.rest(0.15)
    wire.run(lambda: all(len(probe.ended) == 3 for probe in ends))
    for other, own in zip(ends[::-1], sent, strict=True):
        for stream, digest in own.items():
            assert other.digests[stream].digest() == digest.digest()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("network", NETWORKS)
def test_many_phases_cost_no_packet(network: str) -> None:
    """Each packet is opened, however late: but for the bit of the phase the conversation is the
    same with one pair of keys."""
    often = hold(both_ways, settings=settings(OFTEN), **NETWORKS[network])  # type: ignore[arg-type]
    for end in often.wire.ends:
        assert keys_of(end).opens > 6
        assert keys_of(end).failures == 0
    for from_client in (True, False):
        changes = changes_of(often, from_client)
        assert len(changes) > 6
        # Three times 10 ms for the path, 1 ms for the clock and 25 ms for the peer.
        assert min(later - at for at, later in pairwise(changes[1:])) >= 0.1
    never = hold(both_ways, settings=settings(KeyLimits()), **NETWORKS[network])  # type: ignore[arg-type]
    assert [keys_of(end).seals for end in never.wire.ends] == [0, 0]
    assert [plain(each) for each in often.packets] == [plain(each) for each in never.packets]


def changes_of(held: Held, from_client: bool) -> list[float]:
    """When an end began to seal with other keys."""
    sent = [each for each in held.packets if each.from_client == from_client]
    return [
        later.time for each, later in pairwise(sent) if (each.first_byte ^ later.first_byte) & PHASE
    ]


def plain(packet: Packet) -> Packet:
    return packet._replace(first_byte=packet.first_byte & ~PHASE)


def test_both_ends_begin_at_the_same_time() -> None:
    wire = connected(settings(KeyLimits()))
    streams = [end.probe.open() for end in wire.ends]
    for end, stream in zip(wire.ends, streams, strict=True):
        end.probe.write(stream, bytes(100 * KB))
        end.link._quic.request_key_update()
    wire.rest(0.1)
    for end in wire.ends:
        assert (keys_of(end).opens, keys_of(end).seals) == (1, 1)
        assert keys_of(end).failures == 0
        assert end.probe.received == 100 * KB


def test_receiving_is_fast_in_every_phase(short_ways: Counter[str]) -> None:
    wire = connected(settings(OFTEN))
    short_ways.clear()
    stream = wire.client.probe.open()
    for _ in range(10):
        wire.client.probe.write(stream, bytes(100 * KB))
        wire.rest(0.3)
    assert wire.server.probe.received == 1000 * KB
    changes = keys_of(wire.server).opens
    assert changes > 4
    # The first packet of each phase goes the long way, at both ends.
    assert short_ways["all"] - short_ways["short"] <= 2 * changes + 4
    assert short_ways["short"] > 900


def test_nothing_is_begun_before_the_keys_in_use_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ends have changed their keys, and one hears of it that the other does not hear."""
    often, never = settings(KeyLimits(change_after=5)), settings(KeyLimits())
    wire = connected(never)
    wire.client.link._quic.offer(often, None)
    client, server = keys_of(wire.client), keys_of(wire.server)
    for end in wire.ends:
        end.link._quic.request_key_update()
    stream = wire.server.probe.open()
    wire.server.probe.write(stream, bytes(400 * KB))
    carry = Wire._carry

    def only_downwards(self: Wire, sender: End, data: bytes) -> None:
        if sender is not self.client:
            carry(self, sender, data)

    with monkeypatch.context() as patch:
        patch.setattr(Wire, "_carry", only_downwards)
        first = wire.client.link._quic._packet_number
        wire.run(lambda: wire.client.link._quic._packet_number > first + 10)
        assert client.before is None
        assert (client.seals, client.opens, server.opens) == (1, 1, 0)
    wire.run(lambda: wire.client.probe.received == 400 * KB)
    wire.run(lambda: client.seals > 1)


def test_a_peer_that_does_not_follow_is_left_before_a_key_is_worn_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short, never = settings(KeyLimits(change_after=40, sealed=200)), settings(KeyLimits())
    wire = connected(short, server_settings=never)
    monkeypatch.setattr(keys_of(wire.server), "_renew_seal", lambda trigger: None)
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(4 * 1024 * KB))
    wire.run(lambda: wire.server.probe.lost is not None)
    assert wire.client.link.lost is not None
    assert wire.client.link.lost.code == QuicErrorCode.AEAD_LIMIT_REACHED
    assert not wire.client.link.lost.by_peer
    assert wire.client.link._quic._packet_number < 400
    assert keys_of(wire.client).seals == 1
    assert wire.server.probe.lost is not None
    assert wire.server.probe.lost.code == QuicErrorCode.AEAD_LIMIT_REACHED


def test_so_many_forged_packets_end_a_connection() -> None:
    wire = connected(settings(KeyLimits(failures=50)))
    quic: Any = wire.server.link._quic
    rng = random.Random(1)
    for _ in range(49):
        forged = b"\x40" + quic.host_cid + rng.randbytes(40)
        wire.server.link.receive([(forged, CLIENT)], wire.now)
    wire.rest(0.1)
    assert wire.server.link.lost is None
    wire.server.link.receive([(b"\x40" + quic.host_cid + rng.randbytes(40), CLIENT)], wire.now)
    wire.rest(0.1)
    lost = wire.server.link.lost
    assert lost is not None
    assert (lost.code, lost.origin) == (QuicErrorCode.AEAD_LIMIT_REACHED, CloseOrigin.TRANSPORT)


def test_a_peer_that_changes_keys_without_end_is_closed() -> None:
    wire = connected(settings(KeyLimits()))
    quic: Any = wire.client.link._quic
    keys = quic._cryptos[Epoch.ONE_RTT]
    for change in range(2):
        keys._update_key("again")
        number = quic._packet_number
        quic._packet_number += 1
        header = bytes([0x43 | keys.key_phase << 2]) + quic._peer_cid.cid + number.to_bytes(4)
        sealed = keys.encrypt_packet(header, b"\x01".ljust(20, b"\0"), number)
        wire.server.link.receive([(sealed, CLIENT)], wire.now)
        assert keys_of(wire.server).opens == change + 1
    wire._turn(wire.server)
    lost = wire.server.link.lost
    assert lost is not None
    assert lost.code == QuicErrorCode.KEY_UPDATE_ERROR


def connected(settings: LinkSettings, **others: Any) -> Wire:
    wire = Wire(settings=settings, **others)
    wire.connect()
    wire.rest(0.5)
    return wire


def test_the_library_s_own_end_follows_and_is_followed() -> None:
    peer, link, out = stock_client(settings(OFTEN))
    probe = Probe(client=False, echoes=True)
    now, sent, echoed = 1.0, 0, 0
    while echoed < 500 * KB:
        assert now < 10.0
        link.receive([(data, CLIENT) for data in out], now)
        for input in link.inputs():
            probe.handle(input, now)
        link.apply(probe.actions(), now)
        for data, _ in link.transmit(now):
            peer.receive_datagram(data, SERVER, now)
        while (event := peer.next_event()) is not None:
            if isinstance(event, StreamDataReceived):
                echoed += len(event.data)
        if link.ready and sent < 50:
            peer.send_stream_data(2, bytes(10 * KB))
            sent += 1
        if sent == 25:
            peer.request_key_update()
        now += 0.02
        out = [data for data, _ in peer.datagrams_to_send(now)]
    assert link._quic._keys.opens > 4
    assert link.lost is None
    assert probe.received == echoed == 500 * KB


# The keys alone


class Ends:
    """The keys of two ends, and packets between them."""

    def __init__(self) -> None:
        made = CryptoPair(), CryptoPair()
        for pair, (recv, send) in zip(made, ((1, 2), (2, 1)), strict=True):
            for context, secret in ((pair.recv, recv), (pair.send, send)):
                context.setup(
                    cipher_suite=CipherSuite.AES_128_GCM_SHA256,
                    secret=bytes([secret]) * 32,
                    version=QuicProtocolVersion.VERSION_1,
                )
        self.here, self.there = map(PhasedKeys, made)

    def seal(self, number: int) -> bytes:
        header = bytes([0x41 | self.here.key_phase << 2]) + bytes(8) + number.to_bytes(2)
        return self.here.encrypt_packet(header, b"%d" % number + bytes(20), number)

    def open(self, packet: bytes, expected: int = 0) -> int:
        _, payload, number = self.there.decrypt_packet(packet, 9, expected)
        assert payload == b"%d" % number + bytes(20)
        return number


def test_late_packets_of_the_phase_before_are_opened_while_its_keys_are_kept() -> None:
    ends = Ends()
    early, late, later = ends.seal(1), ends.seal(2), ends.seal(3)
    ends.here.update_key()
    anew, first = ends.seal(5), ends.seal(4)
    assert [ends.open(each) for each in (early, anew, late, first)] == [1, 5, 2, 4]
    assert (ends.there.opens, ends.there.seals, ends.there.failures) == (1, 1, 0)
    ends.there.before = None
    with pytest.raises(CryptoError):
        ends.open(later)
    assert ends.there.failures == 0


def test_nobody_begins_again_before_the_peer_has_followed() -> None:
    ends = Ends()
    ends.here.update_key()
    ends.here.update_key()
    assert (ends.here.seals, ends.here.opens, ends.here.key_phase) == (1, 0, 1)


def test_forged_phases_make_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends()
    made = Counter[str]()
    make = key_updates.next_key_phase

    def counted(context: Any) -> Any:
        made["keys"] += 1
        return make(context)

    monkeypatch.setattr(key_updates, "next_key_phase", counted)
    rng = random.Random(3)
    for _ in range(200):
        with pytest.raises(CryptoError):
            ends.open(b"\x40" + rng.randbytes(40))
    assert ends.there.failures == 200
    assert (ends.there.opens, made["keys"]) == (0, 1)
    assert ends.open(ends.seal(7)) == 7


@pytest.mark.parametrize(
    "beyond",
    [{"change_after": (1 << 22) + 1}, {"sealed": 1 << 23}, {"sealed": 1}, {"failures": 1 << 37}],
    ids=str,
)
def test_the_bounds_of_the_ciphers_cannot_be_widened(beyond: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        KeyLimits(**beyond)

"""Packets from 10,000 addresses that somebody has made up: what they cost, what the owners of these
addresses are sent, and what peers notice who were there before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aqueduct_core.transport import Driver
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.endpoints import STRANGERS, PlainListener
from tests.core.transport.ends import ended
from tests.core.transport.plain_udp.test_endpoints import dialled, send, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import eventually, in_loop
from tests.support.virtual_loop import let_happen

FORGED = 10_000
PACKET = b"a packet of forty bytes or so, in its name"
ANSWERS = 3
"""To each of these; to what good peers send, one."""
BURST = 256
PEER_BYTES = 16 << 10
"""Of memory that one stranger is charged with, at most."""


def answering() -> Probe:
    """Would answer forged packets with more than they are, and believes nobody."""
    probe = Probe(client=False, admits=False)

    def answer(given: object) -> None:
        data = getattr(given, "data", None)
        if isinstance(data, bytes):
            for _ in range(ANSWERS if data == PACKET else 1):
                probe.datagram(data)

    probe.on_input = answer
    return probe


def forged(number: int) -> Address:
    if number % 2:
        return f"2001:db8:{number:x}::1", 4_433, 0, 0
    return f"10.0.{number >> 8}.{number & 255}", 4_433


class Tap:
    """What a listener has sent, by address, which goes nowhere."""

    def __init__(self, listener: PlainListener, real: set[int]) -> None:
        self.bytes: Counter[Address] = Counter()
        self.packets: Counter[Address] = Counter()
        self._send = listener._socket.send
        self._real = real
        listener._socket.send = self._sent  # type: ignore[method-assign]

    def _sent(self, datagrams: list[tuple[bytes, Address]]) -> int | None:
        for data, address in datagrams:
            if address[1] not in self._real:
                self.bytes[address] += len(data)
                self.packets[address] += 1
        return self._send([each for each in datagrams if each[1][1] in self._real])


def floods(times: int) -> Iterator[list[tuple[bytes, Address]]]:
    """Each address ``times`` times, in bursts."""
    all_of_them = [(PACKET, forged(n)) for n in range(FORGED)]
    for _ in range(times):
        for start in range(0, FORGED, BURST):
            yield all_of_them[start : start + BURST]


@in_loop
async def test_memory_is_flat_nobody_is_flooded_and_good_peers_go_on() -> None:
    async with serving(answering) as (listener, _):
        good: list[tuple[Driver, Probe]] = [await dialled(listener.address[1]) for _ in range(3)]
        tap = Tap(listener, {driver_port(driver) for driver, _ in good})
        for driver, probe in good:
            send(driver, probe, b"hello")
        await let_happen(1.1)
        for driver, probe in good:
            send(driver, probe, b"still here")  # their probation is over
        await eventually(lambda: all(len(probe.datagrams) == 2 for _, probe in good))
        highest = sent = 0
        for burst in floods(2):
            listener.receive(burst)
            sent += 1
            for driver, probe in good:
                send(driver, probe, b"%d" % sent)
            await eventually(lambda: not listener._strangers)
            highest = max(highest, listener.memory)
            assert len(listener.drivers) <= STRANGERS + len(good)
        await eventually(lambda: all(len(probe.datagrams) == sent + 2 for _, probe in good))
        assert highest < (STRANGERS + len(good)) * PEER_BYTES
        assert listener.counts.gave_way > FORGED
        came = sum(len(data) for burst in floods(2) for data, _ in burst)
        assert 0 < sum(tap.bytes.values()) <= came
        assert max(tap.packets.values()) <= 2  # as many as came in the name of each
        assert max(tap.bytes.values()) <= 2 * len(PACKET)
        assert len(tap.bytes) > FORGED // 2  # nobody was just ignored
        await ended(*(driver for driver, _ in good))


@in_loop
async def test_forged_peers_that_go_on_take_no_place_of_good_ones() -> None:
    """The worst: each address goes on beyond its probation. New peers are refused then, until the
    forged ones are idle."""
    async with serving(answering) as (listener, _):
        driver, probe = await dialled(listener.address[1])
        tap = Tap(listener, {driver_port(driver)})
        send(driver, probe, b"hello")
        await let_happen(1.1)
        send(driver, probe, b"still here")
        await eventually(lambda: len(probe.datagrams) == 2)
        few = [(PACKET, forged(number)) for number in range(STRANGERS)]
        for _ in range(5):
            listener.receive(few)
            await eventually(lambda: not listener._strangers)
            await let_happen(1.1)
        assert len(listener.drivers) == STRANGERS + 1
        assert not listener._half_open
        send(driver, probe, b"and here")
        await eventually(lambda: len(probe.datagrams) == 3)
        assert set(tap.bytes.values()) == {5 * len(PACKET)}
        await let_happen(60)
        assert not listener.drivers
        await ended(driver)


def driver_port(driver: Driver) -> int:
    """The port from which it sends."""
    line = driver._send.__self__  # type: ignore[attr-defined]
    return int(line._socket.address[1])

"""Packets over UDP through networks that lose, double and hold back, both ways and over both
carriers: in order, each once."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.telehash.config import TelehashConfig
from tests.core.aio.telehash.scene import CARRIERS, accepted, net
from tests.support.event_loop import eventually, in_loop
from tests.support.proxy import Impairment
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

LOSSES = [0.0, 0.1, 0.3]
PATIENT = TelehashConfig(channel_timeout=60)
"""With a loss of 30 % each way, five resends in 10 s are lost together now and then."""
COUNT = 150


def bad(loss: float) -> Impairment:
    return Impairment(loss=loss, duplicate=0.1, reorder=0.1, delay=0.01, hold=0.05)


def payload(number: int) -> bytes:
    return b"%d " % number + bytes(number % 7 * 150)


async def send_all(channel: TelehashChannel) -> None:
    for number in range(1, COUNT):
        await channel.send(payload(number), js={"n": number})
    await channel.end(b"end")


async def echo(channel: TelehashChannel) -> None:
    """Answer each packet, and end when all have come."""
    async for packet in channel:
        if packet.end:
            return
        await channel.send(packet.body, js=packet.js)


@CARRIERS
@pytest.mark.parametrize("loss", LOSSES)
@rule("T-4", "T-5", "T-10", "T-11", "T-13", "T-15", "T-16", "T-17")
def test_what_comes_is_what_was_sent(carrier: str, loss: float) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier, bad(loss)) as net_:
            listener = await net_.listen(config=PATIENT)
            line = await net_.connect(config=PATIENT)
            ours = line.open("_t", payload(0), js={"n": 0})
            sending = asyncio.create_task(send_all(ours))
            theirs = await accepted(listener)
            got = [packet async for packet in theirs]
            await sending
            assert [packet.seq for packet in got] == [*range(COUNT + 1)]
            assert [packet.body for packet in got] == [*map(payload, range(COUNT)), b"end"]
            assert [packet.js["n"] for packet in got[:-1]] == [*range(COUNT)]
            assert (sum(p.counts["up"].dropped for p in net_.proxies) > 0) is (loss > 0)

    run()


@CARRIERS
@pytest.mark.parametrize("loss", LOSSES)
@rule("T-3", "T-5", "T-6", "T-9")
def test_both_directions_at_once(carrier: str, loss: float) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier, bad(loss), seed=7) as net_:
            await net_.listen(answer_twice, config=PATIENT)
            line = await net_.connect(config=PATIENT)
            ours = line.open("_t", payload(0))

            async def send() -> None:
                for number in range(1, COUNT):
                    await ours.send(payload(number))

            sending = asyncio.create_task(send())
            got = [packet.body async for packet in ours]
            assert got == [payload(number) for number in range(COUNT)] + [b"enough"]
            await sending
            await ours.delivered()

    run()


async def answer_twice(channel: TelehashChannel) -> None:
    number = 0
    async for packet in channel:
        assert packet.body == payload(number)
        number += 1
        await channel.send(packet.body)
        if number == COUNT:
            channel.acknowledge()
            await channel.end(b"enough")


@CARRIERS
@rule("P-7", "T-16")
@pytest.mark.parametrize("stops", ["network", "program"])
def test_a_window_that_was_full_for_long_goes_on(carrier: str, stops: str) -> None:
    """For 9 s, as nobody read; or as nothing passed, for 7 s over UDP, where what is sent again at
    8 s does. QUIC, whose window is full of what was lost, probes ever more rarely (RFC 9002)."""

    @in_loop
    async def run() -> None:
        async with net(carrier, Impairment()) as net_:
            listener = await net_.listen()
            line = await net_.connect()
            ours = line.open("_t", payload(0))
            theirs = await accepted(listener)
            await anext(theirs)
            theirs.acknowledge()
            await eventually(lambda: not ours.unacked)
            [proxy] = net_.proxies
            proxy.dark = stops == "network"
            sending = asyncio.create_task(send_all(ours))
            await let_happen({"udp": 7, "telehash": 3}[carrier] if proxy.dark else 9)
            assert ours.unacked == TelehashConfig().window
            proxy.dark = False
            assert len([packet async for packet in theirs]) == COUNT
            await sending

    run()


@in_loop
async def test_a_new_address_is_a_new_line_over_plain_udp() -> None:
    """Fault 24: what is open ends there, by a timeout, and the program begins anew."""
    async with net("udp", Impairment()) as net_:
        listener = await net_.listen()
        line = await net_.connect()
        ours = line.open("_t", b"from here")
        await anext(await accepted(listener))
        await net_.proxies[0].rebind()
        ours.fail("begins anew")
        again = line.open("_t", b"from there")
        theirs = await accepted(listener)
        assert (await anext(theirs)).body == b"from there"
        assert theirs.number == 3  # the line of this side goes on; to the other one it is new
        theirs.acknowledge()
        await again.delivered()
        assert len(listener.lines) == 2


@in_loop
async def test_a_new_address_is_the_same_line_over_quic() -> None:
    async with net("telehash", Impairment()) as net_:
        listener = await net_.listen()
        line = await net_.connect()
        ours = line.open("_t", b"from here")
        theirs = await accepted(listener)
        await anext(theirs)
        await net_.proxies[0].rebind()
        await ours.send(b"from there")
        assert (await anext(theirs)).body == b"from there"
        assert len(listener.lines) == 1

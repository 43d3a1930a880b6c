"""Openings from 10,000 forged addresses at a listener over plain UDP: nobody is sent more than was
sent in its name, memory is bounded, and channels that are open notice nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.endpoints import STRANGERS, PlainListener
from tests.core.aio.telehash.scene import accepted, bodies, net
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

FORGED = 10_000
BURST = 250
LINE_BYTES = 32 << 10
"""Of memory, that a line of a stranger with one channel is charged with, at most."""


def forged(number: int) -> Address:
    return f"10.0.{number >> 8}.{number & 255}", 4_433


def opening(number: int) -> bytes:
    head = b'{"c":1,"seq":0,"type":"_ask"}'
    return len(head).to_bytes(2, "big") + head + b"%d" % number


@in_loop
@rule("P-3")
async def test_nobody_is_flooded_and_open_channels_go_on() -> None:
    sent: Counter[Address] = Counter()
    lines: weakref.WeakSet[object] = weakref.WeakSet()

    async def answer(channel: TelehashChannel) -> None:
        lines.add(channel._line)
        if channel.type == "_good":
            assert len(await bodies(channel)) > FORGED // BURST
            return
        async for packet in channel:
            for size in (0, 1_000, 1_000):
                await channel.send(bytes(size) + packet.body)

    async with net("udp") as net_:
        listener = await net_.listen(answer)
        plain = listener._listener
        assert isinstance(plain, PlainListener)
        real = plain._socket.send

        def tap(datagrams: list[tuple[bytes, Address]]) -> int | None:
            for data, address in datagrams:
                sent[address] += len(data)
            return real([each for each in datagrams if each[1][0] == "127.0.0.1"])

        plain._socket.send = tap  # type: ignore[method-assign]
        line = await net_.connect(config=TelehashConfig(channel_timeout=60))
        good = line.open("_good", b"first")
        await let_happen(1.1)
        await good.send(b"second")
        await good.delivered()
        highest = 0
        for start in range(0, FORGED, BURST):
            plain.receive([(opening(n), forged(n)) for n in range(start, start + BURST)])
            await eventually(lambda: not plain._strangers)
            await good.send(b"still here")
            await let_happen(0.02)
            highest = max(highest, plain.memory)
            assert len(listener.lines) <= STRANGERS + 1
        await good.end()
        assert highest < (STRANGERS + 1) * LINE_BYTES
        assert plain.counts.gave_way >= FORGED - STRANGERS
        for number in range(FORGED):
            assert sent[forged(number)] <= len(opening(number))
        assert sum(sent[forged(number)] for number in range(FORGED)) > FORGED
        await let_happen(75)
        assert not listener.lines
    await asyncio.sleep(0)
    gc.collect()
    assert len(lines) <= 1  # those of strangers are not held by anybody


@in_loop
async def test_a_peer_that_acks_is_sent_all_there_is() -> None:
    async with net("udp") as net_:
        listener = await net_.listen()
        line = await net_.connect()
        ours = line.open("_t", b"?")
        theirs = await accepted(listener)
        [driver] = listener._listener.drivers
        await anext(theirs)
        sending = asyncio.create_task(send_much(theirs))
        await eventually(lambda: driver.link.counts.datagrams_sent == 1)
        assert driver.link.counts.bytes_sent <= driver.link.counts.bytes_received
        assert not driver.link.proved
        assert len(await bodies(ours)) == 101
        await sending
        assert driver.link.proved


async def send_much(channel: TelehashChannel) -> None:
    for _ in range(100):
        await channel.send(bytes(1_000))
    await channel.end()

"""3 Mbit/s of media into a path of 1, over UDP: what is given up, and how late the rest is.

The path has a queue of 100 ms. With a longer one the congestion control of QUIC, which fills it,
makes everything later by as much, whatever is given up.
"""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.quicr.client import QuicrClient
from aqueduct_core.aio.quicr.reader import MediaReader
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.media.position import Position
from tests.core.aio.quicr.scene import client_of, net
from tests.core.quicr.test_dropping import FRAMES, LAYERS, RATE
from tests.support.event_loop import client_tls, in_loop
from tests.support.proxy import Impairment
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

SECONDS = 30
"""Virtual ones. The first of them is a start into the unknown, which fills the path's queue."""
NARROW = Impairment(delay=0.02, rate=RATE, queue=12_000)


@pytest.mark.parametrize("datagram", [False, True], ids=["stream", "datagram"])
@rule("Q-34", "Q-36")
def test_what_must_not_be_dropped_comes_in_time(datagram: bool) -> None:
    @in_loop
    async def run() -> None:
        async with net(NARROW) as net_:
            origin = await net_.origin(QuicrConfig())
            reader = (await net_.client()).request("live", datagram=datagram, hole_timeout=30)
            async with client_of(origin.url, client_tls()) as publisher:
                published: dict[Position, float] = {}
                came: dict[Position, tuple[float, bool]] = {}
                reading = asyncio.create_task(read(reader, came))
                await publish(publisher, published)
                await reading
        assert reader.gaps == []
        assert came.keys() == published.keys()
        layers = [*LAYERS]
        whole: dict[int, list[float]] = {flags: [] for flags in layers}
        holes = 0
        for position, (at, is_hole) in came.items():
            holes += is_hole
            if not is_hole:
                whole[layers[position.object % len(layers)]].append(at - published[position])
        counts = [len(whole[flags]) for flags in layers]
        assert counts[0] == SECONDS * FRAMES  # what must not be dropped is all there
        assert counts == sorted(counts, reverse=True)
        assert counts[1] > counts[3]
        [said] = origin.counts()
        assert said.dropped == holes > 0
        delays = sorted(delay for layer in whole.values() for delay in layer)
        assert delays[len(delays) * 99 // 100] < 0.5

    run()


async def publish(client: QuicrClient, published: dict[Position, float]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with client.publish("live") as publisher:
        for frame in range(SECONDS * FRAMES):
            for layer, (flags, size) in enumerate(LAYERS.items()):
                new_group = frame % FRAMES == 0 and layer == 0
                at = loop.time()
                published[await publisher.send(bytes(size), flags=flags, new_group=new_group)] = at
            await let_happen(max(0.0, begun + (frame + 1) / FRAMES - loop.time()))


async def read(reader: MediaReader, came: dict[Position, tuple[float, bool]]) -> None:
    loop = asyncio.get_running_loop()
    async for each in reader:
        came[each.position] = loop.time(), each.payload is None

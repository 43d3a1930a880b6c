"""What ends at one address ends whatever the attempt waits for at another one."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from aqueduct_core.errors import SinkFailed
from tests.spark.write.memory_receiver import MemoryConnection, MemoryNetwork
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.virtual_loop import let_happen, run_virtually

WAITS = ("to open a channel", "for room in the transport", "for room in flight",
         "for a channel to make room", "for the last acks", "for an answer", "for the finish",
         "for an address to come back")  # fmt: skip
LATER = ("for room in the transport", "for an address to come back")
"""A run that is sent in part is sent on whatever connection is lost elsewhere, and of two addresses
that are lost one is dialled first."""


def at(connection: MemoryConnection) -> list[str]:
    """The names of channels that belong to an address."""
    return [dict(each.state.headers)[b"name"].decode() for each in connection.channels]


def to(names: list[str], count: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"value": [b"%d" % n for n in range(count)], "channel": (names * count)[:count]}
    )


ALL_ACKED = ("for an answer", "for the finish")
"""Nothing is lost with a channel that is closed then."""
CASES = [(wait, "dies") for wait in WAITS] + [(w, "closes") for w in WAITS if w not in ALL_ACKED]


@pytest.mark.parametrize(("wait", "how"), CASES)
def test_what_ends_elsewhere_ends_every_wait(wait: str, how: str) -> None:
    """The acks of the one address are long in coming, and the other one ends."""

    async def main() -> None:
        network = MemoryNetwork(answers=True)
        wanted = options(
            "aqueduct://127.0.0.1:1",
            "aqueduct://127.0.0.1:2",
            ackTimeout="120s",
            maxInFlightBytes="1k",
        )
        attempt = Attempt(wanted, pool=network, max_open=16 if "make room" not in wait else 8)
        await attempt.delivery.open()
        await attempt.send(numbered(40, channels=8))
        slow, other = network.connections
        ending = other.live[0]
        mine, rest = at(slow), []
        match wait:
            case "to open a channel":
                slow.shut = True
                rest = [to(mine, 8).append_column("reliability", pa.array(["unordered"] * 8))]
            case "for room in the transport":
                slow.room, rest = 0, [to(mine, 10)]
            case "for room in flight":
                rest = [to(mine, 5_000)]
            case "for a channel to make room":
                rest = [numbered(400, channels=40)]
            case "for an answer":
                slow.shut = True
            case "for an address to come back":
                network.down.add(1)
                slow.die()
        if wait in ALL_ACKED:
            for channel in network.channels():
                channel.deliver(1 << 30)
                channel.ack(0, 1 << 30)
        writing = asyncio.ensure_future(attempt.run(rest))
        loop = asyncio.get_running_loop()
        await let_happen(1.0)
        assert not writing.done()
        assert len(network.connections) == 2
        begun = loop.time()
        if how == "closes":
            ending.close()
            with pytest.raises(SinkFailed) as failed:
                await writing
            assert failed.value.subclass == "RECEIVER_CLOSED"
            assert loop.time() - begun < 0.01
            return
        other.die()
        await let_happen(0.5)
        dialled = [each for each in network.connections[2:] if each.store is other.store]
        assert bool(dialled) == (wait not in LATER), "the one that died is not dialled again"
        slow.more_room(100)
        network.down.clear()
        await let_happen(0.5)
        assert network.connections[-1].store is other.store
        writing.cancel()

    run_virtually(main())

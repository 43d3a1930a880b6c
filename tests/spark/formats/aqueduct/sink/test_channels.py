"""Rows are conserved whatever connections do: each once under its number, or no success."""

from __future__ import annotations

import asyncio
import itertools

import pyarrow as pa
import pytest

from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.write import WriteOptions
from tests.spark.write.memory_receiver import MemoryNetwork, Store
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.virtual_loop import let_happen, run_virtually

ROWS = 17_000


async def serve(network: MemoryNetwork) -> None:
    """Store and ack all that comes."""
    while True:
        await let_happen(0.001)
        for channel in list(network.channels()):
            channel.deliver(1 << 30)
            channel.ack(0, 1 << 40)
            channel.complete()


def stored(store: Store, first: int = 0) -> dict[str, list[tuple[int, bytes]]]:
    return {
        name: [(n - first, row) for n, row in rows.items()]
        for (_, name), rows in store.rows.items()
    }


def rows_in(store: Store) -> int:
    return sum(map(len, store.rows.values()))


def each_once(count: int) -> list[tuple[int, bytes]]:
    return [(row, b"%d" % row) for row in range(count)]


def test_fault_39_a_receiver_restarted_between_two_batches() -> None:
    """The pooled connection is dead, and the sink learns it when all rows are on their way."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", streaming=True)
        serving = asyncio.ensure_future(serve(network))
        await Attempt(wanted, pool=network).run([numbered(5)])
        serving.cancel()
        attempt = Attempt(wanted, pool=network, batch=1)
        await attempt.delivery.open()
        await attempt.send(numbered(ROWS))
        network.connections[0].die()
        serving = asyncio.ensure_future(serve(network))
        counts = await attempt.run([])
        serving.cancel()
        assert (counts.sent, counts.acked) == (ROWS, ROWS)
        [store] = network.stores.values()
        assert stored(store, 1 << 32)["c0"][5:] == each_once(ROWS)

    run_virtually(main())


def test_fail_over_sends_nothing_twice_under_other_numbers() -> None:
    """Half of a channel's rows are acked, with a hole, when the connection is lost."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", endpointPolicy="failover")
        attempt = Attempt(wanted, pool=network)
        await attempt.delivery.open()
        await attempt.send(numbered(ROWS))
        [channel] = network.channels()
        channel.deliver(12_000)
        channel.ack(0, 5_000)
        channel.ack(9_000, 12_000)
        network.connections[0].die()
        serving = asyncio.ensure_future(serve(network))
        counts = await attempt.run([])
        serving.cancel()
        assert (counts.sent, counts.acked) == (ROWS, ROWS)
        [store] = network.stores.values()
        assert stored(store)["c0"] == each_once(ROWS)
        assert not store.changed

    run_virtually(main())


def test_rows_of_a_channel_that_made_room_for_another() -> None:
    """It was told to finish before its rows were acked; the connection was lost while Spark
    computed, so nobody looked."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", endpointPolicy="failover")
        attempt = Attempt(wanted, pool=network, max_open=4)
        await attempt.delivery.open()
        await attempt.send(numbered(40, channels=4))
        more = pa.record_batch({"value": [b"40"], "channel": ["c4"]})
        sending = asyncio.ensure_future(attempt.send(more))
        await let_happen(0.01)
        oldest = next(network.channels())
        oldest.deliver(10)
        oldest.ack(0, 10)
        oldest.complete()
        await sending
        network.connections[0].die()
        await let_happen(0.01)
        serving = asyncio.ensure_future(serve(network))
        counts = await attempt.run([])
        serving.cancel()
        [store] = network.stores.values()
        rows = sorted(int(row) for rows in stored(store).values() for _, row in rows)
        assert rows == list(range(41))
        assert (counts.sent, counts.acked) == (41, 41)

    run_virtually(main())


WAITS = {
    "to open a channel": {},
    "for room in the transport": {},
    "for room in flight": {"maxInFlightBytes": "1k"},
    "for a channel to make room": {},
    "for the last acks": {},
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_receiver_that_closes_early_ends_every_wait(wait: str) -> None:
    """The other channels go on, with acks that are long in coming: the failure does not wait for
    them, and has its own name."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", ackTimeout="120s", **WAITS[wait])
        attempt = Attempt(wanted, pool=network, max_open=3 if "open" in wait else 2)
        await attempt.delivery.open()
        await attempt.send(numbered(40, channels=2))
        closing, _ = network.channels()
        [connection] = network.connections
        match wait:
            case "to open a channel":
                connection.shut = True
                rest = pa.record_batch({"value": [b"x"], "reliability": ["unordered"]})
            case "for room in the transport":
                connection.room, rest = 0, numbered(40, channels=2)
            case "for room in flight":
                rest = numbered(4_000, channels=2)
            case "for a channel to make room":
                rest = numbered(40, channels=5)
            case _:
                rest = numbered(1, channels=2)
        writing = asyncio.ensure_future(attempt.run([rest]))
        await let_happen(30)
        assert not writing.done()
        closing.deliver(3)
        begun = asyncio.get_running_loop().time()
        closing.close()
        with pytest.raises(SinkFailed) as failed:
            await writing
        assert failed.value.subclass == "RECEIVER_CLOSED"
        assert asyncio.get_running_loop().time() - begun < 0.01

    run_virtually(main())


BEYOND = {
    "rows of a channel": [numbered(20_000)],
    "runs without an outcome": [numbered(1, start=row) for row in range(9_000)],
    "channels": [numbered(2_100, start=first, channels=2_100) for first in (0, 2_100)],
}
"""More than a slice has, than may be in flight, than may be open and than a message carries."""


@pytest.mark.parametrize("what", BEYOND)
def test_fault_39_a_receiver_restarted_in_mid_batch_beyond_every_bound(what: str) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", maxInFlightBytes="64k")
        writing = asyncio.ensure_future(Attempt(wanted, pool=network).run(BEYOND[what]))
        serving = asyncio.ensure_future(serve(network))
        for stored_before in (500, 3_000):
            while not network.live or rows_in(network.stores[address]) < stored_before:
                await let_happen(0.001)
            network.live[0].die()
        counts = await writing
        serving.cancel()
        rows = [row for batch in BEYOND[what] for row in batch.column("value").to_pylist()]
        assert counts.sent == counts.acked == len(rows)
        found = stored(network.stores[address])
        assert sorted(row for named in found.values() for _, row in named) == sorted(rows)
        for numbers in ([number for number, _ in named] for named in found.values()):
            assert numbers == list(range(len(numbers)))

    address = HostPort("127.0.0.1", 1)
    run_virtually(main())


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("seconds", [0, 1, 20])
def test_fault_39_a_receiver_that_is_away(seconds: float, streaming: bool) -> None:
    """The attempt survives it for as long as connectTimeout, and a moment at least; else it fails,
    and the next one sends the rows again."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options(f"aqueduct://127.0.0.1:{port}", streaming=streaming)
        writing = asyncio.ensure_future(task(network, wanted))
        while not any(channel.under_way for channel in network.channels()):
            await let_happen(0.001)
        next(network.channels()).deliver(9_000)
        network.down.add(port)
        network.live[0].die()
        await let_happen(seconds)
        assert not writing.done()
        network.down.clear()
        serving = asyncio.ensure_future(serve(network))
        assert (await writing > 1) == (seconds == 20 and not streaming)
        serving.cancel()
        [store] = network.stores.values()
        assert stored(store)["c0"] == each_once(ROWS)

    async def task(network: MemoryNetwork, wanted: WriteOptions) -> int:
        for attempt in itertools.count(1):
            try:
                await Attempt(wanted, pool=network).run([numbered(ROWS)])
                return attempt
            except (ConnectFailed, SinkFailed):
                await let_happen(1)
        raise AssertionError

    port = 1
    run_virtually(main())


@pytest.mark.parametrize("how", ["closes", "dies"])
def test_what_ends_at_one_address_ends_the_wait_for_another(how: str) -> None:
    """Late acks of one receiver do not hide what becomes of another one."""

    async def main() -> None:
        network = MemoryNetwork()
        wanted = options("aqueduct://127.0.0.1:1", "aqueduct://127.0.0.1:2", ackTimeout="30s")
        attempt = Attempt(wanted, pool=network)
        await attempt.delivery.open()
        await attempt.send(numbered(40, channels=8))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        completing = asyncio.ensure_future(attempt.run([]))
        await let_happen(1.0)
        other = network.connections[1]
        if how == "dies":
            other.die()
            await let_happen(1.0)
            assert len(network.connections) == 3, "it was not dialled again"
            completing.cancel()
            return
        next(channel for channel in network.channels() if channel in other.live).close()
        with pytest.raises(SinkFailed) as failed:
            await completing
        assert failed.value.subclass == "RECEIVER_CLOSED"
        assert loop.time() - begun < 5

    run_virtually(main())

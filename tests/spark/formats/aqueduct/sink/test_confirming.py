"""FAULTS 43 when connections are lost: every receiver that answers is asked before success."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.errors import SinkFailed
from aqueduct_spark.options.write import WriteOptions
from tests.spark.formats.aqueduct.sink.test_channels import serve
from tests.spark.write.memory_receiver import MemoryConnection, MemoryNetwork
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.virtual_loop import run_virtually

WHEN = ("before the question", "before the answer")


def wanted_of(policy: str, finish: str, ports: int = 2) -> WriteOptions:
    urls = [f"aqueduct://127.0.0.1:{port}" for port in range(1, ports + 1)]
    return options(*urls, endpointPolicy=policy, finish=finish)


async def stored_before(network: MemoryNetwork, wanted: WriteOptions, rows: int = 40) -> None:
    """An attempt has stored rows and is over."""
    serving = asyncio.ensure_future(serve(network))
    await Attempt(wanted, pool=network).run([numbered(rows, channels=8)])
    serving.cancel()
    network.connections.clear()


async def acked(network: MemoryNetwork, attempt: Attempt, *, start: int) -> MemoryConnection:
    """All rows of an attempt are acked; the connection of its second address."""
    await attempt.delivery.open()
    await attempt.send(numbered(40, start=start, channels=8))
    for channel in list(network.channels()):
        channel.deliver(1 << 30)
        channel.ack(0, 1 << 30)
    return network.connections[-1]


def lose(connection: MemoryConnection, when: str) -> None:
    if when == WHEN[0]:
        connection.die()
    else:
        connection.hangs_up = True


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("finish", ["true", "false"])
@pytest.mark.parametrize(("policy", "ports"), [("hash", 2), ("failover", 2), ("failover", 1)])
def test_a_connection_that_is_lost_when_all_is_acked(
    policy: str, ports: int, finish: str, when: str
) -> None:
    """Its receiver has other rows under these numbers: it is dialled again, and asked."""

    async def main() -> None:
        network = MemoryNetwork(answers=True)
        wanted = wanted_of(policy, finish, ports)
        await stored_before(network, wanted)
        attempt = Attempt(wanted, pool=network)
        connection = await acked(network, attempt, start=1_000)
        if policy == "failover":
            connection = next(each for each in network.connections if each.channels)
        lose(connection, when)
        serving = asyncio.ensure_future(serve(network))
        with pytest.raises(SinkFailed) as failed:
            await attempt.run([])
        assert failed.value.subclass == "NOT_REPEATABLE"
        # the same rows pass, and are compared
        network.connections.clear()
        attempt = Attempt(wanted, pool=network)
        lose(await acked(network, attempt, start=0), when)
        counts = await attempt.run([])
        assert (counts.acked, counts.unchecked) == (40, 0)
        serving.cancel()

    run_virtually(main())


def test_an_address_without_rows_is_asked_whatever_becomes_of_its_connection() -> None:
    """It has channels of an earlier attempt, and this one sends it nothing."""

    async def main() -> None:
        network = MemoryNetwork(answers=True)
        wanted = wanted_of("hash", "false")
        await stored_before(network, wanted)
        attempt = Attempt(wanted, pool=network)
        await attempt.delivery.open()
        names = {dict(c.state.headers)[b"name"].decode() for c in network.opened
                 if c.connection.store is network.connections[0].store}  # fmt: skip
        rows = numbered(40, channels=8)
        kept = rows.filter([name.as_py() in names for name in rows["channel"]])
        await attempt.send(kept)
        network.connections[1].die()
        serving = asyncio.ensure_future(serve(network))
        with pytest.raises(SinkFailed, match="rows for 0 channels") as failed:
            await attempt.run([])
        assert failed.value.subclass == "NOT_REPEATABLE"
        serving.cancel()

    run_virtually(main())


@pytest.mark.parametrize("policy", ["hash", "failover"])
def test_a_receiver_that_cannot_be_asked_any_more(policy: str) -> None:
    """With failover the rows that it has acked are stored, and it is told that nobody compared
    them; with hash the attempt fails, as all do while an address is down."""

    async def main() -> None:
        network = MemoryNetwork(answers=True)
        attempt = Attempt(wanted_of(policy, "false"), pool=network)
        last = await acked(network, attempt, start=0)
        connection = next(each for each in network.connections if each.channels)
        assert policy == "failover" or connection is not last
        network.down.add(1)
        connection.die()
        serving = asyncio.ensure_future(serve(network))
        if policy == "hash":
            with pytest.raises(SinkFailed) as failed:
                await attempt.run([])
            assert failed.value.subclass == "CONNECTION_LOST"
        else:
            counts = await attempt.run([])
            assert counts.acked == 40
            assert counts.unchecked == len(connection.channels)
        serving.cancel()

    run_virtually(main())

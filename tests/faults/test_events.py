"""Two queries on one spool: its events beside its messages, and who may have which cursor; rows
26, 27 and 32 of the matrix in Spark."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pyspark.sql.streaming import StreamingQuery

from aqueduct import Sender, channel, connect
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    LostInTransit,
    Misuse,
    Outcome,
    ReceiverClosed,
)
from tests.faults.ledger import balance
from tests.faults.load import Load
from tests.faults.network import Network
from tests.faults.producer import PATIENT, Flow
from tests.faults.queries import PATIENCE, drained, intake_says
from tests.faults.tables import SinkTable
from tests.spark.producing import INSECURE
from tests.spark.scene import Scene, error_line
from tests.support.ports import free_port
from tests.support.proxy import Impairment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

LARGE = 700
DEPTH = 5
READINGS = Flow("ordered", "readings", 300.0, 100)
LOAD = Flow("unreliable", "load", 100.0, LARGE, most=300)


def start_events(scene: Scene) -> StreamingQuery:
    writer = scene.frame(view="events").writeStream.format("parquet")
    writer = writer.option("path", str(scene.table) + "-events")
    writer = writer.option("checkpointLocation", str(scene.checkpoint) + "-events")
    return scene.follow(writer.start())


def events(scene: Scene) -> list[dict[str, Any]]:
    table = SinkTable(scene.table.with_name("table-events"))
    if not table.files():
        return []
    frame = scene.spark.read.parquet(str(scene.table) + "-events").orderBy("offset")
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.mark.long
def test_fault_26_27_events_are_exact_over_loss_and_kills(scene: Scene, producers: Load) -> None:
    """A lossy network, a message lost with a tree below it, a cancel that races a finish, and the
    intake killed in between. Each channel has one end, each descendant of what was lost one event,
    and of the unreliable channels sent = acked + nacked."""
    port = free_port()
    scene.options["listen"] = f"127.0.0.1:{port}"
    query = scene.start()
    scene.intake()
    following = start_events(scene)
    await_cursor(scene, "events")  # what no cursor waits for may be gone
    with Network(("127.0.0.1", port)) as network:
        producers.start(network.url, "p", flows=[READINGS])
        # each of its messages is to have its outcome: no connection is lost because all is slow
        producers.start(network.url, "p", flows=[LOAD], settings=PATIENT)
        network.proxy.impairment = Impairment(loss=0.1, only_above=LARGE)
        producers.run_out_of("load")
        asyncio.run(asyncio.wait_for(lost_tree(network), PATIENCE))
        asyncio.run(asyncio.wait_for(broken_tree(network), PATIENCE))
        cancelled = asyncio.run(asyncio.wait_for(cancel_at_the_finish(network), PATIENCE))
        scene.kill(scene.intake()["pid"])
        scene.intake()
        producers.more_acks(100)
        entries = producers.finish()
        table = SinkTable(scene.table)
        balance(drained(query, table.read, entries), entries)

    def settled() -> list[dict[str, Any]] | None:
        assert following.exception() is None, following.exception()
        found = events(scene)
        ends = [event for event in found if event["kind"] == "finished"]
        return found if any(end["channel"] == "readings" for end in ends) else None

    found = wait_until(settled, PATIENCE, "the last event")
    offsets = [event["offset"] for event in found]
    assert offsets == list(range(len(offsets)))
    # A tree whose first carrier never came was never known here: one nack, and no trace of it.
    unseen = [(e["kind"], e["channel"]) for e in found if e["producer"] == "tree"]
    assert unseen.count(("nacked", "carrier")) == 1
    assert {name for _, name in unseen} == {None, "0", "carrier"}
    # Channels end with their connection, which is one event; each was opened once.
    broken = [(e["kind"], e["channel"]) for e in found if e["producer"] == "broken"]
    names = [name for kind, name in broken if kind == "opened" and name != "0"]
    assert sorted(names) == [f"level {level}" for level in range(DEPTH)]
    assert [kind for kind, _ in broken].count("disconnected") == 1
    [load] = [e for e in found if e["kind"] == "finished" and e["channel"] == "load"]
    counts = load["counts"]
    [entry] = [entry for entry in entries if entry.channel == "load"]
    assert counts["unreliableSent"] == counts["acked"] + counts["nacked"] == entry.sent
    assert counts["nacked"] == entry.nacked_count > 0
    nacked = [e for e in found if e["kind"] == "nacked" and e["channel"] == "load"]
    assert sum(e["last"] - e["first"] + 1 for e in nacked) == entry.nacked_count
    race = [e["kind"] for e in found if e["channel"] == "race"]
    assert race[0] == "opened"
    assert race[1:] in (["finished"], ["cancelled"])
    print(f"cancel against finish: {race[1]}, sender saw {cancelled}; {len(found)} events")


async def lost_tree(network: Network) -> None:
    """A message that carries a channel is lost; below it hang channels, one in another."""
    async with connect(network.url, tls=INSECURE, producer="tree") as connection:
        carrier, receiver = channel("unreliable", name="carrier")
        await connection.entrypoint.send(b"", attach=receiver)
        await connection.entrypoint.flush()
        healthy, network.proxy.impairment = (
            network.proxy.impairment,
            Impairment(loss=1.0, only_above=LARGE),
        )
        senders: list[Sender] = []
        above = carrier
        for level in range(DEPTH):
            sender, below = channel(name=f"level {level}")
            await above.send(bytes(LARGE) if above is carrier else b"", attach=below)
            senders.append(sender)
            above = sender
        for sender in senders:
            with pytest.raises(LostInTransit):
                await sender.finish()
        network.proxy.impairment = healthy
        await carrier.finish()


async def broken_tree(network: Network) -> None:
    """Channels that hang one in another, all of them known, when the connection breaks off."""
    connection = await connect(network.url, tls=INSECURE, producer="broken")
    above = connection.entrypoint
    senders: list[Sender] = []  # a sender that nobody holds is cancelled
    for level in range(DEPTH):
        sender, below = channel(name=f"level {level}")
        await above.send(b"", attach=below)
        await above.flush()
        senders.append(sender)
        above = sender
    connection.abort("broken")
    await connection.wait_closed()
    for sender in senders:
        with pytest.raises(ConnectionLost):
            await sender.finish()


async def cancel_at_the_finish(network: Network) -> str:
    """A finish is under way when the sender gives the channel up."""
    async with connect(network.url, tls=INSECURE, producer="race") as connection:
        sender, receiver = channel(name="race")
        await connection.entrypoint.send(b"", attach=receiver)
        await sender.send_many([b"x"] * 100)
        finishing = asyncio.create_task(sender.finish())
        await asyncio.sleep(0)
        try:
            await sender.cancel()
        except Misuse:
            pass
        try:
            await finishing
        except (Outcome, ReceiverClosed) as outcome:
            return type(outcome).__name__
        return "finished"


@pytest.mark.long
def test_fault_32_two_queries_of_one_cursor_and_of_two(scene: Scene, producers: Load) -> None:
    """Another cursor of the same spool has all rows too; a second query of the same cursor is
    refused with its class, and disturbs nobody."""
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    query = scene.start()
    producers.start(scene.endpoint(), "p", flows=[READINGS])
    second = start_beside(scene, "second", cursor="other")
    await_cursor(scene, "other")
    third = start_beside(scene, "third")
    wait_until(lambda: not third.isActive, PATIENCE, "the end of the query that is too many")
    assert error_line(third.exception()).startswith("[AQUEDUCT_SPOOL.CURSOR_IN_USE]")
    producers.more_acks(200)
    entries = producers.finish()
    balance(drained(query, SinkTable(scene.table).read, entries), entries)
    other = SinkTable(scene.table.with_name("second"))
    balance(drained(second, other.read, entries), entries)
    assert SinkTable(scene.table.with_name("third")).rows == 0


def await_cursor(scene: Scene, name: str) -> None:
    """From then on nothing is trimmed that this cursor has not passed."""

    def there() -> bool:
        status = intake_says(scene.spool)
        return name in {*status.committed, *status.events_committed}

    wait_until(there, PATIENCE, f"cursor {name}")


def start_beside(scene: Scene, name: str, **options: str) -> StreamingQuery:
    writer = scene.frame(**options).writeStream.format("parquet")
    writer = writer.option("path", str(scene.table.with_name(name)))
    checkpoint = scene.checkpoint.with_name(f"{name}-checkpoint")
    return scene.follow(writer.option("checkpointLocation", str(checkpoint)).start())

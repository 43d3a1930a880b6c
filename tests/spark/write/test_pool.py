"""Connections go from one micro-batch to the next, and no further than they are good for."""

from __future__ import annotations

from aqueduct_spark.write.pool import Pool
from tests.spark.plain_peer import Peer, listening
from tests.spark.write.sinking import Attempt, numbered, options
from tests.support.event_loop import eventually, in_loop, server_tls
from tests.support.ports import free_port


@in_loop
async def test_connections_go_from_batch_to_batch() -> None:
    peer, pool = Peer(), Pool()
    async with listening(peer, server_tls()):
        wanted = options(peer.url, streaming=True)
        for batch in range(4):
            # a worker serves one partition after another
            await Attempt(wanted, pool=pool, batch=batch, partition=batch % 2).run(
                [numbered(5, channels=2)]
            )
            assert pool.idle == 1
        assert len(peer.connections) == 1
        # the channels of a name stay open until its next batch begins
        ends = [heard.end for heard in peer.named("c0")]
        await eventually(lambda: [h.end for h in peer.named("c0")].count("Finished") == 2)
        assert ends.count("open") >= 2
        two = [Attempt(wanted, pool=pool, batch=9, partition=p) for p in (0, 1)]
        for attempt in two:
            await attempt.delivery.open()
        assert len(peer.connections) == 2
        assert pool.idle == 0
        for attempt in two:
            await attempt.run([numbered(5)])
        await Attempt(wanted, pool=pool, writer="another").run([numbered(1)])
        await eventually(lambda: len(peer.connections) == 3)
        await pool.close()
        await eventually(lambda: all(c.closed is not None for c in peer.connections))
        assert {c.closed.code for c in peer.connections if c.closed} == {0}


@in_loop
async def test_idle_connections_are_closed() -> None:
    peer, pool = Peer(), Pool(idle_seconds=0.02)
    async with listening(peer, server_tls()):
        await Attempt(options(peer.url, streaming=True), pool=pool).run([numbered(5)])
        await eventually(lambda: pool.idle == 0 and peer.connections[0].closed is not None)
        assert [c.closed.code for c in peer.connections if c.closed] == [0]
        await pool.close()


@in_loop
async def test_a_receiver_that_was_restarted_between_two_batches() -> None:
    pool, port = Pool(), free_port()
    wanted = options(f"aqueduct://127.0.0.1:{port}", streaming=True, ackTimeout="15s")
    before, after = Peer(), Peer()
    async with listening(before, server_tls(), port=port):
        await Attempt(wanted, pool=pool).run([numbered(5)])
        before.connections[0].abort("restart")
    async with listening(after, server_tls(), port=port):
        counts = await Attempt(wanted, pool=pool, batch=1).run([numbered(5)])
        assert counts.acked == 5
        await pool.close()
    assert after.values("c0") == [b"%d" % row for row in range(5)]

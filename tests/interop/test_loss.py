"""Two processes over real UDP with loss, reordering, duplication and delay between them."""

from __future__ import annotations

import asyncio

from tests.interop.scene import Channel, scene
from tests.support.proxy import Impairment
from tests.support.rules import rule

MODES = ("ordered", "unordered", "unreliable")
BAD = Impairment(loss=0.2, duplicate=0.01, reorder=0.25)
LARGE = 700
"""Bytes of a payload of which no two fit into one packet."""


@rule("AQ-SEND-1", "AQ-SEND-2", "AQ-SEND-3", "AQ-ACK-1", "AQ-ACK-6", "AQ-ACK-7", "AQ-LIFE-15")
def test_all_modes_are_exact_at_twenty_percent_loss() -> None:
    async def run() -> None:
        async with scene(seed=1, channels=3) as set_up:
            set_up.proxy.impairment = BAD
            async with set_up.sending(MODES, count=150, size=LARGE, pause=0.005) as sender:
                outcome = await set_up.outcome(sender)
            up, down = set_up.proxy.counts["up"], set_up.proxy.counts["down"]
            for count in (up, down):
                assert 0.1 < count.dropped / count.seen < 0.3
                assert count.held
            ordered, unordered, unreliable = (outcome.channels[mode] for mode in MODES)
            everything = list(range(150))
            assert [index for index, _, _ in ordered.received] == everything
            assert sorted(index for index, _, _ in unordered.received) == everything
            for channel in (ordered, unordered):
                assert channel.acked == {True: set(everything), False: set()}
                assert channel.nacked == {True: set(), False: set()}
            accounted(unreliable)
            assert 0 < len(unreliable.nacked[False]) <= up.dropped + unreliable.late
            assert (outcome.connections, outcome.lost) == (1, False)

    asyncio.run(run())


def accounted(channel: Channel) -> None:
    """Each message was acked or nacked, and those that were acked are those that came."""
    assert channel.end == "finished"
    assert len(channel.received) == len(set(channel.received)), "a message came twice"
    for reliable in (True, False):
        assert not channel.acked[reliable] & channel.nacked[reliable]
        assert set(channel.numbers(reliable)) == channel.acked[reliable]
    outcomes = (*channel.acked.values(), *channel.nacked.values())
    assert sum(map(len, outcomes)) == channel.sent
    assert channel.nacked_by_receiver == len(channel.nacked[False])


@rule("AQ-ACK-6", "AQ-ACK-10")
def test_unreliable_loss_is_exactly_what_the_network_dropped() -> None:
    """Only packets that hold one whole datagram message are dropped, so both can be counted:
    the engine's nacks are the proxy's packets, and what came after its deadline, which the
    receiver counts by itself."""

    async def run() -> None:
        async with (
            scene(seed=2, channels=1) as set_up,
            set_up.sending(["unreliable"], count=200, size=LARGE, pause=0.015) as sender,
        ):
            set_up.proxy.impairment = Impairment(
                loss=0.2,
                duplicate=0.01,
                reorder=0.25,
                delay=0.002,
                hold=0.01,
                only_above=LARGE,
            )
            outcome = await set_up.outcome(sender)
            dropped = set_up.proxy.counts["up"].dropped
            channel = outcome.channels["unreliable"]
            accounted(channel)
            assert channel.sent == 200
            assert set_up.proxy.counts["down"].dropped == 0
            assert dropped > 20
            assert len(channel.nacked[False]) == dropped + channel.late

    asyncio.run(run())


@rule("AQ-ACK-10", "AQ-ACK-11")
def test_a_network_that_drops_nothing_draws_no_nack() -> None:
    """Reordering and duplication alone lose no message and repeat none."""

    async def run() -> None:
        async with (
            scene(seed=3, channels=1) as set_up,
            set_up.sending(["unreliable"], count=500, size=60, pause=0.001) as sender,
        ):
            set_up.proxy.impairment = Impairment(duplicate=0.1, reorder=0.25)
            outcome = await set_up.outcome(sender)
            channel = outcome.channels["unreliable"]
            accounted(channel)
            assert channel.nacked[False] == set()
            assert sorted(channel.numbers(False)) == list(range(500))
            assert set_up.proxy.counts["up"].duplicated > 0

    asyncio.run(run())


def test_a_blackout_shorter_than_the_idle_timeout_ends_nothing() -> None:
    async def run() -> None:
        async with (
            scene(seed=4, channels=1, idle_timeout=8) as set_up,
            set_up.sending(
                ["ordered"], count=100, size=LARGE, pause=0.04, idle_timeout=8
            ) as sender,
        ):
            await asyncio.sleep(0.5)
            set_up.proxy.dark = True
            await asyncio.sleep(3)
            set_up.proxy.dark = False
            outcome = await set_up.outcome(sender)
            channel = outcome.channels["ordered"]
            assert set_up.proxy.counts["up"].dark > 0
            assert [index for index, _, _ in channel.received] == list(range(100))
            assert channel.acked[True] == set(range(100))
            assert (outcome.connections, outcome.lost) == (1, False)

    asyncio.run(run())

"""A model of the sink: task attempts against receivers in memory that store, ack and die anywhere.

    python -m tests.spark.delivery_model [--runs 10000] [--first 0]

A run is made of choices: how many addresses and destinations, where batches are cut, and step by
step what the receivers do. When the choices are used up everybody behaves well, so each batch is
written in the end. Then every row is stored once under its number and in order, the counts say so,
and no attempt has succeeded before. Time is virtual.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa

from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_spark.write import delivery, lane
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.destinations import Destination
from tests.spark.memory_receiver import MemoryChannel, MemoryConnection, MemoryNetwork
from tests.spark.sinking import Attempt, options
from tests.support.virtual_loop import run_virtually

FAILURES = ("CONNECTION_LOST", "ACK_TIMEOUT", "RECEIVER_CLOSED")
ATTEMPTS = 3
"""More than a batch needs when the choices are used up and all is well."""
KINDS = ("ordered", "unordered", "unreliable")


class Choices:
    """Bytes, one for each choice; 0, the harmless one, when they are used up."""

    def __init__(self, given: Sequence[int]) -> None:
        self._given = given
        self._used = 0

    @property
    def spent(self) -> bool:
        return self._used >= len(self._given)

    def below(self, count: int) -> int:
        self._used += 1
        return 0 if self._used > len(self._given) else self._given[self._used - 1] % count


class Killed(Exception):
    """Spark ends the attempt."""


class Adversary:
    """What receivers do, one step at a time. Step 0 is that they do what they should."""

    def __init__(self, network: MemoryNetwork, ports: int, choices: Choices) -> None:
        self._network = network
        self._ports = ports
        self._choices = choices
        network.dialled = self._dialled

    async def act(self) -> None:
        steps = (
            self._behave,
            self._deliver,
            self._ack,
            self._lose,
            self._die,
            self._stop_taking,
            self._go_down,
            self._complete,
        )
        while True:
            await asyncio.sleep((0.002, 0.002, 0.05, 1.0)[self._choices.below(4)])
            steps[self._choices.below(len(steps))]()

    def _behave(self) -> None:
        self._network.down.clear()
        for connection in self._network.live:
            connection.open_gate()
            connection.more_room(1 << 30)
        for channel in list(self._network.channels()):
            channel.deliver(1 << 30)
            channel.ack(0, 1 << 30)
            channel.complete()

    def _deliver(self) -> None:
        if channel := self._channel():
            channel.deliver(1 + self._choices.below(20))

    def _ack(self) -> None:
        """What is stored is acked in any order; unreliable messages have their outcomes in turn."""
        if not (channel := self._channel()):
            return
        if channel.reliable:
            first = self._choices.below(40)
            channel.ack(first, first + 1 + self._choices.below(20))
        else:
            first = channel.acked.stop
            channel.ack(first, first + self._choices.below(10))

    def _lose(self) -> None:
        channel = self._channel()
        if channel and not channel.reliable:
            channel.lose(1 + self._choices.below(4))

    def _die(self) -> None:
        if self._network.live:
            self._connection().die()

    def _stop_taking(self) -> None:
        if self._network.live:
            connection = self._connection()
            connection.room = self._choices.below(5)
            connection.shut = bool(self._choices.below(2))

    def _go_down(self) -> None:
        port = 1 + self._choices.below(self._ports)
        self._network.down.add(port)

    def _complete(self) -> None:
        if channel := self._channel():
            channel.complete()

    def _dialled(self, connection: MemoryConnection) -> None:
        connection.room = (1 << 30, 1 << 30, 7, 1)[self._choices.below(4)]
        if self._choices.below(16) == 15:
            connection.die()

    def _connection(self) -> MemoryConnection:
        live = self._network.live
        return live[self._choices.below(len(live))]

    def _channel(self) -> MemoryChannel | None:
        channels = list(self._network.channels())
        return channels[self._choices.below(len(channels))] if channels else None


class Run:
    """Some batches of one writer, each written until an attempt succeeds, and some once more."""

    def __init__(self, given: Sequence[int]) -> None:
        self._choices = choices = Choices(given)
        self._ports = 1 + choices.below(3)
        self._failover = bool(choices.below(2))
        self._streaming = bool(choices.below(2))
        self._max_open = 2 + choices.below(4)
        names = [f"c{n}" for n in range(1 + choices.below(7))]
        self._destinations = [Destination(name, KINDS[choices.below(3)]) for name in names]
        # else what one address stored and did not ack goes to another one too
        self._one_place = self._ports == 1 or not self._failover
        self.network = MemoryNetwork(deduplicates=not choices.below(2))
        self.failed = 0

    def __call__(self) -> None:
        with small_bounds():
            run_virtually(self._main())

    async def _main(self) -> None:
        acting = asyncio.ensure_future(Adversary(self.network, self._ports, self._choices).act())
        for batch in range(1 + self._choices.below(2)):
            rows = [
                self._destinations[self._choices.below(len(self._destinations))]
                for _ in range((3, 10, 60, 150)[self._choices.below(4)])
            ]
            attempts = 0
            for _ in range(1 + self._choices.below(2)):  # and the batch is done again
                counts, calm = None, 0
                while counts is None:
                    attempts += 1
                    calm += self._choices.spent
                    assert calm <= ATTEMPTS, "attempts fail while all is well"
                    counts = await self._attempt(batch, rows)
                self._check(batch, rows, counts, attempts)
        acting.cancel()
        await self.network.close()

    async def _attempt(self, batch: int, rows: Sequence[Destination]) -> SentCounts | None:
        urls = [f"aqueduct://127.0.0.1:{port}" for port in range(1, self._ports + 1)]
        wanted = options(
            *urls,
            streaming=self._streaming,
            maxInFlightBytes="1k",
            endpointPolicy="failover" if self._failover else "hash",
        )
        attempt = Attempt(wanted, pool=self.network, batch=batch, max_open=self._max_open)
        try:
            return await attempt.run(self._batches(batch, rows))
        except (Killed, ConnectFailed):
            pass
        except SinkFailed as failed:
            if failed.subclass not in FAILURES:
                raise
        self.failed += 1
        await asyncio.sleep(0.5)
        return None

    def _batches(self, batch: int, rows: Sequence[Destination]) -> Iterator[pa.RecordBatch]:
        dies = self._choices.below(8) == 7
        place = 0
        while place < len(rows):
            some = rows[place : place + (64, 1, 5, 17)[self._choices.below(4)]]
            yield pa.record_batch(
                {
                    "value": [payload(batch, rows, place + n) for n in range(len(some))],
                    "channel": [destination.channel for destination in some],
                    "reliability": [destination.reliability for destination in some],
                }
            )
            place += len(some)
            if dies and self._choices.below(2):
                raise Killed

    def _check(
        self, batch: int, rows: Sequence[Destination], counts: SentCounts, attempts: int
    ) -> None:
        given = Counter(rows)
        assert counts.sent == len(rows) == counts.acked + counts.nacked
        assert counts.nacked <= sum(n for d, n in given.items() if not d.reliable)
        for destination in given:
            wanted = [payload(batch, rows, n) for n, row in enumerate(rows) if row == destination]
            if destination.reliable:
                self._check_stored(batch, destination, wanted)
            else:
                self._check_unreliable(batch, wanted, attempts)
            if not self._streaming:
                self._check_finished(destination)

    def _check_stored(self, batch: int, destination: Destination, wanted: list[bytes]) -> None:
        start = (batch << 32) + ((destination.reliability == "unordered") << 31)
        places = []
        for address, store in self.network.stores.items():
            assert not store.changed, f"other content at {address}: {store.changed}"
            rows = [
                (number - start, row)
                for number, row in store.rows[("w/0", destination.channel)].items()
                if number - start in range(1 << 31)
            ]
            for number, row in rows:
                assert row == wanted[number], f"{row!r} is stored as row {number} of {destination}"
            if destination.reliability == "ordered" and self._one_place:
                assert rows == sorted(rows), f"{destination} is out of order at {address}"
            places.append({number for number, _ in rows})
        assert set().union(*places) == set(range(len(wanted))), f"{destination} lost rows"
        if self._one_place:
            assert sum(map(len, places)) == len(wanted), f"{destination} has rows twice"

    def _check_unreliable(self, batch: int, wanted: list[bytes], attempts: int) -> None:
        stored = Counter(row for store in self.network.stores.values() for row in store.unnumbered)
        for row in wanted:
            assert stored[row] <= attempts, f"{row!r} came {stored[row]} times"

    def _check_finished(self, destination: Destination) -> None:
        [*_, last] = [
            channel
            for channel in self.network.opened
            if (b"name", destination.channel.encode()) in channel.outlet.headers
        ]
        assert last.end == "finished", f"{destination} was not finished: {last.end}"


def payload(batch: int, rows: Sequence[Destination], place: int) -> bytes:
    destination = rows[place]
    number = rows[:place].count(destination)
    return f"{batch}/{destination.channel}/{number}/{place}".encode().ljust(60)


@contextmanager
def small_bounds() -> Iterator[None]:
    """So that every run passes them."""
    with patch.object(delivery, "ATTACH_MOST", 3), patch.object(lane, "MAX_FLIGHTS", 4):
        yield


def choices_of(seed: int) -> bytes:
    chance = random.Random(seed)
    return chance.randbytes(chance.choice((60, 200, 600)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # each lost connection is told
    failed = lost = 0
    for seed in range(args.first, args.first + args.runs):
        run = Run(choices_of(seed))
        try:
            run()
        except BaseException:
            print(f"seed {seed} fails", file=sys.stderr)
            raise
        failed += run.failed
        lost += sum(c.closed is not None and c.closed.code for c in run.network.connections)
    print(f"{args.runs} runs: rows conserved; {failed} attempts failed, {lost} connections lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())

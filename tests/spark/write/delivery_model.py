"""A model of the sink: task attempts against receivers in memory that store, ack and die anywhere.

    python -m tests.spark.write.delivery_model [--runs 10000] [--first 0]

A run is made of choices: how many addresses and destinations, where batches are cut, and step by
step what the receivers do. When the choices are used up everybody behaves well, so each batch is
written in the end. Then every row is stored once under its number and in order, the counts say so,
and no attempt has succeeded before. Where the first attempt of a batch had other rows and receivers
say what they have stored, no attempt succeeds whose rows were taken for those, but by saying that
they were not compared. Time is virtual.
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
from aqueduct_spark.formats.aqueduct.sink import attempt_connection
from aqueduct_spark.write.batches import Destination
from aqueduct_spark.write.sink import SentCounts
from tests.spark.write.memory_receiver import MemoryChannel, MemoryConnection, MemoryNetwork
from tests.spark.write.sinking import Attempt, options
from tests.support.virtual_loop import let_happen, run_virtually

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
            self._hang_up,
            self._die_acked,
        )
        while True:
            await let_happen((0.002, 0.002, 0.05, 1.0)[self._choices.below(4)])
            steps[self._choices.below(len(steps))]()

    def _behave(self) -> None:
        self._network.down.clear()
        for connection in self._network.live:
            connection.hangs_up = False
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

    def _hang_up(self) -> None:
        if self._network.live:
            self._connection().hangs_up = True

    def _die_acked(self) -> None:
        """When all is acked, before anything was asked."""
        if self._network.live:
            connection = self._connection()
            for channel in connection.live:
                channel.deliver(1 << 30)
                channel.ack(0, 1 << 30)
            connection.die()

    def _dialled(self, connection: MemoryConnection) -> None:
        connection.room = (1 << 30, 1 << 30, 7, 1)[self._choices.below(4)]
        match self._choices.below(16):
            case 15:
                connection.die()
            case 13 | 14:
                connection.hangs_up = True

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
        self._finish = bool(choices.below(2))
        self._max_open = 2 + choices.below(4)
        names = [f"c{n}" for n in range(1 + choices.below(7))]
        self._destinations = [Destination(name, KINDS[choices.below(3)]) for name in names]
        # else what one address stored and did not ack goes to another one too
        self._one_place = self._ports == 1 or not self._failover
        deduplicates = not choices.below(2)
        self._answers = deduplicates and not choices.below(2)
        self.network = MemoryNetwork(deduplicates=deduplicates, answers=self._answers)
        self.failed = 0
        self.judged = 0
        self.refused = False

    def __call__(self) -> int:
        """How often a batch came to an end, and its rows were found where they belong."""
        with small_bounds():
            run_virtually(self._main())
        return self.judged

    async def _main(self) -> None:
        acting = asyncio.ensure_future(Adversary(self.network, self._ports, self._choices).act())
        for batch in range(1 + self._choices.below(2)):
            rows = [
                self._destinations[self._choices.below(len(self._destinations))]
                for _ in range((3, 10, 60, 150)[self._choices.below(4)])
            ]
            for store in self.network.stores.values():
                store.changed.clear()
            attempts = 0
            if self._answers and self._choices.below(2):
                attempts += 1
                await self._attempt(batch, *self._others(rows))
                assert not self.refused, "the first attempt of a batch repeats nothing"
            for _ in range(1 + self._choices.below(2)):  # and the batch is done again
                counts, calm = None, 0
                while counts is None and not self.refused:
                    attempts += 1
                    calm += self._choices.spent
                    assert calm <= ATTEMPTS, "attempts fail while all is well"
                    changed = self._changed
                    counts = await self._attempt(batch, rows)
                others = self._holds_others(batch, rows)
                self.judged += 1
                if counts is None:
                    assert others, "the same rows are taken for other ones"
                    break
                if not others:
                    self._check(batch, rows, counts, attempts)
                    continue
                assert not (self._one_place and self._answers), "others are stored without a word"
                if self._changed > changed:
                    assert not self._one_place, "rows were taken for others without a word"
                    assert counts.unchecked, "rows were taken for others, and nothing tells it"
            if self.refused:
                break
        acting.cancel()
        await self.network.close()

    def _others(self, rows: Sequence[Destination]) -> tuple[list[Destination], bytes]:
        """The rows of an attempt that computes others: other payloads, more, fewer, elsewhere."""
        match self._choices.below(4):
            case 0:
                return list(rows), b"other"
            case 1:
                return [*rows, *rows], b""
            case 2:
                return list(rows[: len(rows) // 2]), b""
        return [*rows, Destination("more", "ordered")], b""

    @property
    def _changed(self) -> int:
        return sum(len(store.changed) for store in self.network.stores.values())

    def _holds_others(self, batch: int, rows: Sequence[Destination]) -> bool:
        """Whether other rows than these are stored under the numbers of the batch, anywhere."""
        wanted: dict[tuple[str, int], bytes] = {}
        for place, (name, kind, _) in enumerate(rows):
            number = rows[:place].count(rows[place])
            if kind != "unreliable":
                start = (batch << 32) + ((kind == "unordered") << 31)
                wanted[name, start + number] = payload(batch, rows, place)
        return any(
            wanted.get((channel, number)) != row
            for store in self.network.stores.values()
            for (_, channel), found in store.rows.items()
            for number, row in found.items()
            if number >> 32 == batch
        )

    async def _attempt(
        self, batch: int, rows: Sequence[Destination], mark: bytes = b""
    ) -> SentCounts | None:
        urls = [f"aqueduct://127.0.0.1:{port}" for port in range(1, self._ports + 1)]
        wanted = options(
            *urls,
            streaming=self._streaming,
            maxInFlightBytes="1k",
            endpointPolicy="failover" if self._failover else "hash",
            finish="true" if self._finish else "false",
        )
        attempt = Attempt(wanted, pool=self.network, batch=batch, max_open=self._max_open)
        try:
            return await attempt.run(self._batches(batch, rows, mark))
        except (Killed, ConnectFailed):
            pass
        except SinkFailed as failed:
            self.refused = failed.subclass == "NOT_REPEATABLE"
            if failed.subclass not in FAILURES and not (self.refused and self._answers):
                raise
        self.failed += 1
        await let_happen(0.5)
        return None

    def _batches(
        self, batch: int, rows: Sequence[Destination], mark: bytes
    ) -> Iterator[pa.RecordBatch]:
        dies = self._choices.below(8) == 7
        place = 0
        while place < len(rows):
            some = rows[place : place + (64, 1, 5, 17)[self._choices.below(4)]]
            yield pa.record_batch(
                {
                    "value": [mark + payload(batch, rows, place + n) for n in range(len(some))],
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
            if self._finish:
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
            if (b"name", destination.channel.encode()) in channel.state.headers
        ]
        assert last.end == "finished", f"{destination} was not finished: {last.end}"


def payload(batch: int, rows: Sequence[Destination], place: int) -> bytes:
    destination = rows[place]
    number = rows[:place].count(destination)
    return f"{batch}/{destination.channel}/{number}/{place}".encode().ljust(60)


@contextmanager
def small_bounds() -> Iterator[None]:
    """So that every run passes them."""
    with (
        patch.object(attempt_connection, "ATTACH_MOST", 3),
        patch.object(attempt_connection, "MAX_IN_FLIGHT", 4),
    ):
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

"""Producers that come back after anything, each with its own ledger: in a thread or a process.

    python -m tests.faults.producer --endpoint aqueduct://127.0.0.1:4433 --producer p \
        --ledger DIR --flow ordered:readings:500:100 --flow unreliable:load:50:200

Each flow is ``mode:name:messages a second:bytes``. Runs until SIGTERM; then everything is finished
and the ledger of each flow is complete. Exit code 0 only when every message has its outcome.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct import channel, connect
from aqueduct_core.aio.outcomes import Outcome
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import AqueductError
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from aqueduct_jobs.demo.ledger import LedgerFile
from tests.faults.ledger import DIGITS, Entry, payload
from tests.support.waiting import LONG

TICK = 0.02
LINK = LinkSettings(idle_timeout=1.0, handshake_timeout=2.0)
"""Notices soon that an intake is gone; on a busy machine also where it is not."""
PATIENT = LinkSettings(idle_timeout=30.0)
"""Where the connection has to stay."""
GIVE_UP = 180.0
LEDGER_SECONDS = 0.25


@dataclass(frozen=True)
class Flow:
    """A channel to fill: ``rate`` messages a second of ``size`` bytes, ``most`` in all."""

    mode: str
    name: str
    rate: float = 500.0
    size: int = DIGITS
    most: int | None = None

    @classmethod
    def parse(cls, text: str) -> Flow:
        mode, name, rate, size = text.split(":")
        return cls(mode, name, float(rate), int(size))


class Book:
    """What is known of one flow, with payload numbers."""

    def __init__(self, flow: Flow, producer: str) -> None:
        self.flow = flow
        self.producer = producer
        self.sent = 0
        self.acked = RangeSet()
        self.nacked = RangeSet()
        self.unknown = 0
        self.resent = 0
        self.lives = 0
        self.carrier: Producer | None = None

    @property
    def reconnects(self) -> int:
        """As of now, also while a sender waits for room and notes nothing."""
        return self.lives if self.carrier is None else self.carrier.statistics.reconnects

    def entry(self) -> Entry:
        return Entry(
            self.flow.name,
            self.flow.mode,
            self.producer,
            self.sent,
            tuple(self.acked),
            tuple(self.nacked),
            self.unknown,
            self.resent,
            self.reconnects,
        )


class Producing:
    """Fills its flows at their pace until ``stop``; a slow receiver makes it later, never less.

    ``start``: where the numbers of reliable channels begin, whatever the receiver has."""

    def __init__(
        self,
        endpoint: str,
        producer: str,
        flows: list[Flow],
        *,
        tls: ClientTls | None = None,
        token: str | None = None,
        settings: LinkSettings = LINK,
        ledger: Path | None = None,
        start: int | None = None,
    ) -> None:
        self._start = start
        self._endpoint = endpoint
        self._producer = producer
        self._tls = tls or ClientTls(insecure=True)
        self._token = token
        self._settings = settings
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.books = [
            Book(flow, producer + ("-u" if flow.mode == "unreliable" else "")) for flow in flows
        ]
        self._files = [
            LedgerFile(ledger / f"{book.producer}.{book.flow.name}.json", book.flow.name,
                       book.flow.mode, book.producer)
            for book in self.books
        ] if ledger else []  # fmt: skip

    def stop(self) -> None:
        """Send no more: finish what was sent."""
        self._stop.set()

    async def run(self) -> None:
        reliable = [book for book in self.books if book.flow.mode != "unreliable"]
        others = [book for book in self.books if book.flow.mode == "unreliable"]
        writing = asyncio.create_task(self._write())
        try:
            async with asyncio.TaskGroup() as group:
                if reliable:
                    group.create_task(self._reliably(reliable))
                for book in others:
                    group.create_task(self._unreliably(book))
        finally:
            writing.cancel()
            self._write_all()

    async def _reliably(self, books: list[Book]) -> None:
        async with Producer(
            self._endpoint,
            producer=self._producer,
            tls=self._tls,
            token=self._token,
            settings=self._settings,
            give_up_after=GIVE_UP,
            first_wait=0.05,
            longest_wait=1.0,
        ) as producer:
            async with asyncio.TaskGroup() as group:
                for book in books:
                    group.create_task(self._fill(producer, book))
            await producer.close()

    async def _fill(self, producer: Producer, book: Book) -> None:
        flow = book.flow
        sender = producer.channel(flow.name, flow.mode, start=self._start, repeats=True)
        book.carrier = producer

        def note() -> None:
            counts = sender.statistics
            book.acked = RangeSet(counts.acked_ranges)
            book.resent = counts.resent

        async for count in self._pace(book):
            for _ in range(count):
                assert await sender.send(payload(book.sent, flow.size)) == book.sent
                book.sent += 1
            note()
        await sender.finish()
        note()

    async def _unreliably(self, book: Book) -> None:
        """Without the reconnecting producer, so that the outcome of each message is known."""
        while not (self._stop.is_set() and book.sent):
            try:
                await self._unreliable_life(book)
                return
            except (Outcome, AqueductError):
                book.lives += 1
                await asyncio.sleep(0.2)

    async def _unreliable_life(self, book: Book) -> None:
        async with connect(
            self._endpoint,
            producer=book.producer,
            tls=self._tls,
            token=self._token,
            settings=self._settings,
            config=Config(),  # without flow control none is dropped for want of credit
        ) as connection:
            sender, receiver = channel("unreliable", name=book.flow.name)
            base = book.sent
            open_ = RangeSet()

            def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
                assert not reliable, "a message went as a reliable one"
                (book.acked if acked else book.nacked).add(base + first, base + stop)
                open_.remove(first, stop)

            sender.observe(settled, lambda: None)
            try:
                await connection.entrypoint.send(b"", attach=receiver)
                async for count in self._pace(book):
                    for _ in range(count):
                        number = await sender.send(payload(book.sent, book.flow.size))
                        # -1: its number comes with its turn on the link; none is left out
                        assert number in (-1, book.sent - base)
                        open_.add(book.sent - base, book.sent - base + 1)
                        book.sent += 1
                await sender.finish()
            finally:
                book.unknown += sum(stop - first for first, stop in open_)

    async def _pace(self, book: Book) -> Any:
        """How many messages are due, a few times a second."""
        credit = 0.0
        last = self._loop.time()
        while not self._stop.is_set() and (book.flow.most is None or book.sent < book.flow.most):
            now = self._loop.time()
            credit = min(credit + (now - last) * book.flow.rate, book.flow.rate / 5 + 1)
            last = now
            count = int(credit)
            credit -= count
            if book.flow.most is not None:
                count = min(count, book.flow.most - book.sent)
            yield count
            try:
                await asyncio.wait_for(self._stop.wait(), TICK)
            except TimeoutError:
                pass

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(LEDGER_SECONDS)
            self._write_all()

    def _write_all(self) -> None:
        for file, book in zip(self._files, self.books, strict=False):
            entry = book.entry()
            unreliable = entry.mode == "unreliable"
            file.write(
                entry.sent,
                entry.acked_count,
                entry.nacked_count,
                () if unreliable else entry.acked,
                entry.acked if unreliable else (),
                time.monotonic(),
                nacked_ranges=[list(pair) for pair in entry.nacked],
                unknown=entry.unknown,
                resent=entry.resent,
                reconnects=entry.reconnects,
            )


class ProducerThread:
    """A `Producing` in a thread of its own. As a context manager it is ended at the end."""

    def __init__(self, endpoint: str, producer: str, flows: list[Flow], **given: Any) -> None:
        self._arguments = (endpoint, producer, flows)
        self._given = given
        self._ready = threading.Event()
        self._producing: Producing | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ProducerThread:
        self._thread.start()
        assert self._ready.wait(LONG)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread.is_alive():
            assert self._loop is not None
            try:
                if exception[0] is None:
                    self._loop.call_soon_threadsafe(self._producing.stop)  # type: ignore[union-attr]
                else:
                    self._loop.call_soon_threadsafe(self._abort)
            except RuntimeError:
                pass
            self._thread.join(LONG)

    @property
    def flows(self) -> list[Flow]:
        return self._arguments[2]

    @property
    def entries(self) -> list[Entry]:
        assert self._producing is not None
        return [book.entry() for book in self._producing.books]

    @property
    def connected(self) -> bool:
        """Whether its reliable channels have a connection."""
        assert self._producing is not None
        carriers = [book.carrier for book in self._producing.books]
        return any(carrier is not None and carrier.connected for carrier in carriers)

    @property
    def over(self) -> bool:
        """Whether all flows have sent the most that they may."""
        return all(e.sent == flow.most for e, flow in zip(self.entries, self.flows, strict=True))

    @property
    def acked(self) -> int:
        return sum(entry.acked_count for entry in self.entries)

    @property
    def sent(self) -> int:
        return sum(entry.sent for entry in self.entries)

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def run_out(self, seconds: float = LONG) -> None:
        """Return when all flows have sent the most that they may, and are finished."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the producer did not end: {self.entries}"
        self.check()

    def finish(self, seconds: float = LONG) -> list[Entry]:
        """Send no more, return when every message has its outcome. Raises what it raised."""
        assert self._loop is not None
        assert self._producing is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._producing.stop)
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the producer did not end: {self.entries}"
        self.check()
        assert all(entry.settled for entry in self.entries), self.entries
        return self.entries

    def _abort(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        endpoint, producer, flows = self._arguments
        self._producing = Producing(endpoint, producer, flows, **self._given)
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._producing.run()


def entries_below(folder: Path) -> Iterator[Entry]:
    """The ledgers that producer processes wrote so far."""
    for path in sorted(folder.glob("*.json")):
        yield Entry.load(path)


async def _main(options: argparse.Namespace) -> int:
    flows = [Flow.parse(text) for text in options.flow]
    tls = ClientTls(ca_file=options.ca) if options.ca else None
    producing = Producing(options.endpoint, options.producer, flows, tls=tls, ledger=options.ledger)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, producing.stop)
    await producing.run()
    return 0 if all(book.entry().settled for book in producing.books) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--producer", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--flow", action="append", required=True)
    parser.add_argument("--ca", type=Path)
    return asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())

"""A good producer beside an attack: what an honest datagram costs, and how long each ack takes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType

from aqueduct import channel, connect
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.waiting import LONG, wait_until

PACE = 0.01
"""Seconds between two messages."""
PAYLOAD = bytes(200)
BULK = 3_000
"""Messages that it sends at once, to see what honest datagrams cost."""
PATIENT = LinkSettings(idle_timeout=LONG)
"""A busy machine may stand still for longer than the usual timeout; an attack must not, and the
wait for acks has a bound of its own."""


class GoodProducer:
    """In a thread of its own, from ``with`` until its end, by when all that it sent is settled.

    It sends `BULK` messages at once, and then one after the other at its `PACE`.

    ``cpu`` tells the seconds that the intake has used; ``datagram``: how many of them each datagram
    of the bulk took. ``waits``: when each message was sent and how long its ack took, in seconds of
    the monotonic clock.
    """

    def __init__(self, url: str, tls: ClientTls, cpu: Callable[[], float]) -> None:
        self.waits: list[tuple[float, float]] = []
        self.sent = self.nacked = 0
        self.datagram = 0.0
        self._cpu = cpu
        self.failure: BaseException | None = None
        self._url, self._tls = url, tls
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)

    @property
    def acked(self) -> int:
        return len(self.waits)

    def __enter__(self) -> GoodProducer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(2 * LONG)
        if error is None:
            self.check()
            assert not self._thread.is_alive()

    def check(self) -> None:
        """Raise what its thread has met: a connection that is lost, above all."""
        if self.failure is not None:
            raise self.failure

    def more_acks(self, count: int) -> None:
        mark = self.acked + count

        def past() -> bool:
            self.check()
            return self.acked >= mark

        wait_until(past, LONG, f"{count} more acks of the good producer")

    def between(self, begin: float, end: float) -> list[float]:
        """The waits of what was sent in that time, in their order of length."""
        return sorted(wait for at, wait in list(self.waits) if begin <= at < end)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.failure = error

    async def _run(self) -> None:
        times: list[float] = []

        def settled(reliable: bool, first: int, stop: int, acked: bool) -> None:
            now = time.monotonic()
            if acked:
                self.waits += [(times[n], now - times[n]) for n in range(first, stop)]
            else:
                self.nacked += stop - first

        async with connect(self._url, tls=self._tls, settings=PATIENT) as connection:
            sender, receiver = channel(name="good")
            sender.observe(settled, lambda: None)
            await connection.entrypoint.send(b"", attach=receiver)

            async def send(count: int) -> None:
                times.extend([time.monotonic()] * count)
                self.sent += count
                await sender.send_many([PAYLOAD] * count)

            await send(1)
            await sender.flush()
            datagrams, used = connection.statistics.datagrams_sent, self._cpu()
            await send(BULK)
            await sender.flush()
            used = self._cpu() - used
            self.datagram = used / (connection.statistics.datagrams_sent - datagrams)
            while not self._over.is_set():
                await send(1)
                await asyncio.sleep(PACE)
            await asyncio.wait_for(sender.finish(), LONG)
            assert connection.closed is None

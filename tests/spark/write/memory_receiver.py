"""A receiver in memory, behind the sink's own channels: it stores, acks and dies as it is told.

What it stores outlives its connections, as the spool of an intake does. The halves that the sink
holds are the real ones; in place of the network, each step is a call of the test.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from itertools import repeat
from typing import Any

from aqueduct_core.aio.half import CarriedHalf
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.local_channel import LocalChannel
from aqueduct_core.aio.outcomes import ConnectionLost, ReceiverClosed
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.config import Mode
from aqueduct_core.aqueduct.conventions.dedupe import Deduplicator, channel_key
from aqueduct_core.aqueduct.conventions.dedupe.numbering import space
from aqueduct_core.aqueduct.conventions.dedupe.questions import (
    Answer,
    KnownNumbers,
    Question,
    question_header,
)
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.engine.checksum import Content, of_payloads
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.transport.awaiting import Signal
from aqueduct_spark.formats.aqueduct.sink.connection import AqueductConnection, ConnectionKey
from aqueduct_spark.write.pool import Pool


class Store:
    """What receivers have stored: rows by producer and channel name in the order of storing."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[int, bytes]] = defaultdict(dict)
        self.unnumbered: list[bytes] = []
        self.changed: list[tuple[str, int]] = []
        """Numbers that came again with other content."""
        self._deduplicator = Deduplicator()

    def take(
        self, connection: Headers, channel: Headers, number: int | None, payload: bytes
    ) -> tuple[str, str, int] | None:
        """A message arrived; ``number`` None: an unreliable one, which has no number that stays.
        Returns the sequence, as questions name it, of which it is a repeat."""
        key = channel_key(connection, channel)
        if key is None or number is None:
            self.unnumbered.append(payload)
            return None
        rows, logical = self.rows[(key.producer, key.channel)], key.start + number
        if self._deduplicator.is_new(key, number):
            rows[logical] = payload
            return None
        if rows.get(logical) != payload:
            self.changed.append((key.channel, logical))
        return key.producer, key.channel, space(key.start)[0]

    def content(self, producer: str, channel: str, first: int, stop: int) -> Content | None:
        """Of the rows that are stored under these numbers; None where there are none."""
        total = Content()
        for number, row in self.rows.get((producer, channel), {}).items():
            if first <= number < stop:
                total = total.plus(of_payloads([row], number))
        return total if total.messages else None


class MemoryChannel:
    """The networked end of one channel of the sink: what is under way, stored and acked."""

    def __init__(self, connection: MemoryConnection, state: SendState) -> None:
        self.connection = connection
        self.state = state
        self.under_way: deque[tuple[int, bytes, Headers]] = deque()
        self.stored = RangeSet()
        self.acked = RangeSet()
        self.finishing = False
        self.end = "open"

    @property
    def reliable(self) -> bool:
        return self.state.mode is not Mode.UNRELIABLE

    # as the sink of a sender

    def offer(self, payload: bytes, headers: Headers, carried: Sequence[CarriedHalf]) -> int | None:
        return None if self._full(1) else self._sent([payload], HeaderColumn.of([headers]))

    def offer_many(
        self, payloads: Sequence[bytes], start: int, headers: HeaderColumn | None = None
    ) -> tuple[int, int]:
        count = min(self.connection.room, len(payloads) - start)
        if self._full(count):
            return 0, 0
        own = None if headers is None else headers.part(start, start + count)
        return self._sent(payloads[start : start + count], own), count

    def finish(self) -> None:
        self.finishing = True

    def cancel(self) -> None:
        self.end = "cancelled"

    # what the receiver does

    def deliver(self, count: int) -> None:
        """Store the next messages that are under way."""
        for _ in range(min(count, len(self.under_way))):
            number, payload, _ = self.under_way.popleft()
            repeated = self.connection.store.take(
                self.connection.own_headers,
                self.state.headers,
                number if self.reliable else None,
                payload,
            )
            if repeated is not None:
                self.connection.repeated[repeated] += 1
            self.stored.add(number, number + 1)

    def lose(self, count: int) -> None:
        """Unreliable messages that never arrive."""
        assert not self.reliable
        for _ in range(min(count, len(self.under_way))):
            self.under_way.popleft()

    def ack(self, first: int, stop: int) -> None:
        """Ack what is stored of these numbers; on an unreliable channel nack what was lost."""
        stop = min(stop, self.state.deliveries.space(self.reliable).next - len(self.under_way))
        for low, high in self.stored.within(first, stop):
            self.acked.add(low, high)
            self.state.settled(self.reliable, low, high, True)
        if not self.reliable:
            for low, high in self.stored.missing(first, stop):
                self.acked.add(low, high)
                self.state.settled(False, low, high, False)

    def close(self) -> None:
        """The receiver wants no more: what is not acked is nacked."""
        self.end = "closed"
        space = self.state.deliveries.space(self.reliable)
        for low, high in space.known.missing(0, space.next):
            self.state.settled(self.reliable, low, high, False)
        self.state.ended(ReceiverClosed(self.state.label))

    def complete(self) -> None:
        """Close in good order after the finish, where every message is acked."""
        space = self.state.deliveries.space(self.reliable)
        if self.finishing and self.end == "open" and space.open == 0:
            self.end = "finished"
            self.state.ended(None)

    def _full(self, count: int) -> bool:
        return count > self.connection.room or self.connection.room == 0

    def _sent(self, payloads: Sequence[bytes], headers: HeaderColumn | None) -> int:
        first = self.state.deliveries.sent(self.reliable, None, len(payloads))
        self.connection.room -= len(payloads)
        each = repeat(()) if headers is None else headers
        for number, (payload, own) in enumerate(zip(payloads, each, strict=False), first):
            self.under_way.append((number, payload, own))
        return first


class MemoryConnection:
    """One connection, as far as the sink looks at it. ``room`` is how many messages it takes."""

    def __init__(self, store: Store, writer: str, headers: Headers) -> None:
        self.store = store
        self.headers = headers
        self.own_headers: Headers = ((b"producer", writer.encode()),)
        self.closed: Closed | None = None
        self.entrypoint = self
        self.room = 1 << 40
        self.gate = Signal()
        self.shut = False
        """Entrypoint messages wait at the gate."""
        self.repeated: Counter[tuple[str, str, int]] = Counter()
        self.asked = 0
        self.hangs_up = False
        """It is lost when it is asked what is stored, before the answer is out."""
        self.channels: list[MemoryChannel] = []
        self.opened: Callable[[MemoryChannel], None] = lambda _: None

    @property
    def bytes_delivered(self) -> int:
        """There is no path: what is offered is under way at once."""
        return 0

    @property
    def live(self) -> list[MemoryChannel]:
        return [c for c in self.channels if c.end == "open" and not c.state.done]

    async def send(
        self,
        payload: bytes,
        *,
        headers: Headers = (),
        attach: Sequence[Receiver] | Sender = (),
    ) -> int:
        """The entrypoint message that carries channels, or asks what is stored."""
        while self.shut and self.closed is None:
            await self.gate.wait()
        if isinstance(attach, Sender):
            assert question_header() in headers
            answer = self._answer(Question.from_payload(payload))
            if self.hangs_up:
                self.die()
        if self.closed is not None:
            raise self._lost("the entrypoint")
        if isinstance(attach, Sender):
            return await attach.send(answer.to_payload())
        for receiver in attach:
            inlet = receiver._present()
            assert isinstance(inlet.source, LocalChannel)
            state = inlet.source.sender
            receiver._leave()
            opened = MemoryChannel(self, state)
            state.channel, state.sink = len(self.channels) + 1, opened
            self.channels.append(opened)
            self.opened(opened)
        return 0

    def _answer(self, question: Question) -> Answer:
        self.asked += 1
        [(_, writer)] = self.own_headers
        producer = f"{writer.decode()}/{question.partition}"
        known = [
            KnownNumbers(
                self.store.content(producer, asked.channel, asked.first, asked.stop),
                self.repeated.pop((producer, asked.channel, asked.first), 0),
            )
            for asked in question.channels
        ]
        if question.among is None:
            return Answer(known)
        return Answer(
            known,
            sum(
                sender == producer
                and self.store.content(producer, channel, *question.among) is not None
                for sender, channel in self.store.rows
            ),
        )

    def more_room(self, count: int) -> None:
        self.room += count
        for channel in self.live:
            channel.state.notify()

    def open_gate(self) -> None:
        self.shut = False
        self.gate.fire()

    def die(self) -> None:
        """The connection is lost: what is under way never arrives, what is stored stays."""
        self._end(Closed(1, "killed", False))

    async def close(self, drain_timeout: float) -> None:
        self._end(Closed(0, "closed", False))

    def _end(self, closed: Closed) -> None:
        if self.closed is not None:
            return
        self.closed = closed
        for channel in self.channels:
            channel.under_way.clear()
            channel.state.ended(self._lost(channel.state.label))
        self.gate.fire()

    def _lost(self, label: str) -> ConnectionLost:
        assert self.closed is not None
        return ConnectionLost(label, *self.closed)


class MemoryNetwork(Pool):
    """The pool of a worker whose lines lead to receivers in memory, one store for each address.

    ``down`` holds the ports where nobody listens; ``dialled`` is told of each new connection.
    ``answers``: they say what they have stored.
    ``opened`` are all channels in the order in which they came.
    """

    def __init__(self, *, deduplicates: bool = True, answers: bool = False) -> None:
        super().__init__()
        self.stores: dict[HostPort, Store] = defaultdict(Store)
        self.connections: list[MemoryConnection] = []
        self.opened: list[MemoryChannel] = []
        self.down: set[int] = set()
        self.dialled: Callable[[MemoryConnection], None] = lambda _: None
        self._headers: Headers = ((b"deduplicates", b"sequence"),) if deduplicates else ()
        if answers:
            self._headers += (question_header(),)

    @property
    def live(self) -> list[MemoryConnection]:
        return [c for c in self.connections if c.closed is None]

    def channels(self) -> Iterator[MemoryChannel]:
        for connection in self.live:
            yield from connection.live

    async def lease(self, key: Hashable, dial: Callable[[], Awaitable[Any]]) -> Any:
        assert isinstance(key, ConnectionKey)

        async def fresh() -> AqueductConnection:
            await asyncio.sleep(0.001)
            if key.address.port in self.down:
                raise ConnectFailed("REFUSED", f"{key.address} refused", "Start it")
            connection = MemoryConnection(self.stores[key.address], key.writer, self._headers)
            self.connections.append(connection)
            connection.opened = self.opened.append
            self.dialled(connection)
            return AqueductConnection(key.address, connection)  # type: ignore[arg-type]

        return await super().lease(key, fresh)

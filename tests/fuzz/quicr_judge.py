"""Watches one engine of QUICR from outside: are its actions and events well formed?

Actions: streams are opened in order and by the client alone, nothing is written behind an end, what
is written are whole messages, datagrams fit and have rising tokens, credit is given for bytes that
came and not twice, and a close is the last action. Events: those of a transaction come between its
beginning and its end, which is told once; fragments of a stream are in order; the link's end is the
last of all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aqueduct_core.engine.actions import (
    Action,
    Admit,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import DatagramLimit, Input, LinkLost, LinkReady, StreamBytes
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    Fragments,
    Posted,
    Pressure,
    QuicrEvent,
    Ready,
    Requested,
    Subscribed,
    TransactionEnded,
)
from aqueduct_core.quicr.faults import INTERNAL_ERROR
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.wire import datagrams
from aqueduct_core.quicr.wire.codec import MessageReader

STEP = 4
"""Between the numbers of streams of one kind."""


class QuicrJudge:
    """Stands between an engine and its driver, who sees the same verbs."""

    def __init__(self, *, client: bool, config: QuicrConfig) -> None:
        self.engine = QuicrEngine(client=client, config=config)
        self.begun: set[int] = set()
        """Transactions that were begun, by either side."""
        self.over: set[int] = set()
        self.closed = False
        self._client = client
        self._opened: list[int] = []
        self._ended_here: set[int] = set()
        self._readers: dict[int, MessageReader] = {}
        self._received: dict[int, int] = defaultdict(int)
        self._credited: dict[int, int] = defaultdict(int)
        self._to_consume: dict[int, int] = defaultdict(int)
        self._at: dict[int, tuple[Position, int]] = {}
        self._token = 0
        self._admitted = False
        self._max_datagram = 0
        self._link_closed = False

    def handle(self, input: Input, now: float) -> None:
        match input:
            case StreamBytes(stream, data, _) if self.engine.closed is None:
                self._received[stream] += len(data)
            case LinkReady(size, _, _) | DatagramLimit(size):
                self._max_datagram = size
        self.engine.handle(input, now)

    def collect(self) -> list[QuicrEvent]:
        """The actions are looked at, the events too, and given."""
        for action in self.engine.actions():
            self._act(action)
        events = self.engine.events()
        for event in events:
            self._hear(event)
        assert (self.engine.closed is not None) == self.closed, "the end is told, and only then"
        if self.closed:
            assert self.engine.wake_at is None
            assert not self.engine.actions()
            assert not self.engine.events()
        assert self.engine.footprint.size >= self.engine.footprint.waiting >= 0
        return events

    def consume(self, stream: int, size: int, now: float) -> None:
        self._to_consume[stream] += size
        self.engine.consumed(stream, size, now)

    def finish(self, unconsumed: dict[int, int]) -> None:
        """Every byte that came was credited, waits for the end of its message, or is the
        application's; those of the last two kinds may be credited in advance."""
        if self.closed:
            return
        engine = self.engine
        waiting = {stream: each.pending for stream, each in engine._opening.items()}
        waiting |= {stream: each.reader.pending for stream, each in engine._transactions.items()}
        assert engine._pending == sum(waiting.values())
        credits = engine._context.credit._streams
        for stream, received in self._received.items():
            known = self._credited[stream] + waiting.get(stream, 0) + unconsumed.get(stream, 0)
            if stream in credits:
                known -= credits[stream].advanced  # of what waits, or is to be consumed
            assert known == received, f"stream {stream}: {received} bytes came, {known} are known"

    # actions

    def _act(self, action: Action) -> None:
        assert not self._link_closed, f"{action} behind the close"
        match action:
            case WriteStream(stream, data, end):
                self._write(stream, data, end)
            case ResetStream(stream):
                assert not self._client, "only a post is broken off so"
                assert stream not in self._ended_here, "a reset behind its end"
                self._ended_here.add(stream)
            case SendDatagram(data, token):
                assert token > self._token
                self._token = token
                datagrams.decode(data)
            case Consumed(stream, count):
                assert count > 0
                self._credited[stream] += count
                assert self._credited[stream] <= self._received[stream], "too much credit"
            case Admit():
                assert not self._client
                assert not self._admitted
                self._admitted = True
            case CloseLink(code, reason, origin):
                assert (origin, code) == (CloseOrigin.TRANSPORT, INTERNAL_ERROR) or not reason
                self._link_closed = True
            case _:
                raise AssertionError(f"{action} of an engine that does no such thing")

    def _write(self, stream: int, data: bytes, end: bool) -> None:
        assert data or end, "an action that does nothing"
        assert stream not in self._ended_here, "writes behind its end"
        if stream not in self._readers:
            if self._client:
                assert stream == STEP * len(self._opened), "streams are opened in order"
                self._opened.append(stream)
            else:
                assert stream in self._received, "a server opens streams"
            self._readers[stream] = MessageReader(max_url=1 << 14)
        reader = self._readers[stream]
        reader.feed(data)
        reader.read()
        assert not reader.pending, "part of a message"
        if end:
            self._ended_here.add(stream)

    # events

    def _hear(self, event: QuicrEvent) -> None:
        assert not self.closed, f"{event} behind the end"
        match event:
            case LinkLost():
                self.closed = True
                assert self.begun == self.over, "transactions that did not end"
            case Ready() | Pressure():
                pass
            case Requested(stream) | Posted(stream) | Subscribed(stream):
                assert not self._client
                assert stream not in self.begun
                self.begun.add(stream)
            case _:
                self._of_transaction(event)

    def _of_transaction(self, event: Any) -> None:
        stream = event.stream
        assert stream in self.begun, f"{event} of nothing"
        assert stream not in self.over, f"{event} behind its end"
        if isinstance(event, TransactionEnded):
            self.over.add(stream)
        elif isinstance(event, Fragments):
            assert event.fragments
            if not event.size:
                return  # in datagrams
            assert event.size >= sum(len(each.data) for each in event.fragments)
            for each in event.fragments:
                self._in_order(stream, each.position, each.offset)
                following = (each.position.following, 0)
                self._at[stream] = following if each.last else (each.position, each.stop)

    def _in_order(self, stream: int, position: Position, offset: int) -> None:
        if stream in self._at:
            expected = self._at[stream]
            next_group = (Position(expected[0].group + 1, 0), 0)
            allowed = [expected] if expected[1] else [expected, next_group]
            assert (position, offset) in allowed, "a gap on a stream"
        else:
            assert not offset

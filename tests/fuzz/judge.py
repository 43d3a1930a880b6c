"""Watches one engine from outside: are its actions and events well formed?

Actions: streams are numbered without gaps, nothing is written behind an end or a reset, credit is
given for bytes that came, every byte written is read by the reference decoder as frames that this
side may send, and a close is the last order, with a defined code that is not INTERNAL. Events: runs
add up, a half ends once and has nothing to tell afterwards, and Closed comes last.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED, CODE_REJECTED
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import (
    Closed,
    Delivered,
    Dropped,
    Ended,
    Event,
    Idle,
    Nacked,
    Numbered,
    Opened,
    Rerouted,
    Writable,
)
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.actions import (
    Action,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    StopStream,
    WriteStream,
)
from aqueduct_core.engine.inputs import Input, StreamBytes
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support import reference_decoder

ENDS = {*Code, CODE_REJECTED, CODE_ABORTED} - {Code.INTERNAL}
"""Close codes that may come up: those of the protocol, and those of the application."""


class Judge:
    """Stands between an engine and its driver, who sees the same verbs (``Engine``)."""

    def __init__(self, engine: AqueductEngine) -> None:
        self.engine = engine
        self.opened: list[int] = []
        """Streams of the engine, in the order in which it first named them."""
        self._received: dict[int, int] = defaultdict(int)
        self._credited: dict[int, int] = defaultdict(int)
        self._written: dict[int, bytearray] = defaultdict(bytearray)
        self._complete: dict[int, bool] = {}
        self._link_closed = False
        self._ended: set[int] = set()
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def handle(self, input: Input, now: float) -> None:
        if isinstance(input, StreamBytes) and self.engine.closed is None:
            self._received[input.stream_id] += len(input.data)
        self.engine.handle(input, now)

    def actions(self) -> list[Action]:
        actions = self.engine.actions()
        for action in actions:
            self._act(action)
        if not self._link_closed:
            # within one burst the urgent streams leave first; none is left out
            own = range(2 | self.engine.side, 4 * len(self.opened), 4)
            assert sorted(self.opened) == list(own), "a gap in the numbers of streams"
        return actions

    def events(self) -> list[Event]:
        events = self.engine.events()
        for item in events:
            self._events(item)
        closed = self.engine.closed
        assert (closed is not None) == self._closed, "Closed is told at once, and only then"
        if closed is None:
            self._bounds()
        else:
            assert closed.code != Code.INTERNAL, "an internal error"
        return events

    def _bounds(self) -> None:
        config, statistics = self.engine.config, self.engine.statistics
        assert statistics.open_channels <= config.max_channels
        assert 0 <= statistics.queued_bytes <= config.max_connection_queue_bytes
        wake = self.engine.wake_at
        assert wake is None or wake >= 0

    # --- actions -------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        assert not self._link_closed, f"{action} behind the close"
        match action:
            case WriteStream(stream_id, data, end):
                self._write(stream_id, data, end)
            case ResetStream(stream_id, code):
                self._open(stream_id)
                assert 0 <= code < 1 << 62
                self._complete[stream_id] = True
            case StopStream():
                pass
            case SendDatagram(data, token):
                assert 0 < len(data) <= 1 << 16
                assert token >= 0
                self._read(data, datagram=True, ended=True)
            case Consumed(stream_id, count):
                self._credited[stream_id] += count
                assert count > 0
                assert self._credited[stream_id] <= self._received[stream_id], "too much credit"
            case CloseLink(code, reason):
                assert code in ENDS, f"closes with {code}: {reason}"
                self._link_closed = True

    def _open(self, stream_id: int) -> None:
        if stream_id not in self._complete:
            assert stream_id & 3 == 2 | self.engine.side
            self.opened.append(stream_id)
            self._complete[stream_id] = False

    def _write(self, stream_id: int, data: bytes, end: bool) -> None:
        self._open(stream_id)
        assert not self._complete[stream_id], "writes behind the end of a stream"
        assert data or end, "an order to do nothing"
        self._complete[stream_id] = end
        self._written[stream_id] += data
        if end:
            self._read(bytes(self._written[stream_id]), datagram=False, ended=True)

    def finish(self) -> None:
        """The streams that are still open hold whole frames too."""
        for stream_id, complete in self._complete.items():
            if not complete:
                self._read(bytes(self._written[stream_id]), datagram=False, ended=False)

    def _read(self, data: bytes, *, datagram: bool, ended: bool) -> None:
        reading = reference_decoder.read(
            data, sender=self.engine.side, datagram=datagram, version_required=False, ended=ended
        )  # fmt: skip
        assert reading.code is None, f"sends what a peer refuses with {reading.code}: {data!r}"
        assert reading.parsed == len(data), f"sends part of a frame: {data!r}"

    # --- events ---------------------------------------------------------------------------

    def _events(self, event: Event) -> None:
        assert not self._closed, f"{event} behind Closed"
        match event:
            case MessageBatch():
                self._batch(event)
            case Delivered(channel, _, first, stop, _):
                assert channel not in self._ended, "an outcome behind the end"
                assert 0 <= first < stop
            case Nacked(channel, first, stop):
                assert channel not in self._ended, "a nack behind the end"
                assert 0 <= first < stop
            case Numbered(channel, _, first, stop, attached):
                assert channel not in self._ended, "a number behind the end"
                assert 0 <= first < stop
                assert not attached or stop == first + 1
            case Dropped(channel, messages):
                assert channel not in self._ended
                assert messages > 0
            case Rerouted() | Writable() | Idle():
                assert event.channel not in self._ended
            case Ended(channel, _, counts):
                assert channel not in self._ended, "ends twice"
                self._ended.add(channel)
                assert all(count >= 0 for count in counts)
            case Closed(code, _, by_peer):
                assert by_peer or code in ENDS
                self._closed = True
            case Opened(headers):
                assert set(headers) <= set(self.engine.peer_headers or ())

    def _batch(self, batch: MessageBatch) -> None:
        offsets = batch.offsets.tolist()
        assert batch.channel not in self._ended, "a run behind the end"
        assert batch.count >= 1
        assert batch.first >= 0
        assert len(offsets) == batch.count + 1
        assert offsets[0] == 0
        assert offsets[-1] == len(batch.payload)
        assert offsets == sorted(offsets)
        assert batch.size >= len(batch.payload) + 5 * batch.count
        assert {*batch.headers, *batch.attachments} <= set(range(batch.count))

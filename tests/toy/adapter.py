"""The toy, as an intake knows it: its sessions, its rows, its kinds of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.adapter import Adapter
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.sessions.frontend import Accepted, AcceptSession
from aqueduct_core.intake.sessions.remote import MakeRemote
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.batches import BatchSlice, ChannelSource, ChannelTally
from aqueduct_core.intake.storage.event_log import (
    CONNECTED,
    DISCONNECTED,
    FINISHED,
    OPENED,
    EventCounts,
    EventSchema,
    LoggedEvent,
)
from aqueduct_core.intake.storage.pending import PendingBatch, PendingEvent
from aqueduct_core.intake.storage.rows import (
    RowFormat,
    number_array,
    payload_array,
    run_of,
    run_of_each_row,
    runs_of_source,
)
from aqueduct_core.transport.settings import LinkSettings
from tests.toy.engine import ALPN, MALFORMED, TopicFinished, TopicOpened, Toy, ToyEvent

TIMESTAMP = pa.timestamp("us", tz="UTC")
TOPIC = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("reading", pa.bool_()),
        pa.field("received", TIMESTAMP),
        pa.field("connection", pa.string()),
    ]
)
COLUMNS = (
    pa.field("payload", pa.binary()),
    pa.field("number", pa.int64()),
    pa.field("of", pa.run_end_encoded(pa.int32(), TOPIC)),
)
ROWS = pa.schema(
    [
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("number", pa.int64()),
        ("reading", pa.bool_()),
        ("received", TIMESTAMP),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
MESSAGES = "messages"


class ToyRows(RowFormat):
    def __init__(self) -> None:
        super().__init__(COLUMNS, EventSchema((), {MESSAGES: None}))

    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        firsts, ends = runs_of_source(slices)
        topics = [
            (each.source.channel, not each.batch.reliable, each.timestamp, each.source.connection)
            for each in firsts
        ]
        columns = zip(*topics, strict=True)
        values = pa.StructArray.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, TOPIC, strict=True)],
            fields=list(TOPIC),
        )
        of = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)
        return [payload_array(slices), number_array(slices), of]

    def received(self, batch: pa.RecordBatch, row: int) -> int:
        of = batch.column("of")
        return int(of.values.field("received")[run_of(of, row)].value)

    def expand(
        self,
        batch: pa.RecordBatch,
        partition: int,
        first_offset: int,
        include_headers: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        count = batch.num_rows
        of = batch.column("of")
        topic = of.values.take(run_of_each_row(of))
        columns = {
            "value": batch.column("payload"),
            "number": batch.column("number"),
            "partition": pa.array(np.full(count, partition, np.int32)),
            "offset": pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64)),
        }
        return pa.RecordBatch.from_arrays(
            [columns[f.name] if f.name in columns else topic.field(f.name) for f in ROWS],
            schema=ROWS,
        )


class ToySession(Session[Toy]):
    """Stores topics as channels: there is no producer but the connection."""

    def __init__(self, peer: str, engine: Toy, context: SessionContext) -> None:
        super().__init__(peer, engine, context)
        self._topics: dict[int, tuple[ChannelSource, ChannelTally]] = {}
        self._record(CONNECTED)

    @property
    def channels(self) -> int:
        return len(self._topics)

    def is_open(self, channel: int) -> bool:
        return channel in self._topics

    def handle(self, events: list[ToyEvent]) -> None:
        for event in events:
            match event:
                case TopicOpened(channel, name):
                    source = ChannelSource(name, self.id, self.id, channel)
                    self._topics[channel] = source, ChannelTally()
                    self._record(OPENED, source)
                case MessageBatch():
                    source, tally = self._topics[event.channel]
                    now = self._context.wall_microseconds()
                    pending = PendingBatch(self, event, source, False, now, tally=tally)
                    self._context.groups.add(pending)
                case TopicFinished(channel, messages):
                    self._record(FINISHED, self._topics[channel][0], {MESSAGES: messages})
                case LinkLost():
                    self._topics.clear()
                    self._record(DISCONNECTED)
                    self._context.note_end(self, str(event.reason), admitted=True)
                    self._context.ended(self)

    def recorded(self, channels: list[int]) -> None:
        super().recorded(channels)
        for channel in channels:
            self._topics.pop(channel, None)

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        raise AssertionError("topics have no logical numbers")

    def _record(
        self, kind: str, source: ChannelSource | None = None, counts: EventCounts | None = None
    ) -> None:
        event = LoggedEvent(
            kind,
            self._context.wall_microseconds(),
            self.id,
            channel=source and source.channel,
            channel_id=source and source.channel_id,
            counts=counts,
        )
        confirms = kind == FINISHED
        tally = self._topics[source.channel_id][1] if source is not None and confirms else None
        self._context.groups.record(
            PendingEvent(self, event, tally, confirms, source=source if confirms else None)
        )


class ToyAdapter(Adapter[IntakeSettings]):
    name = "toy"
    alpn = ALPN
    settings = IntakeSettings
    rows: RowFormat = ToyRows()
    no_error = 0
    internal_error = MALFORMED + 1
    has_tokens = False

    def link(self, settings: IntakeSettings) -> LinkSettings:
        return LinkSettings(max_streams_uni=1, max_streams_bidi=100)

    def ack_delay(self, settings: IntakeSettings) -> float:
        return 0.02

    def accepts(
        self, settings: IntakeSettings, refusal: Callable[[str | None], str | None]
    ) -> AcceptSession:
        if settings.auth.required:
            raise InvalidOption("CONFLICT", "a toy has no tokens", "Leave authentication out")

        def accept(peer: str, context: SessionContext, now: float) -> Accepted:
            engine = Toy(client=False)
            return Accepted(engine, ToySession(peer, engine, context))

        return accept

    def dials(self, settings: IntakeSettings) -> MakeRemote:
        raise InvalidOption("CONFLICT", "a toy dials nobody", "Give it listen")


ADAPTER = ToyAdapter()

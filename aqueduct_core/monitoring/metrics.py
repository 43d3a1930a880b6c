"""The metrics of an intake, each defined once: name, kind, text, how it follows from the status.

No label has a value that a producer chooses, and each has a bound: how many series there are does
not depend on who connects. The page `docs/monitoring.md` is made from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from aqueduct_core.flight.activity import ActivityStatus, CursorLag, Distribution, SpoolUse
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.monitoring.health import reasons_against

PREFIX = "aqueduct_"

MOST_CURSORS = 64
"""Cursors with a series of their own, those that are farthest behind."""

Sample: TypeAlias = tuple[tuple[str, ...], float]
Samples: TypeAlias = Callable[[IntakeStatus], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class IntakeMetric:
    """One metric. ``samples`` gives label values and a number, or of a histogram ``durations``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    samples: Samples = lambda status: ()
    labels: tuple[str, ...] = ()
    durations: Callable[[ActivityStatus], Distribution] = lambda activity: Distribution()

    @property
    def series(self) -> str:
        """As it is named where it is asked for."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")

    def family(self, status: IntakeStatus) -> Metric:
        name = PREFIX + self.name
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(name, self.text)
            if status.activity is not None:
                found = self.durations(status.activity)
                histogram.add_metric((), _buckets(found), found.total)
            return histogram
        made = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = made(name, self.text, labels=self.labels)
        for values, number in self.samples(status):
            family.add_metric(values, number)
        return family


def _counter(key: str) -> Samples:
    """One of the counters of the status; none where this intake has no such thing."""
    return lambda status: [((), status.counters[key])] if key in status.counters else []


def _counters(keys: Mapping[str, str]) -> Samples:
    """The same of several, by label."""
    return lambda status: [
        ((label,), status.counters[key]) for key, label in keys.items() if key in status.counters
    ]


def _value(of: Callable[[IntakeStatus], float | None]) -> Samples:
    def samples(status: IntakeStatus) -> Iterable[Sample]:
        number = of(status)
        return [] if number is None else [((), number)]

    return samples


def _activity(of: Callable[[ActivityStatus], float]) -> Samples:
    return _value(lambda status: None if status.activity is None else of(status.activity))


def _use(of: Callable[[SpoolUse], float]) -> Samples:
    return _value(lambda status: None if status.use is None else of(status.use))


def _cursors(of: Callable[[CursorLag], float]) -> Samples:
    return lambda status: [
        ((lag.cursor, lag.view), of(lag)) for lag in (status.lag or ())[:MOST_CURSORS]
    ]


def _by_reliability(of: Callable[[ActivityStatus], tuple[float, float]]) -> Samples:
    def samples(status: IntakeStatus) -> Iterable[Sample]:
        if status.activity is not None:
            reliable, unreliable = of(status.activity)
            yield ("reliable",), reliable
            yield ("unreliable",), unreliable

    return samples


def _ends(status: IntakeStatus) -> Iterable[Sample]:
    if status.activity is not None:
        yield from (((how,), count) for how, count in sorted(status.activity.ends.items()))


def _subscriptions(status: IntakeStatus) -> Iterable[Sample]:
    found = status.subscriptions
    if found is not None:
        yield ("requested",), found.requested
        yield ("open",), found.open
        yield ("finished",), found.finished
        yield ("failed",), found.failures


def _endpoints(status: IntakeStatus) -> Iterable[Sample]:
    if status.subscriptions is not None:
        for connected in (True, False):
            count = sum(each.connected is connected for each in status.subscriptions.endpoints)
            yield ("connected" if connected else "not connected",), count


REFUSED = {
    "rejected": "headers",
    "connections_refused": "limit reached",
    "connections_evicted": "memory",
    "over_limits": "over a limit of the protocol",
    "violations": "breach of the protocol",
    "fenced": "another run of the producer",
    "not_repeatable": "other content under stored numbers",
}
"""Counters of the status, and the reason as its label says it."""

METRICS: tuple[IntakeMetric, ...] = (
    IntakeMetric(
        "build_info",
        "gauge",
        "1; the release and the protocol are its labels.",
        lambda status: [((status.release, status.protocol), 1)],
        ("release", "protocol"),
    ),
    IntakeMetric(
        "start_time_seconds",
        "gauge",
        "When the intake started, in seconds since 1970.",
        _activity(lambda activity: activity.started),
    ),
    IntakeMetric(
        "spool_epoch",
        "gauge",
        "How often the spool was opened by an intake: it rises with each restart.",
        _value(lambda status: status.epoch),
    ),
    IntakeMetric(
        "ready",
        "gauge",
        "1 where /readyz says yes: not ending, the spool not full, all endpoints connected.",
        _value(lambda status: not reasons_against(status)),
    ),
    IntakeMetric(
        "connections", "gauge", "Connections at the moment.", _value(lambda s: s.connections)
    ),
    IntakeMetric(
        "connections_accepted",
        "counter",
        "Connections that were let in.",
        _counter("accepted"),
    ),
    IntakeMetric(
        "connections_refused",
        "counter",
        "Connections that were refused or closed by the intake, by reason.",
        _counters(REFUSED),
        ("reason",),
    ),
    IntakeMetric(
        "connections_held_back",
        "counter",
        "How often a connection was given no credit, because all together took too much memory.",
        _counter("connections_held_back"),
    ),
    IntakeMetric(
        "connections_memory_bytes",
        "gauge",
        "What connections take of limits.memory.",
        _counter("connections_memory"),
    ),
    IntakeMetric(
        "connections_memory_limit_bytes",
        "gauge",
        "limits.memory.",
        _value(lambda status: status.memory_limit or None),
    ),
    IntakeMetric(
        "channels", "gauge", "Open channels that flow to the intake.", _value(lambda s: s.channels)
    ),
    IntakeMetric(
        "channels_opened",
        "counter",
        "Channels that were opened.",
        _activity(lambda activity: activity.opened),
    ),
    IntakeMetric(
        "channels_ended",
        "counter",
        "Channels that ended, by how: finished, cancelled, closed, lost, disconnected …",
        _ends,
        ("how",),
    ),
    IntakeMetric(
        "messages",
        "counter",
        "Messages that were taken in, to be rows: all but those that are withdrawn.",
        _by_reliability(lambda each: (each.reliable, each.unreliable)),
        ("reliability",),
    ),
    IntakeMetric(
        "payload_bytes",
        "counter",
        "Their payload.",
        _by_reliability(lambda each: (each.reliable_bytes, each.unreliable_bytes)),
        ("reliability",),
    ),
    IntakeMetric(
        "messages_repeated",
        "counter",
        "Messages that were sent again and were stored before: acked, not stored again.",
        _counter("deduped"),
    ),
    IntakeMetric(
        "messages_nacked",
        "counter",
        "Unreliable messages that were lost on the way.",
        _counter("nacked"),
    ),
    IntakeMetric(
        "messages_dropped",
        "counter",
        "Unreliable messages that came while the spool was full: nacked, not stored.",
        _counter("unreliable_dropped"),
    ),
    IntakeMetric(
        "messages_withdrawn",
        "counter",
        "Messages taken in whose channel was cancelled or lost before they were stored: no rows.",
        _counter("withdrawn"),
    ),
    IntakeMetric(
        "dedupe_window_exceeded",
        "counter",
        "Messages that were stored although they may be repeats of some that were forgotten.",
        _counter("dedupe_window_exceeded"),
    ),
    IntakeMetric("groups", "counter", "Groups that were written.", _counter("groups")),
    IntakeMetric("events", "counter", "Events that were recorded.", _counter("events")),
    IntakeMetric(
        "held_bytes",
        "gauge",
        "Memory of what was taken in and is not durable yet.",
        _value(lambda status: status.held_bytes),
    ),
    IntakeMetric(
        "ack_seconds",
        "histogram",
        "From when the first message of a group came until all of the group was durable and acked.",
        durations=lambda activity: activity.ack_seconds,
    ),
    IntakeMetric(
        "sync_seconds",
        "histogram",
        "From writing a group until the disk had it.",
        durations=lambda activity: activity.sync_seconds,
    ),
    IntakeMetric(
        "commit_seconds",
        "histogram",
        "Until a commit of a query was noted durably.",
        durations=lambda activity: activity.commit_seconds,
    ),
    IntakeMetric(
        "event_loop_delay_seconds",
        "histogram",
        "How much later than it wanted the intake went on: much is a sign of too little CPU.",
        durations=lambda activity: activity.delay_seconds,
    ),
    IntakeMetric("spool_bytes", "gauge", "Bytes of the spool.", _value(lambda s: s.bytes)),
    IntakeMetric("spool_limit_bytes", "gauge", "spoolMaxBytes.", _use(lambda use: use.limit)),
    IntakeMetric(
        "spool_room_bytes",
        "gauge",
        "Bytes until the spool is full, and producers wait.",
        _use(lambda use: use.room),
    ),
    IntakeMetric(
        "spool_full", "gauge", "1 while producers wait for room.", _value(lambda s: s.full)
    ),
    IntakeMetric(
        "spool_segments",
        "gauge",
        "Files of the spool.",
        _use(lambda use: use.segments),
    ),
    IntakeMetric(
        "spool_records",
        "gauge",
        "Messages and events in the spool.",
        _use(lambda use: use.records),
    ),
    IntakeMetric(
        "oldest_uncommitted_seconds",
        "gauge",
        "Age of the oldest message that some query has not committed; 0: there is none.",
        _value(lambda status: max(status.oldest, default=0.0) if status.oldest else None),
    ),
    IntakeMetric(
        "cursor_lag_messages",
        "gauge",
        "Stored messages (or events) that a query has not committed, by cursor and view.",
        _cursors(lambda lag: lag.records),
        ("cursor", "view"),
    ),
    IntakeMetric(
        "cursor_lag_bytes",
        "gauge",
        "Bytes of the spool that they take, about.",
        _cursors(lambda lag: lag.bytes),
        ("cursor", "view"),
    ),
    IntakeMetric(
        "cursor_lag_seconds",
        "gauge",
        "Age of the oldest of them.",
        _cursors(lambda lag: lag.seconds),
        ("cursor", "view"),
    ),
    IntakeMetric(
        "cursor_held",
        "gauge",
        "1 while a running query holds the cursor.",
        _cursors(lambda lag: lag.held),
        ("cursor", "view"),
    ),
    IntakeMetric(
        "socket_datagrams_dropped",
        "counter",
        "UDP datagrams that were dropped for want of buffer or time; QUIC sends them again.",
        _counter("datagrams_dropped"),
    ),
    IntakeMetric(
        "socket_garbage_packets",
        "counter",
        "UDP datagrams that belong to no connection and open none.",
        _counter("garbage_packets"),
    ),
    IntakeMetric(
        "stateless_resets",
        "counter",
        "Of these, so many were told that their connection is no more.",
        _counter("stateless_resets"),
    ),
    IntakeMetric(
        "subscriptions",
        "gauge",
        "Channels that an intake which dials asks for, by state.",
        _subscriptions,
        ("state",),
    ),
    IntakeMetric("endpoints", "gauge", "Endpoints that it dials.", _endpoints, ("state",)),
)


class _Families:
    """As the library wants what is collected."""

    def __init__(self, status: IntakeStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        for metric in METRICS:
            yield metric.family(self._status)
        yield from PROCESS_COLLECTOR.collect()
        yield from PLATFORM_COLLECTOR.collect()


def exposition(status: IntakeStatus, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its content type: that of Prometheus, or OpenMetrics where the
    header ``accept`` asks for it."""
    encode, content_type = choose_encoder(accept)
    return encode(_Families(status)), content_type


def _buckets(found: Distribution) -> list[tuple[str, float]]:
    bounds = [str(bound) for bound in found.bounds] + ["+Inf"]
    return [(bound, float(n)) for bound, n in zip(bounds, accumulate(found.counts), strict=True)]

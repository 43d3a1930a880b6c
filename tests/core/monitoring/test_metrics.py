"""Metrics follow from the status, are few, and are what the library of Prometheus reads."""

from __future__ import annotations

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from aqueduct_core.flight.activity import CursorLag
from aqueduct_core.flight.subscription_status import EndpointState, SubscriptionStatus
from aqueduct_core.monitoring.metrics import METRICS, MOST_CURSORS, PREFIX, exposition
from tests.core.monitoring.statuses import HOSTILE, activity, status


def samples(**given: object) -> dict[tuple[str, tuple[str, ...]], float]:
    text, content_type = exposition(status(**given), "text/plain")
    assert content_type.startswith("text/plain; version=")
    return {
        (sample.name.removeprefix(PREFIX), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("series", "labels", "value"),
    [
        ("build_info", ("aqueduct", "0.1.0"), 1),
        ("spool_epoch", (), 3),
        ("ready", (), 1),
        ("connections", (), 1),
        ("connections_refused_total", ("headers",), 1),
        ("connections_refused_total", ("breach of the protocol",), 2),
        ("channels_ended_total", ("cancelled",), 1),
        ("messages_total", ("reliable",), 1_000),
        ("messages_total", ("unreliable",), 50),
        ("payload_bytes_total", ("reliable",), 64_000),
        ("messages_repeated_total", (), 3),
        ("messages_nacked_total", (), 2),
        ("ack_seconds_count", (), 10),
        ("ack_seconds_sum", (), 0.5),
        ("ack_seconds_bucket", ("0.1",), 9),
        ("ack_seconds_bucket", ("+Inf",), 10),
        ("spool_room_bytes", (), 900_000),
        ("spool_full", (), 0),
        ("oldest_uncommitted_seconds", (), 1.5),
        ("cursor_lag_messages", ("orders", "messages"), 500),
        ("cursor_held", ("orders", "messages"), 1),
        ("connections_memory_limit_bytes", (), 1 << 20),
    ],
)
def test_each_metric_says_what_the_status_says(
    series: str, labels: tuple[str, ...], value: float
) -> None:
    assert samples()[series, labels] == value


def test_an_intake_that_dials_has_its_endpoints_and_not_what_listeners_have() -> None:
    dialled = SubscriptionStatus(
        3, 2, 1, endpoints=(EndpointState("a:1", True), EndpointState("b:2"))
    )
    found = samples(subscriptions=dialled, counters={"accepted": 2})
    assert found["subscriptions", ("open",)] == 2
    assert found["endpoints", ("connected",)] == found["endpoints", ("not connected",)] == 1
    assert found["ready", ()] == 0
    assert ("socket_datagrams_dropped_total", ()) not in found


def test_no_peer_has_a_say_in_the_number_of_series_and_cursors_are_bounded() -> None:
    text, _ = exposition(status(), "")
    assert HOSTILE.encode() not in text
    assert b"till-1" not in text
    assert b"127.0.0.1" not in text
    many = tuple(CursorLag(f"c{n}", "messages", 1, 1, 1.0) for n in range(1_000))
    found = samples(lag=many)
    cursors = [labels for name, labels in found if name == "cursor_lag_messages"]
    assert len(cursors) == MOST_CURSORS


def test_every_metric_of_the_table_is_there_under_its_series() -> None:
    whole = status(
        subscriptions=SubscriptionStatus(1, 1, 0, endpoints=(EndpointState("a:1", True),)),
        counters={
            **status().counters,
            "connections_held_back": 1,
            "dedupe_window_exceeded": 0,
            "garbage_packets": 0,
            "stateless_resets": 0,
        },
    )
    names = {name for name, _ in samples(**structs.asdict(whole))}
    for metric in METRICS:
        own = metric.series.removeprefix(PREFIX)
        assert (f"{own}_bucket" if metric.kind == "histogram" else own) in names, metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_without_activity_there_is_what_can_be_said() -> None:
    found = samples(activity=None, lag=None, use=None)
    assert found["connections", ()] == 1
    assert ("messages_total", ("reliable",)) not in found


def test_open_metrics_is_spoken_to_who_asks_for_it() -> None:
    text, content_type = exposition(
        status(activity=activity(ends={})), "application/openmetrics-text; version=1.0.0"
    )
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")

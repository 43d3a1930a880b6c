"""The options of format ``quicr``: what they are, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.quicr.media import MAX_URLS, MediaIntake
from aqueduct_spark.formats.quicr.format import QuicrDataSource, QuicrFormat
from aqueduct_spark.formats.quicr.options import QUICR_OPTIONS, QuicrRead, QuicrWrite
from aqueduct_spark.intakes.launch_settings import connect_settings
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.write import WriteOptions

DIAL = {"endpoint": "quicr://origin:443", "spool": "/spool"}
LISTEN = {"listen": "127.0.0.1:0", "spool": "/spool"}
WRITE = {"endpoint": "quicr://origin:443"}
KINDS = {
    "stream": lambda given: StreamReadOptions.parse(given, QUICR_OPTIONS),
    "batch": lambda given: BatchReadOptions.parse(given, QUICR_OPTIONS),
    "write": lambda given: WriteOptions.parse(given, QUICR_OPTIONS),
    "write stream": lambda given: WriteOptions.parse(given, QUICR_OPTIONS, OptionKind.STREAM_WRITE),
}


def test_a_read_that_dials_says_what_it_asks_for() -> None:
    options = StreamReadOptions.parse(
        DIAL
        | {
            "url": "cam/1, a\\x2cb",
            "delivery": "datagram",
            "order": "arrival",
            "holeTimeout": "500ms",
            "startGroup": "7",
            "startObject": "2",
            "flagsReading": "high",
        },
        QUICR_OPTIONS,
    )
    own: QuicrRead = options.rows.own
    assert own.urls == ("cam/1", "a\\x2cb")
    assert own.reading == "high"
    assert own.media == MediaIntake(
        delivery="datagram", order="arrival", hole_timeout=0.5, start_group=7, start_object=2
    )
    connect = connect_settings(QuicrFormat(), options, options.source.endpoint.addresses)  # type: ignore[union-attr]
    assert (connect.endpoints, connect.urls) == (("origin:443",), own.urls)  # type: ignore[attr-defined]


def test_a_listener_takes_what_is_posted() -> None:
    own: QuicrRead = StreamReadOptions.parse(
        LISTEN | {"delivery": "datagram"}, QUICR_OPTIONS
    ).rows.own
    assert (own.urls, own.prefix, own.media.delivery) == ((), None, "datagram")


def test_a_prefix_may_be_empty() -> None:
    own: QuicrRead = StreamReadOptions.parse(DIAL | {"subscribePrefix": ""}, QUICR_OPTIONS).rows.own
    assert (own.urls, own.prefix) == ((), "")


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("stream", DIAL, "MISSING.*'?url'? .*or 'subscribePrefix'"),
        ("stream", DIAL | {"url": "a", "subscribePrefix": "b"}, "'url' and 'subscribePrefix'"),
        ("stream", LISTEN | {"url": "a"}, "'url' has no meaning with 'listen'"),
        ("stream", DIAL | {"url": "a,,b"}, "'url' is 'a,,b'"),
        ("stream", DIAL | {"url": "a,a"}, "URLs that differ"),
        ("stream", DIAL | {"url": "a,\\x61"}, "URLs that differ"),
        ("stream", DIAL | {"url": "a\\b"}, "a backslash is written twice"),
        ("stream", DIAL | {"url": "x" * 1025}, "1 to 1024 bytes"),
        ("stream", DIAL | {"url": ",".join(map(str, range(MAX_URLS + 1)))}, "at most 10000"),
        ("stream", DIAL | {"url": "a", "delivery": "fast"}, "one of stream, datagram"),
        ("stream", DIAL | {"url": "a", "order": "any"}, "one of media, arrival"),
        ("stream", DIAL | {"url": "a", "holeTimeout": "5"}, "a bare number has no unit"),
        ("stream", DIAL | {"url": "a", "startGroup": "-1"}, "'startGroup' is '-1'"),
        ("stream", DIAL | {"url": "a", "producers": "p"}, "a media is known by its URL alone"),
        ("stream", {"endpoint": "aqueduct://o:1", "spool": "/s", "url": "a"}, "quicr://host:port"),
        (
            "stream",
            LISTEN | {"auth.tokenFile": "/t"},
            "'auth.tokenFile' has no meaning with 'listen': the protocol QUICR has no place for a",
        ),
        ("batch", DIAL | {"url": "a", "auth.tokenEnv": "T"}, "no place for a token"),
        (
            "batch",
            DIAL | {"subscribePrefix": "a", "untilTimeout": "1m"},
            "'subscribePrefix' and until=finish.*Set until=idle",
        ),
        ("write", WRITE | {"auth.tokenFile": "/t"}, "no place for a token"),
        ("write", WRITE | {"url": "a,b"}, "one URL, with commas as"),
        ("write", WRITE | {"url": "a", "writerId": "w"}, "whoever sends it"),
        ("write", WRITE | {"url": "a", "idempotence": "none"}, "the same when sent again"),
        ("write", WRITE | {"url": "a", "finish": "false"}, "a media always ends with its write"),
        ("write", WRITE | {"url": "a", "payloadFormat": "arrow"}, "a row is an object"),
        ("write", WRITE | {"url": "a", "urlPerBatch": "true"}, "for a stream write"),
        ("write stream", WRITE | {"url": "a", "group": "3"}, "for a batch write"),
        ("write", WRITE | {"url": "a", "order": "media"}, "not for a batch write"),
        (
            "stream",
            DIAL | {"url": "a", "flagsReading": "msb"},
            "'flagsReading' is 'msb'.*low, high",
        ),
        ("batch", {"spool": "/s", "flagsReading": "low", "view": "events"}, "no meaning with view"),
        ("write", WRITE | {"url": "a", "flagsReading": "high"}, "a write drops nothing"),
    ],
)
def test_what_cannot_be_is_refused_by_name(kind: str, given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text) as refused:
        KINDS[kind](given)
    assert refused.value.remedy


def test_a_bounded_read_of_a_prefix_ends_when_nothing_comes() -> None:
    given = DIAL | {"subscribePrefix": "a", "until": "idle:1s", "untilTimeout": "1m"}
    assert BatchReadOptions.parse(given, QUICR_OPTIONS).rows.own.prefix == "a"


def test_a_write_says_where_to() -> None:
    def own(options: WriteOptions) -> QuicrWrite:
        found: QuicrWrite = options.own
        return found

    batch = WriteOptions.parse(WRITE | {"url": "a", "group": "9"}, QUICR_OPTIONS)
    assert own(batch) == QuicrWrite("a", 9, datagram=False, url_per_batch=False)
    stream = WriteOptions.parse(
        WRITE | {"delivery": "datagram"}, QUICR_OPTIONS, OptionKind.STREAM_WRITE
    )
    assert own(stream) == QuicrWrite(None, 0, datagram=True, url_per_batch=True)


def test_the_token_of_standalone_intakes_is_none_of_the_media() -> None:
    given: dict[str, Any] = {"intakes": "h:1", "tls.caFile": "/c", "auth.tokenFile": "/t"}
    options = StreamReadOptions.parse(given, QUICR_OPTIONS)
    assert options.source.auth is not None  # type: ignore[union-attr]


def test_spark_finds_it_by_its_module() -> None:
    import pyspark_quicr

    assert pyspark_quicr.DefaultSource is QuicrDataSource
    assert QuicrDataSource.name() == "quicr"

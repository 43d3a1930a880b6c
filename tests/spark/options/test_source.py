"""The four ways to messages, and what belongs to which of them; bounded reads."""

from __future__ import annotations

import pickle

import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.primitives.units import timestamp
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS, Request
from aqueduct_spark.options.access import DialTls, TokenSource
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions, rows_of
from aqueduct_spark.options.source import Dial, Standalone, StoredSpools
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.starting import AtTime, Earliest, Latest, Specific
from aqueduct_spark.options.until import UntilFinish, UntilIdle, UntilOffset

DIAL = {"endpoint": "aqueduct://far:1", "spool": "/s"}
INTAKES = {"intakes": "h:1,[::1]:2", "tls.caFile": "/ca", "auth.tokenFile": "/t"}
STORED = {"spool": "/s"}


def stream(options: dict[str, str]) -> StreamReadOptions:
    return StreamReadOptions.parse(options, AQUEDUCT_OPTIONS)


def batch(options: dict[str, str]) -> BatchReadOptions:
    return BatchReadOptions.parse(options, AQUEDUCT_OPTIONS)


def test_a_stream_that_dials() -> None:
    options = stream(
        DIAL
        | {
            "endpoint": "aqueduct://a:1,b:2",
            "subscribe": "x, y",
            "subscribeHeaders": '{"k":"<{name}>","l":["1","2"]}',
            "subscribePayload": "give {name}",
            "numIntakes": "2",
            "tls.serverName": "far.example",
            "auth.tokenEnv": "T",
        }
    )
    source = options.source
    assert isinstance(source, Dial)
    headers = (("k", "<{name}>"), ("l", "1"), ("l", "2"))
    assert options.rows.own.requests == (
        Request("x", headers, "give {name}"),
        Request("y", headers, "give {name}"),
    )
    assert source.tls == DialTls(None, "far.example", False)
    assert source.auth == TokenSource(None, "T")
    assert (source.spool, options.intakes) == ("/s", 2)
    assert "<{name}>" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_stream_of_standalone_intakes() -> None:
    options = stream(INTAKES)
    both = (HostPort("h", 1), HostPort("::1", 2))
    assert options.source == Standalone(both, "/ca", TokenSource("/t", None))
    assert (options.intakes, options.partitions_per_intake) == (2, None)


STREAM_REFUSALS = [
    ({}, "MISSING", "'listen'"),
    (STORED, "MISSING", "'listen'"),
    ({"endpoint": "aqueduct://a:1"}, "MISSING", "'spool'"),
    (DIAL | {"numIntakes": "2"}, "BAD_VALUE", "number of addresses"),
    (DIAL | {"endpoint": "aqueduct://a:1,a:1"}, "BAD_VALUE", "differ"),
    (
        DIAL | {"endpoint": "aqueduct://a:1,aqueduct://b:1"},
        "BAD_VALUE",
        "aqueduct://host:port,host",
    ),
    (DIAL | {"checkpointlocation": "/c"}, "NOT_FOR_QUERY_TYPE", "'checkpointLocation' is for the"),
    (DIAL | {"subscribe": "a,a"}, "BAD_VALUE", "differ"),
    (DIAL | {"subscribe": "a,,b"}, "BAD_VALUE", "commas"),
    (DIAL | {"tls.certFile": "/c"}, "CONFLICT", "it belongs to listen"),
    (DIAL | {"tls.insecure": "true"}, "CONFLICT", "loopback"),
    (DIAL | {"limits.connections": "3"}, "CONFLICT", "it belongs to listen"),
    (DIAL | {"subscribeHeaders": '{"k":5}'}, "BAD_VALUE", "a JSON object of texts"),
    ({"intakes": "h:1", "auth.tokenFile": "/t"}, "MISSING", "'tls.caFile'"),
    ({"intakes": "h:1", "tls.caFile": "/ca"}, "MISSING", "'auth.tokenFile'"),
    (INTAKES | {"intakes": "h:1,h:1"}, "BAD_VALUE", "differ"),
    (INTAKES | {"spool": "/s"}, "CONFLICT", "'spool' has no meaning with 'intakes'"),
    (INTAKES | {"numIntakes": "2"}, "CONFLICT", "'numIntakes' has no meaning"),
    (INTAKES | {"lease": "9s"}, "CONFLICT", "'lease' has no meaning"),
    (INTAKES | {"earlyData": "true"}, "CONFLICT", "'earlyData' has no meaning"),
    (INTAKES | {"limits.channels": "9"}, "CONFLICT", "'limits.channels' has no meaning"),
    (INTAKES | {"startingOffsets": '{"0":{"0":1}}'}, "BAD_VALUE", "intakes 0 to 1"),
]


@pytest.mark.parametrize(("options", "subclass", "words"), STREAM_REFUSALS)
def test_refusals_of_a_stream(options: dict[str, str], subclass: str, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        stream(options)
    assert refused.value.subclass == subclass
    assert words in str(refused.value)


def test_what_may_hold_a_secret_is_not_shown() -> None:
    with pytest.raises(InvalidOption) as refused:
        stream(DIAL | {"subscribeHeaders": '{"authorization": "hunter2"'})
    assert "hunter2" not in str(refused.value)


def test_events_have_a_cursor_of_their_own() -> None:
    assert stream(INTAKES | {"view": "events"}).cursor == "events"
    assert stream(INTAKES | {"view": "events", "cursor": "mine"}).cursor == "mine"
    one_log = stream(INTAKES | {"view": "events", "startingOffsets": '{"0":{"0":1},"1":{"0":2}}'})
    assert one_log.starting == Specific({0: (1,), 1: (2,)})


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:00.000007+01:00", 7),
        ("1970-01-01 00:01:00", 60_000_000),
    ],
)
def test_timestamps(text: str, microseconds: int) -> None:
    assert timestamp(text) == microseconds
    assert stream(INTAKES | {"startingTimestamp": text}).starting == AtTime(microseconds)


def test_a_batch_of_what_is_stored() -> None:
    options = batch(STORED)
    assert options.source == StoredSpools("/s")
    assert (options.starting, options.ending) == (Earliest(), Latest())
    assert (options.until, options.until_timeout) == (UntilOffset(), None)
    bounded = batch(STORED | {"startingOffsets": '{"4":{"0":1}}', "endingTimestamp": "1970-01-01"})
    assert (bounded.starting, bounded.ending) == (Specific({4: (1,)}), AtTime(0))


def test_a_batch_that_waits() -> None:
    dial = {"endpoint": "aqueduct://a:1", "untilTimeout": "9s"}
    options = batch(dial)
    assert (options.until, options.until_timeout) == (UntilFinish(), 9)
    assert isinstance(options.source, Dial)
    assert options.source.spool is None
    assert batch(dial | {"until": "IDLE:3s"}).until == UntilIdle(3)
    assert batch(INTAKES | {"until": "finish", "untilTimeout": "1m"}).until == UntilFinish()
    assert batch(INTAKES).until == UntilOffset()


BATCH_REFUSALS = [
    ({}, "MISSING", "'spool'"),
    ({"listen": "h:1"}, "NOT_FOR_QUERY_TYPE", "'listen'"),
    ({"tls.selfSigned": "true", "listen": "h:1"}, "NOT_FOR_QUERY_TYPE", "'listen'"),
    ({"endpoint": "aqueduct://a:1"}, "MISSING", "'untilTimeout'"),
    ({"endpoint": "aqueduct://a:1", "until": "offset"}, "CONFLICT", "until=offset and endpoint"),
    (STORED | {"until": "finish", "untilTimeout": "9s"}, "CONFLICT", "'spool' alone"),
    (STORED | {"untilTimeout": "9s"}, "CONFLICT", "waits for nothing"),
    (STORED | {"until": "idle:9"}, "BAD_VALUE", "idle:<duration>"),
    (STORED | {"until": "finish:9s"}, "BAD_VALUE", "finish, idle"),
    (STORED | {"endingOffsets": "latest", "endingTimestamp": "1970-01-01"}, "CONFLICT", "both"),
    (
        INTAKES | {"until": "idle:1s", "untilTimeout": "9s", "endingOffsets": "latest"},
        "CONFLICT",
        "endingOffsets",
    ),
    (STORED | {"numIntakes": "2"}, "NOT_FOR_QUERY_TYPE", "a stream read"),
    (STORED | {"cursor": "c"}, "NOT_FOR_QUERY_TYPE", "a stream read"),
    (STORED | {"retention": "1h"}, "NOT_FOR_QUERY_TYPE", "a stream read"),
    (STORED | {"spoolMaxBytes": "1g"}, "CONFLICT", "'spoolMaxBytes' has no meaning with 'spool'"),
]


@pytest.mark.parametrize(("options", "subclass", "words"), BATCH_REFUSALS)
def test_refusals_of_a_batch(options: dict[str, str], subclass: str, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        batch(options)
    assert refused.value.subclass == subclass
    assert words in str(refused.value)


def test_the_columns_are_known_before_the_kind_of_read() -> None:
    assert rows_of(STORED | {"view": "status"}, AQUEDUCT_OPTIONS)[0].view == "status"
    assert rows_of(INTAKES | {"cursor": "c"}, AQUEDUCT_OPTIONS)[0].view == "messages"
    for options, words in [
        ({}, "'listen'|'spool'"),
        (STORED | {"untilTimeout": "9"}, "no unit"),
        (DIAL | {"numIntakes": "x"}, "'numIntakes'"),
        (STORED | {"cursor": "c", "untilTimeout": "9s"}, "is for a stream read and"),
    ]:
        with pytest.raises(InvalidOption, match=words):
            rows_of(options, AQUEDUCT_OPTIONS)


def test_limits_have_the_defaults_of_the_parts_that_keep_them() -> None:
    limits = stream({"listen": "127.0.0.1:0", "spool": "/s"}).intake.limits
    assert isinstance(limits, AqueductLimits)
    assert limits.connections == ListenLimits().connections
    assert limits.connections_per_address == ListenLimits().connections_per_address
    assert limits.handshakes == ListenLimits().handshakes
    assert limits.handshakes_per_network == ListenLimits().handshakes_per_network
    assert limits.retry == ListenLimits().retry
    assert limits.memory == ListenLimits().memory
    assert limits.connection_share == ListenLimits().connection_share
    config = Config()
    assert limits.channels == config.max_channels
    assert limits.attachments == config.max_attachments
    assert limits.header_bytes == config.max_headers_bytes
    assert limits.handshake_timeout == config.handshake_timeout


def test_every_option_of_a_read_is_built() -> None:
    """But those of a listener: a bounded read has none."""
    reads = (OptionKind.STREAM_READ, OptionKind.BATCH_READ)
    listener = {"listen", "tls.certFile", "tls.keyFile", "tls.selfSigned"}
    listener |= {"limits.connections", "limits.connectionsPerAddress", "limits.retry"}
    listener |= {"limits.handshakes", "limits.handshakesPerNetwork"}
    listener |= {"limits.memory", "limits.connectionShare"}
    for spec in AQUEDUCT_OPTIONS.specs:
        wanted = {kind for kind in reads if kind in spec.kinds}
        if spec.name in listener:
            wanted = {OptionKind.STREAM_READ}
        assert wanted <= spec.built, spec.name

"""The options table: what is accepted, and how each refusal reads."""

from __future__ import annotations

import os
import pickle

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.settings import LARGEST_DATAGRAM
from aqueduct_spark.formats.aqueduct.options import (
    AQUEDUCT_OPTIONS,
    AqueductRead,
    AqueductWrite,
    Request,
)
from aqueduct_spark.options.access import ListenerTls, TokenSource
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.options.read_parts import AdmissionOptions, SplitOptions
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.options.source import Listen
from aqueduct_spark.options.spec import READ, WRITE, OptionKind, OptionSpec
from aqueduct_spark.options.starting import Earliest, Latest, Specific
from aqueduct_spark.options.values import duration, endpoint, size
from aqueduct_spark.options.write import WriteOptions

READ_BASE = {"listen": "127.0.0.1:0", "spool": "/data/spool"}
WRITE_BASE = {"endpoint": "aqueduct://127.0.0.1:4433"}


def read(**options: str) -> StreamReadOptions:
    given = READ_BASE | {k.replace("_", "."): v for k, v in options.items()}
    return StreamReadOptions.parse(given, AQUEDUCT_OPTIONS)


def write(**options: str) -> WriteOptions:
    given = WRITE_BASE | {k.replace("_", "."): v for k, v in options.items()}
    return WriteOptions.parse(given, AQUEDUCT_OPTIONS)


def refusal_of_read(options: dict[str, str]) -> InvalidOption:
    with pytest.raises(InvalidOption) as refused:
        StreamReadOptions.parse(options, AQUEDUCT_OPTIONS)
    return one_line(refused.value)


def refusal_of_write(options: dict[str, str]) -> InvalidOption:
    with pytest.raises(InvalidOption) as refused:
        WriteOptions.parse(options, AQUEDUCT_OPTIONS)
    return one_line(refused.value)


def one_line(error: InvalidOption) -> InvalidOption:
    assert "\n" not in str(error)
    assert str(error).startswith("[AQUEDUCT_INVALID_OPTION.")
    return error


def test_defaults_of_a_read() -> None:
    options = read()
    source = options.source
    assert isinstance(source, Listen)
    assert source.address == HostPort("127.0.0.1", 0)
    assert source.spool == "/data/spool"
    assert source.tls == ListenerTls(None, None)
    assert source.auth is None
    assert (options.intakes, options.partitions_per_intake) == (1, 2)
    assert options.starting == Earliest()
    assert options.cursor == "query"
    assert options.admission == AdmissionOptions(None, 256 << 20, None, 900)
    assert options.split == SplitOptions(None, None, 64 << 20)
    assert options.rows.view == "messages"
    assert options.rows.selection == Selection()
    assert options.rows.own == AqueductRead(requests=(Request("", (), ""),))
    assert not options.rows.include_spool
    assert options.intake.group_commit == pytest.approx(0.02)
    assert options.intake.spool_max_bytes == 10 << 30
    assert (options.launch_timeout, options.lease, options.fetch_timeout) == (60, 15, 120)
    assert options.fail_on_data_loss
    assert options.intake.retention == 0
    assert options.intake.max_message_bytes == 16 << 20
    assert options.intake.max_datagram_bytes == LARGEST_DATAGRAM
    assert options.on_cancel == "keep"


def test_defaults_of_a_write() -> None:
    options = write()
    assert options.max_datagram_bytes == LARGEST_DATAGRAM
    assert str(options.endpoint) == "aqueduct://127.0.0.1:4433"
    assert options.own == AqueductWrite(None, "ordered", trusts_superseded=False)
    assert options.writer_id is None
    assert options.ack_timeout == 120
    assert options.max_in_flight_bytes == 32 << 20
    assert options.finish
    assert options.max_loss_ratio == 1.0


def test_keys_have_no_case_and_options_can_be_pickled() -> None:
    options = StreamReadOptions.parse(
        {"LISTEN": "[::1]:4433", "spool": "/s", "NumIntakes": "2", "includeheaders": "TRUE"},
        AQUEDUCT_OPTIONS,
    )
    assert options.intakes == 2
    assert options.rows.own.include_headers
    assert pickle.loads(pickle.dumps(options)) == options


def test_relative_paths_start_at_the_working_directory() -> None:
    options = StreamReadOptions.parse({**READ_BASE, "spool": "here/spool"}, AQUEDUCT_OPTIONS)
    assert isinstance(options.source, Listen)
    assert options.source.spool == os.path.join(os.getcwd(), "here/spool")


def test_what_is_kept_may_be_kept_for_ever() -> None:
    options = StreamReadOptions.parse({**READ_BASE, "retention": "1000000d"}, AQUEDUCT_OPTIONS)
    assert options.intake.retention == 1_000_000 * 86_400
    with pytest.raises(InvalidOption, match=r"retention.*unit"):
        StreamReadOptions.parse({**READ_BASE, "retention": "1000000"}, AQUEDUCT_OPTIONS)


@pytest.mark.parametrize("text", ["", "15", "s", "-1s", "1s 2s", "1 week", "0x1s"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        duration(text)


@pytest.mark.parametrize("text", ["", "64", "m", "-1m", "1m1m", "64 megs"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        size(text)


def test_an_endpoint_may_name_several_addresses() -> None:
    assert endpoint("aqueduct")("aqueduct://a:1,[::1]:2").addresses == (
        HostPort("a", 1),
        HostPort("::1", 2),
    )
    for bad in ("a:1", "http://a:1", "aqueduct://", "aqueduct://a", "aqueduct://a:0"):
        with pytest.raises(ValueError):
            endpoint("aqueduct")(bad)


@pytest.mark.parametrize(
    ("text", "starting"),
    [
        ("earliest", Earliest()),
        ("LATEST", Latest()),
        ('{"0":{"0":120,"1":-2}}', Specific({0: (120, -2)})),
        ('{"0":{"1":-1,"0":0}}', Specific({0: (0, -1)})),
    ],
)
def test_starting_offsets(text: str, starting: object) -> None:
    assert read(startingOffsets=text).starting == starting


READ_REFUSALS = [
    ({"spol": "/s"}, "UNKNOWN", "The nearest one is 'spool'"),
    ({"kafka.bootstrap.servers": "x"}, "UNKNOWN", "is not known"),
    ({"groupCommit": "20"}, "BAD_VALUE", "a bare number has no unit"),
    ({"spoolMaxBytes": "10"}, "BAD_VALUE", "a bare number has no unit"),
    ({"lease": "0s"}, "BAD_VALUE", "from 1s to 1d"),
    ({"fetchTimeout": "0s"}, "BAD_VALUE", "above zero"),
    ({"spoolMaxBytes": "1k"}, "BAD_VALUE", "from 1m to"),
    ({"groupCommit": "1m"}, "BAD_VALUE", "from 0ms to 10s"),
    ({"numIntakes": "0"}, "BAD_VALUE", "from 1 to 1000"),
    ({"numIntakes": "two"}, "BAD_VALUE", "whole number"),
    ({"includeHeaders": "yes"}, "BAD_VALUE", "true or false"),
    ({"maxOffsetsPerTrigger": "-1"}, "BAD_VALUE", "from 1 up"),
    ({"listen": "4433"}, "BAD_VALUE", "'listen' is '4433'"),
    ({"startingOffsets": "first"}, "BAD_VALUE", "earliest, latest, or JSON"),
    ({"startingOffsets": '{"0":{"0":1}}'}, "BAD_VALUE", "partitions 0 to 1"),
    ({"startingOffsets": '{"1":{"0":1,"1":1}}'}, "BAD_VALUE", "intakes 0 to 0"),
    ({"startingOffsets": '{"0":{"0":1,"1":1}}', "view": "events"}, "BAD_VALUE", "0 to 0 for each"),
    ({"startingOffsets": '{"0":{"0":1,"1":-3}}'}, "BAD_VALUE", "earliest, latest, or JSON"),
    ({"startingOffsets": '{"0":{"1":7}}'}, "BAD_VALUE", "of intake 0 it lacks 0: -2 is earliest"),
    ({"spool": "hdfs://host/spool"}, "BAD_VALUE", "without a scheme"),
    ({"view": "status"}, "BAD_VALUE", "status is for spark.read"),
    ({"mode": "lenient"}, "BAD_VALUE", "permissive"),
    ({"startingOffsets": "latest", "startingTimestamp": "2026-01-01"}, "CONFLICT", "both set"),
    ({"startingTimestamp": "yesterday"}, "BAD_VALUE", "ISO-8601"),
    ({"channels": "a", "channelsPattern": "b"}, "CONFLICT", "both set"),
    ({"channelsPattern": "("}, "BAD_VALUE", "regular expression"),
    ({"view": "events", "includeHeaders": "true"}, "CONFLICT", "no meaning with view=events"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "CONFLICT", "above"),
    ({"maxTriggerDelay": "9s"}, "MISSING", "'minOffsetsPerTrigger'"),
    ({"maxBytesPerTrigger": "0b"}, "BAD_VALUE", "at least one byte"),
    ({"cursor": "c" * 65}, "BAD_VALUE", "1 to 64 bytes"),
    ({"limits.chanels": "9"}, "UNKNOWN", "The nearest one is 'limits.channels'"),
    ({"limits.headerBytes": "1b"}, "BAD_VALUE", "from 1k to 16m"),
    ({"payloadFormat": "xml"}, "BAD_VALUE", "arrow"),
    ({"transport": "tcp"}, "BAD_VALUE", "one of aioquic, qh3"),
    ({"transport": "QH3"}, "BAD_VALUE", "refused: its core fails on streams that are echoed"),
    ({"endpoint": "aqueduct://h:1"}, "CONFLICT", "'endpoint' and 'listen'"),
    ({"intakes": "h:1"}, "CONFLICT", "'listen' and 'intakes'"),
    ({"subscribe": "a"}, "CONFLICT", "'subscribe' has no meaning with 'listen'"),
    ({"tls.caFile": "/ca"}, "CONFLICT", "'tls.caFile' has no meaning with 'listen'"),
    ({"untilTimeout": "9s"}, "NOT_FOR_QUERY_TYPE", "is not for a stream read"),
    ({"writerId": "w"}, "NOT_FOR_QUERY_TYPE", "is not for a stream read"),
    ({"tls.certFile": "/c.pem"}, "MISSING", "'tls.keyFile'"),
    ({"tls.keyFile": "/k.pem"}, "MISSING", "'tls.certFile'"),
    ({"listen": "0.0.0.0:1"}, "MISSING", "'tls.certFile'"),
    ({"tls.selfSigned": "false"}, "MISSING", "'tls.certFile'"),
    (
        {"tls.selfSigned": "true", "tls.certFile": "/c", "tls.keyFile": "/k"},
        "CONFLICT",
        "both set",
    ),
    ({"auth.tokenFile": "/t", "auth.tokenEnv": "T"}, "CONFLICT", "both set"),
    ({"listen": "127.0.0.1:65535", "numIntakes": "2"}, "BAD_VALUE", "ports"),
]


@pytest.mark.parametrize(("options", "subclass", "words"), READ_REFUSALS)
def test_refusals_of_a_read(options: dict[str, str], subclass: str, words: str) -> None:
    refused = refusal_of_read(READ_BASE | options)
    assert refused.subclass == subclass
    assert words in str(refused)


@pytest.mark.parametrize("missing", ["listen", "spool"])
def test_a_read_needs_listen_and_spool(missing: str) -> None:
    refused = refusal_of_read({k: v for k, v in READ_BASE.items() if k != missing})
    assert refused.subclass == "MISSING"
    assert f"'{missing}'" in str(refused)


WRITE_REFUSALS = [
    ({"endpoint": "127.0.0.1:1"}, "BAD_VALUE", "aqueduct://host:port"),
    ({"listen": "127.0.0.1:1"}, "NOT_FOR_QUERY_TYPE", "but for"),
    ({"ackTimeout": "120"}, "BAD_VALUE", "a bare number has no unit"),
    ({"reliability": "maybe"}, "BAD_VALUE", "one of ordered, unordered, unreliable"),
    ({"maxLossRatio": "2"}, "BAD_VALUE", "0.0 to 1.0"),
    ({"channel": "x" * 257}, "BAD_VALUE", "1 to 256 bytes"),
    ({"writerId": " "}, "BAD_VALUE", "1 to 48 bytes"),
    ({"chanel": "x"}, "UNKNOWN", "The nearest one is 'channel'"),
    ({"endpoint": "aqueduct://far:1", "tls.insecure": "true"}, "CONFLICT", "loopback"),
    ({"tls.insecure": "true", "tls.caFile": "/ca"}, "CONFLICT", "both set"),
]


@pytest.mark.parametrize(("options", "subclass", "words"), WRITE_REFUSALS)
def test_refusals_of_a_write(options: dict[str, str], subclass: str, words: str) -> None:
    refused = refusal_of_write(WRITE_BASE | options)
    assert refused.subclass == subclass
    assert words in str(refused)


def test_a_write_needs_an_endpoint() -> None:
    assert refusal_of_write({}).subclass == "MISSING"


def test_certificates_of_a_listener() -> None:
    made = read(tls_selfSigned="true").source
    assert isinstance(made, Listen)
    assert made.tls.self_signed
    files = StreamReadOptions.parse(
        {"listen": "0.0.0.0:1", "spool": "/s", "tls.certFile": "/c", "tls.keyFile": "/k"},
        AQUEDUCT_OPTIONS,
    ).source
    assert isinstance(files, Listen)
    assert files.tls == ListenerTls("/c", "/k")
    assert not files.tls.self_signed


def test_tokens_are_known_by_their_place_only() -> None:
    source = read(auth_tokenEnv="TOKEN").source
    assert isinstance(source, Listen)
    assert source.auth == TokenSource(None, "TOKEN")
    assert write(auth_tokenFile="/t").auth == TokenSource("/t", None)


@pytest.mark.parametrize("spec", AQUEDUCT_OPTIONS.specs, ids=lambda spec: spec.name)
def test_each_row_of_the_table_is_sound(spec: OptionSpec) -> None:
    assert spec.built <= spec.kinds
    assert spec.kinds <= READ | WRITE == frozenset(OptionKind)
    assert spec.doc.endswith(".")
    if spec.default is not None:
        spec.parse(spec.default)


def test_the_identity_of_a_write() -> None:
    assert (write().writer_id, write().batch_id, write().finish) == (None, 0, True)
    given = write(writerId="w", batchId="7")
    assert (given.writer_id, given.batch_id, given.keeps_connections) == ("w", 7, False)
    stream = WriteOptions.parse(WRITE_BASE, AQUEDUCT_OPTIONS, OptionKind.STREAM_WRITE)
    assert (stream.batch_id, stream.finish, stream.keeps_connections) == (None, False, True)
    for alone in ({"batchId": "1"}, {"writerId": "w"}):
        with pytest.raises(InvalidOption) as refused:
            write(**alone)
        assert refused.value.subclass == "MISSING"
    with pytest.raises(InvalidOption) as refused:
        WriteOptions.parse(
            WRITE_BASE | {"batchId": "1", "writerId": "w"},
            AQUEDUCT_OPTIONS,
            OptionKind.STREAM_WRITE,
        )
    assert refused.value.subclass == "NOT_FOR_QUERY_TYPE"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endpoint": "aqueduct://a:1,a:1"}, "differ from each other"),
        ({"endpointPolicy": "any"}, "hash"),
        ({"idempotence": "maybe"}, "auto, headers, source, none"),
        ({"writerId": "w", "batchId": "-1"}, "batchId"),
    ],
)
def test_values_of_a_write_that_cannot_be(options: dict[str, str], words: str) -> None:
    refused = refusal_of_write(WRITE_BASE | options)
    assert refused.subclass == "BAD_VALUE"
    assert words in str(refused)

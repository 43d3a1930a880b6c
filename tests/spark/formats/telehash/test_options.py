"""The options of format ``telehash``: what they are, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.telehash.channels import MAX_TYPES, ChannelIntake
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.formats.telehash.format import TelehashDataSource
from aqueduct_spark.formats.telehash.options import (
    TELEHASH_OPTIONS,
    LineOptions,
    TelehashRead,
    TelehashWrite,
)
from aqueduct_spark.options.read import BatchReadOptions, StreamReadOptions
from aqueduct_spark.options.source import Dial, Listen
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.values import Endpoint
from aqueduct_spark.options.write import WriteOptions

OWN, PEER = "a1" * 32, "0f" * 32
LISTEN = {"listen": "127.0.0.1:0", "spool": "/spool"}
UDP = {"listen": "udp://127.0.0.1:0", "spool": "/spool"}
DIAL = {"endpoint": "telehash://peer:4433", "spool": "/spool", "type": "_chat"}
WRITE = {"endpoint": "telehash://peer:4433", "type": "_chat"}
KINDS = {
    "stream": lambda given: StreamReadOptions.parse(given, TELEHASH_OPTIONS),
    "batch": lambda given: BatchReadOptions.parse(given, TELEHASH_OPTIONS),
    "write": lambda given: WriteOptions.parse(given, TELEHASH_OPTIONS),
    "write stream": lambda given: WriteOptions.parse(
        given, TELEHASH_OPTIONS, OptionKind.STREAM_WRITE
    ),
}


def read(given: dict[str, str]) -> TelehashRead:
    own: TelehashRead = StreamReadOptions.parse(given, TELEHASH_OPTIONS).rows.own
    return own


def write(given: dict[str, str]) -> TelehashWrite:
    own: TelehashWrite = WriteOptions.parse(given, TELEHASH_OPTIONS).own
    return own


def test_a_read_says_which_channels_it_takes_and_when_it_acks() -> None:
    given = {"type": "_a, _b", "ackLevel": "committed", "window": "50", "channelTimeout": "4s"}
    assert read(LISTEN | given) == TelehashRead(
        ("_a", "_b"),
        ChannelIntake(ack_level="committed", window=50, channel_timeout=4.0),
        LineOptions("quic"),
    )
    assert read(LISTEN).types == ()


@pytest.mark.parametrize(
    ("listen", "carrier", "address"),
    [
        ("127.0.0.1:7", "quic", HostPort("127.0.0.1", 7)),
        ("telehash://127.0.0.1:7", "quic", HostPort("127.0.0.1", 7)),
        ("UDP://[::1]:7", "udp", HostPort("::1", 7)),
    ],
)
def test_the_scheme_says_what_carries_the_packets(
    listen: str, carrier: str, address: HostPort
) -> None:
    options = StreamReadOptions.parse(LISTEN | {"listen": listen}, TELEHASH_OPTIONS)
    assert isinstance(options.source, Listen)
    assert options.source.address == address
    assert (options.source.tls is None) is (carrier == "udp")
    assert options.rows.own.line.carrier == carrier


def test_an_endpoint_without_a_scheme_is_reached_over_quic() -> None:
    options = StreamReadOptions.parse(DIAL | {"endpoint": "one:1,two:2"}, TELEHASH_OPTIONS)
    assert isinstance(options.source, Dial)
    assert options.source.endpoint == Endpoint("telehash", (HostPort("one", 1), HostPort("two", 2)))
    assert options.rows.own.line.carrier == "quic"


def test_plain_udp_beyond_this_machine_is_for_networks_that_are_trusted() -> None:
    beyond = UDP | {"listen": "udp://0.0.0.0:4433"}
    assert read(beyond | {"udp.trusted": "true"}).line == LineOptions("udp", trusted=True)
    to = {"endpoint": "udp://10.0.0.7:4433", "type": "_a"}
    assert write(to | {"udp.trusted": "true"}).line.trusted


def test_hashnames_are_written_in_one_form() -> None:
    colons = ":".join(["A1"] * 32)
    line = write(WRITE | {"hashname": colons, "peerHashname": PEER}).line
    assert (line.hashname, line.peer_hashname) == (OWN, PEER)
    assert read(LISTEN | {"peerHashname": PEER}).line.peer_hashname == PEER  # ours is certified


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("stream", DIAL | {"type": ""}, "'type' is ''"),
        ("stream", {"endpoint": "h:1", "spool": "/s"}, "MISSING.*'type'.*to open at the endpoint"),
        ("stream", LISTEN | {"type": "_a,_a"}, "types that differ"),
        ("stream", LISTEN | {"type": "seek"}, "the type of an application"),
        ("stream", LISTEN | {"type": "_" + "x" * 200}, "1 to 200 bytes"),
        ("stream", LISTEN | {"type": ",".join(f"_{n}" for n in range(MAX_TYPES + 1))}, "at most"),
        ("stream", LISTEN | {"ackLevel": "sent"}, "'ackLevel' is 'sent'.*stored, committed"),
        (
            "stream",
            LISTEN | {"ackLevel": "committed", "minOffsetsPerTrigger": "9"},
            r"wait up to 900 s \(maxTriggerDelay\).*give up after 10 s.*ackLevel=stored",
        ),
        ("stream", LISTEN | {"window": "101"}, "'window' is '101'.*1 to 100"),
        ("stream", LISTEN | {"window": "0"}, "'window' is '0'"),
        ("stream", LISTEN | {"channelTimeout": "10"}, "a bare number has no unit"),
        ("stream", LISTEN | {"channelTimeout": "2h"}, "from 100ms to 1h"),
        ("stream", LISTEN | {"udp.trusted": "yes"}, "true or false"),
        ("stream", LISTEN | {"udp.trusted": "true"}, "over QUIC and is encrypted"),
        ("stream", UDP | {"listen": "udp://0.0.0.0:1"}, r"udp:// and the address 0\.0\.0\.0:1.*"),
        ("write", {"endpoint": "udp://10.1.2.3:4", "type": "_a"}, "nothing is encrypted.*trusted"),
        (
            "write",
            {"endpoint": "udp://127.0.0.1:1,peer:2", "type": "_a"},
            "the address peer:2: over plain UDP",
        ),
        ("stream", UDP | {"tls.selfSigned": "true"}, "'tls.selfSigned' has no meaning with udp://"),
        ("write", {"endpoint": "udp://[::1]:1", "tls.insecure": "true"}, "neither QUIC nor TLS"),
        (
            "write",
            {"endpoint": "udp://[::1]:1", "transport": "aioquic"},
            "'transport' has no meaning",
        ),
        ("stream", LISTEN | {"listen": "quicr://127.0.0.1:1"}, "telehash://address:port or udp://"),
        ("write", WRITE | {"endpoint": "aqueduct://h:1"}, "telehash://host:port.*udp://host:port"),
        ("write", WRITE | {"endpoint": "h"}, "host:port with a port"),
        ("write", WRITE | {"hashname": "a1"}, "64 hexadecimal digits"),
        ("write", WRITE | {"peerHashname": PEER}, "MISSING.*'hashname'.*says nothing without it"),
        ("write", WRITE | {"hashname": OWN}, "MISSING.*'peerHashname'.*says nothing without it"),
        ("stream", LISTEN | {"hashname": OWN}, "MISSING.*'peerHashname'"),
        ("stream", UDP | {"peerHashname": PEER}, "MISSING.*'hashname'"),
        ("write", WRITE | {"hashname": OWN, "peerHashname": OWN}, "another one than 'hashname'"),
        ("stream", LISTEN | {"auth.tokenFile": "/t"}, "the protocol has no place for a token"),
        ("write", WRITE | {"auth.tokenEnv": "T"}, "the protocol has no place for a token"),
        ("stream", LISTEN | {"keepChannel": "true"}, "not for a stream read"),
        ("stream", LISTEN | {"maxMessageBytes": "1m"}, "there are no fragments"),
        ("batch", {"spool": "/s", "ackLevel": "stored"}, "'ackLevel' has no meaning with 'spool'"),
        ("write", WRITE | {"ackLevel": "stored"}, "not for a batch write"),
        ("write", WRITE | {"type": "_a,_b"}, "one type; column type has others"),
        ("write", WRITE | {"payloadFormat": "arrow"}, "a row is a packet"),
        ("write", WRITE | {"finish": "true"}, "a channel ends with the rows of its partition"),
        ("write", WRITE | {"maxInFlightBytes": "1m"}, "at most 'window' packets"),
        ("write", WRITE | {"maxLossRatio": "0.1"}, "every row goes on a reliable channel"),
        ("write", WRITE | {"idempotence": "source"}, "one of auto, none"),
        ("write", WRITE | {"writerId": "w"}, "MISSING.*'batchId'"),
        ("write stream", WRITE | {"batchId": "1"}, "for a batch write"),
        ("write", WRITE | {"keepchanel": "true"}, "The nearest one is 'keepChannel'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(kind: str, given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text) as refused:
        KINDS[kind](given)
    assert refused.value.remedy


def test_a_write_says_on_which_channels() -> None:
    assert write(WRITE) == TelehashWrite("_chat", False, 32, 10.0, LineOptions())
    given = {"keepChannel": "true", "window": "100", "channelTimeout": "1m"}
    assert write(WRITE | given) == TelehashWrite("_chat", True, 100, 60.0, LineOptions())
    without = WriteOptions.parse({"endpoint": "h:1"}, TELEHASH_OPTIONS)
    assert without.own.type is None


def test_what_is_stored_is_read_without_a_word_of_lines() -> None:
    options = BatchReadOptions.parse({"spool": "/spool"}, TELEHASH_OPTIONS)
    assert options.rows.own.line == LineOptions()
    given: dict[str, Any] = {"intakes": "h:1", "tls.caFile": "/c", "auth.tokenFile": "/t"}
    assert StreamReadOptions.parse(given, TELEHASH_OPTIONS).source.auth is not None  # type: ignore[union-attr]


def test_spark_finds_it_by_its_module() -> None:
    import pyspark_telehash

    assert pyspark_telehash.DefaultSource is TelehashDataSource
    assert TelehashDataSource.name() == "telehash"

"""An example of each condition that can be had without a network or a session of Spark, made by the
code that raises it; for docs/errors.md. What differs from run to run (a place, a process, a user)
is put into one form."""

from __future__ import annotations

import asyncio
import datetime
import errno
import getpass
import os
import re
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql.types import DataType, IntegerType, StringType, StructType

from aqueduct_core.aio.deliveries import SenderStatistics
from aqueduct_core.aio.outcomes import LostInTransit, Misuse, ReceiverClosed
from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
)
from aqueduct_core.aqueduct.conventions.refusals import over_limit, refusal, refusal_of_producer
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.cli.reading import Unfinished
from aqueduct_core.cli.request import _judge
from aqueduct_core.cli.send import _acked
from aqueduct_core.cli.spool.places import places
from aqueduct_core.cli.subscribe import _ended
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.stalls import Stall
from aqueduct_core.intake.control.cursor_owners import CursorOwners
from aqueduct_core.primitives.json_file import unusable
from aqueduct_core.primitives.token_file import read_token
from aqueduct_core.spool.health import not_opened
from aqueduct_core.spool.lock import SpoolLock
from aqueduct_core.spool.losses import corrupt, offset_ahead, range_gone, skipped
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.events import ChannelClosed, CloseReason
from aqueduct_core.transport import addresses
from aqueduct_core.transport.dialer import _failure, _untrusted
from aqueduct_core.transport.link import CertificateFault
from aqueduct_core.transport.memory_guard import _stuffed
from aqueduct_core.transport.tls.credentials import ServerTls, self_signed
from aqueduct_spark.formats.aqueduct.format import AqueductDataSource
from aqueduct_spark.formats.aqueduct.sink.attempt_connection import as_sink_failure
from aqueduct_spark.intakes.process import _Start
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.planning.progress import replaced
from aqueduct_spark.write.payloads import payload_column

WHERE = "server.example:4433"
PAST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class End:
    """Of a connection that the server closed."""

    code: int
    reason: str
    by_peer: bool = True
    origin: CloseOrigin = CloseOrigin.APPLICATION


def read(**options: str) -> None:
    given = {"listen": "127.0.0.1:4433", "spool": "/data/spool", "tls_selfSigned": "true"} | options
    AqueductDataSource({key.replace("_", "."): value for key, value in given.items()}).schema()


def write(overwrite: bool = False, **columns: DataType) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    options = {"endpoint": "aqueduct://127.0.0.1:4433", "tls.insecure": "true"}
    AqueductDataSource(options).writer(schema, overwrite)


def raised(error: Exception | None) -> None:
    assert error is not None
    raise error


def resolved() -> Coroutine[Any, Any, Any]:
    return addresses.resolve("sever.example", 4433)


def unknown_host(home: Path) -> None:
    failure = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with mock.patch("socket.getaddrinfo", side_effect=failure):
        asyncio.run(resolved())


def expired(home: Path) -> None:
    issued = self_signed(["server.example"], days=1, at=PAST)
    (home / "cert.pem").write_bytes(issued.cert_pem)
    (home / "key.pem").write_bytes(issued.key_pem)
    ServerTls(home / "cert.pem", home / "key.pem").checked(PAST + datetime.timedelta(days=30))


def locked(home: Path) -> None:
    first = SpoolLock(home)
    try:
        SpoolLock(home)
    finally:
        first.release()


def cursor_in_use(home: Path) -> None:
    owners = CursorOwners(home)
    owners.claim("query", "7f31", "host driver.example", PAST.timestamp())
    owners.check("query", "c0de")


def of_another(home: Path) -> None:
    with mock.patch("os.geteuid", return_value=65_534):
        raise unusable(home, PermissionError(errno.EACCES, "Permission denied"), "")


def newer_keys(home: Path) -> None:
    (home / ".keys").write_text('{"v": 9}')
    Credentials.for_spool(home)


def null_value(home: Path) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array(["a", None])})
    payload_column(rows, "text", 100)


def not_ready(home: Path) -> None:
    (home / "intake.log").write_text("recovering segment 7 of 4000\n")
    reading, writing = os.pipe()
    host = mock.patch("socket.gethostname", return_value="worker-3")
    with os.fdopen(reading, "rb") as silent, os.fdopen(writing, "wb"), host:
        _Start(str(home), home / "intake.log", 0).outcome(silent, 0.5)


def certificate(fault: CertificateFault, reason: str) -> None:
    link = SimpleNamespace(certificate_fault=fault)
    driver: Any = SimpleNamespace(link=link)
    raise _untrusted("192.0.2.7", WHERE, driver, reason)


def slow_handshake(home: Path) -> None:
    driver: Any = SimpleNamespace(
        lost=SimpleNamespace(origin=CloseOrigin.HANDSHAKE_TIMEOUT, by_peer=False),
        link=SimpleNamespace(alert=None),
        statistics=SimpleNamespace(datagrams_received=2),
    )
    line: Any = SimpleNamespace(address=("192.0.2.7", 4433), unreachable=None)
    raise _failure("server.example", line, driver)


def no_acks(home: Path) -> None:
    sender: Any = SimpleNamespace(statistics=SenderStatistics(100, 97, 0, 100, 97))
    asyncio.run(_acked(sender, mock.AsyncMock(side_effect=TimeoutError), 60.0))


def no_replies(home: Path) -> None:
    reading: Any = SimpleNamespace(unfinished=[])
    replies: Any = SimpleNamespace(statistics=SimpleNamespace(taken=0))
    _judge(reading, replies)


def ended_channel(reason: CloseReason, err: str | None = None) -> None:
    """Of Telehash."""
    line: Any = SimpleNamespace(peer_name="203.0.113.7:4433", config=TelehashConfig(), held=0)
    channel = TelehashChannel(line, 3, "_log", reliable=True, timeout=None)
    channel.opened(end=False)
    channel.hear(ChannelClosed(3, reason, err, by_peer=err is not None, unacked=1))
    asyncio.run(channel.delivered())


EXAMPLES: dict[str, Callable[[Path], None]] = {
    "AQUEDUCT_INVALID_OPTION.UNKNOWN": lambda _: read(startingOffset="latest"),
    "AQUEDUCT_INVALID_OPTION.MISSING": lambda _: read(tls_selfSigned="false"),
    "AQUEDUCT_INVALID_OPTION.CONFLICT": lambda _: read(endpoint="aqueduct://server.example:4433"),
    "AQUEDUCT_INVALID_OPTION.BAD_VALUE": lambda _: read(groupCommit="20"),
    "AQUEDUCT_INVALID_OPTION.NOT_FOR_QUERY_TYPE": lambda _: read(endingOffsets="latest"),
    "AQUEDUCT_SCHEMA.COLUMN_MISSING": lambda _: write(channel=StringType()),
    "AQUEDUCT_SCHEMA.COLUMN_TYPE": lambda _: write(value=IntegerType()),
    "AQUEDUCT_SCHEMA.COLUMN_UNKNOWN": lambda _: write(value=StringType(), topic=StringType()),
    "AQUEDUCT_SCHEMA.REQUIRED": lambda _: read(payloadFormat="json"),
    "AQUEDUCT_SAVE_MODE": lambda _: write(True, value=StringType()),
    "AQUEDUCT_CONNECT.REFUSED": lambda _: raised(
        addresses.refused(
            ("192.0.2.7", 4433), ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        )
    ),
    "AQUEDUCT_CONNECT.TIMEOUT": slow_handshake,
    "AQUEDUCT_CONNECT.DNS": unknown_host,
    "AQUEDUCT_CONNECT.NO_REPLY": lambda _: raised(
        refusal(WHERE, End(0, "the server is going down"))
    ),
    "AQUEDUCT_CONNECT.NO_MEMORY": lambda _: raised(_stuffed(8 << 20)),
    "AQUEDUCT_TLS.EXPIRED": expired,
    "AQUEDUCT_TLS.UNKNOWN_CA": lambda _: certificate(
        CertificateFault.AUTHORITY, "self-signed certificate"
    ),
    "AQUEDUCT_TLS.NAME_MISMATCH": lambda _: certificate(
        CertificateFault.NAME,
        "hostname '192.0.2.7' doesn't match DNSPattern(pattern=b'server.example')",
    ),
    "AQUEDUCT_AUTH.REJECTED": lambda _: raised(
        refusal(WHERE, End(CODE_REJECTED, "the token is not valid"))
    ),
    "AQUEDUCT_AUTH.MISSING": lambda home: raised_by(read_token, home / "token"),
    "AQUEDUCT_VERSION_MISMATCH": lambda _: raised(
        refusal(WHERE, End(Code.VERSION, "no common version"))
    ),
    "AQUEDUCT_PROTOCOL_VIOLATION": lambda _: raised(
        refusal(WHERE, End(Code.ENCODING, "a frame of type 99", by_peer=False))
    ),
    "AQUEDUCT_DATA_LOSS.RANGE_GONE": lambda home: raised(range_gone(home, 1, 100, 200)),
    "AQUEDUCT_DATA_LOSS.SPOOL_REPLACED": lambda _: raised(
        replaced(0, "9a7e", "51d0", "the checkpoint is of spool 51d0")
    ),
    "AQUEDUCT_DATA_LOSS.OFFSET_AHEAD": lambda home: raised(offset_ahead(home, 1, 200, 150)),
    "AQUEDUCT_DATA_LOSS.SKIPPED": lambda _: raised(skipped(1, 100, 200)),
    "AQUEDUCT_SPOOL.FULL": lambda home: raised(
        not_opened(home, OSError(errno.ENOSPC, "No space left on device"))
    ),
    "AQUEDUCT_SPOOL.IO": lambda home: raised_by(places, home),
    "AQUEDUCT_SPOOL.FORBIDDEN": of_another,
    "AQUEDUCT_SPOOL.CORRUPT": lambda home: raised(
        corrupt(home / "segment-4.arrows", 1, 100, 200, "the checksum does not match")
    ),
    "AQUEDUCT_SPOOL.LOCKED": locked,
    "AQUEDUCT_SPOOL.CURSOR_IN_USE": cursor_in_use,
    "AQUEDUCT_SPOOL.VERSION": newer_keys,
    "AQUEDUCT_INTAKE.LAUNCH_TIMEOUT": not_ready,
    "AQUEDUCT_INTAKE.UNREACHABLE": lambda _: raised(
        Stall.of("spool-away", "intake 0", place="worker-3, worker-4").error
    ),
    "AQUEDUCT_SINK.ACK_TIMEOUT": no_acks,
    "AQUEDUCT_SINK.RECEIVER_CLOSED": lambda _: raised(as_sink_failure(ReceiverClosed("orders", 3))),
    "AQUEDUCT_SINK.LOST_IN_TRANSIT": lambda _: raised(as_sink_failure(LostInTransit("orders"))),
    "AQUEDUCT_SINK.CANCELLED": lambda _: raised(
        as_sink_failure(Misuse("channel 'orders' was cancelled"))
    ),
    "AQUEDUCT_SINK.MESSAGE_TOO_LARGE": lambda _: raised(
        over_limit(WHERE, End(Code.RESOURCE_LIMIT, "a message of 20000000 bytes, at most 16777216"))
    ),
    "AQUEDUCT_SINK.FENCED": lambda _: raised(
        refusal_of_producer(WHERE, "sensor-7", End(CODE_FENCED, "another run has the channel"))
    ),
    "AQUEDUCT_SINK.NOT_REPEATABLE": lambda _: raised(
        refusal_of_producer(
            WHERE, "sensor-7", End(CODE_NOT_REPEATABLE, "number 12 has other content")
        )
    ),
    "AQUEDUCT_CHANNEL.CANCELLED": lambda _: raised(_ended(Unfinished("orders", "cancelled"), 1)),
    "AQUEDUCT_CHANNEL.FAILED": lambda _: ended_channel(CloseReason.FAILED, "unknown type"),
    "AQUEDUCT_CHANNEL.LOST": lambda _: raised(_ended(Unfinished("orders", "lost"), 2)),
    "AQUEDUCT_CHANNEL.OVERFLOW": lambda _: raised(_ended(Unfinished("orders", "overflow"), 1)),
    "AQUEDUCT_CHANNEL.NO_REPLY": no_replies,
    "AQUEDUCT_CHANNEL.TIMEOUT": lambda _: ended_channel(CloseReason.TIMED_OUT),
    "AQUEDUCT_CHECKPOINT_VERSION": lambda _: raised_by(
        StreamOffset.from_json, {"v": 99}, "aqueduct"
    ),
}


def raised_by(call: Callable[..., Any], *arguments: Any) -> None:
    call(*arguments)


def example(name: str, home: Path) -> str | None:
    """The text of an error of this condition; None where there is no example. ``home`` is empty."""
    if name not in EXAMPLES:
        return None
    try:
        EXAMPLES[name](home)
    except AqueductError as error:
        found = error
    else:
        raise AssertionError(f"{name} is not raised")
    if found.name != name:
        raise AssertionError(f"{name} is {found}")
    text = str(found).replace(str(home), "/data/spool")
    text = re.sub(rf"\bbelongs to {re.escape(getpass.getuser())}\b", "belongs to spark", text)
    text = re.sub(rf"\bRun it as {re.escape(getpass.getuser())}\b", "Run it as spark", text)
    text = re.sub(r"runs as (user \d+|\w+)", "runs as nobody", text)
    return re.sub(rf"\bprocess {os.getpid()}\b", "process 4711", text)

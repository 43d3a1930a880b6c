"""What Aqueduct makes of the options that it alone has."""

from __future__ import annotations

from aqueduct_spark.formats.aqueduct.options import (
    AQUEDUCT_OPTIONS,
    AqueductRead,
    AqueductWrite,
    Request,
)
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.options.write import WriteOptions


def read(**given: str) -> AqueductRead:
    options = {"endpoint": "aqueduct://far:1", "spool": "/s"} | given
    own = StreamReadOptions.parse(options, AQUEDUCT_OPTIONS).rows.own
    assert isinstance(own, AqueductRead)
    return own


def write(**given: str) -> AqueductWrite:
    options = {"endpoint": "aqueduct://far:1"} | given
    own = WriteOptions.parse(options, AQUEDUCT_OPTIONS).own
    assert isinstance(own, AqueductWrite)
    return own


def test_without_a_name_one_empty_request_is_sent() -> None:
    assert read() == AqueductRead(requests=(Request("", (), ""),))


def test_the_payload_of_a_request_is_empty_by_default() -> None:
    assert read(subscribe="x").requests == (Request("x", (), ""),)


def test_each_name_is_a_request_of_its_own() -> None:
    requests = read(subscribe="x,y", subscribeHeaders='{"k":"{name}"}', subscribePayload="p")
    assert requests.requests == tuple(Request(n, (("k", "{name}"),), "p") for n in "xy")
    assert "{name}" not in repr(requests)


def test_what_a_write_says_of_its_rows() -> None:
    assert write() == AqueductWrite(None, "ordered", trusts_superseded=False)
    named = write(channel="c", reliability="unordered", supersededBatch="trust")
    assert named == AqueductWrite("c", "unordered", trusts_superseded=True)

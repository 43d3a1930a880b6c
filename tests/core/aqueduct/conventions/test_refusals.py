"""What a close means, by its code and whose code it is; never by its reason."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aqueduct.conventions.headers import (
    CODE_FENCED,
    CODE_NOT_REPEATABLE,
    CODE_REJECTED,
)
from aqueduct_core.aqueduct.conventions.refusals import (
    broke_protocol,
    over_limit,
    refusal,
    refusal_of_producer,
)
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin


@pytest.mark.parametrize(
    ("closed", "name"),
    [
        (Closed(CODE_REJECTED, "no token", True), "AQUEDUCT_AUTH.REJECTED"),
        (Closed(Code.VERSION, "version 9", True), "AQUEDUCT_VERSION_MISMATCH"),
        (Closed(Code.STATE, "we say so", False), "AQUEDUCT_PROTOCOL_VIOLATION"),
        (Closed(Code.STATE, "it says so", True), "AQUEDUCT_CONNECT.NO_REPLY"),
        (Closed(Code.NO_ERROR, "", True), "AQUEDUCT_CONNECT.NO_REPLY"),
        (Closed(CODE_REJECTED, "", True, CloseOrigin.TRANSPORT), "AQUEDUCT_CONNECT.NO_REPLY"),
    ],
)
def test_a_connection_that_was_not_accepted(closed: Closed, name: str) -> None:
    error = refusal("host:4433", closed)
    assert error.name == name
    assert "host:4433" in error.what


def test_an_error_of_quic_goes_by_its_name() -> None:
    closed = Closed(Code.VERSION, "", by_peer=True, origin=CloseOrigin.TRANSPORT)
    assert "FLOW_CONTROL_ERROR" in refusal("host:4433", closed).what


@pytest.mark.parametrize(
    ("closed", "subclass"),
    [
        (Closed(CODE_NOT_REPEATABLE, "other content", True), "NOT_REPEATABLE"),
        (Closed(CODE_FENCED, "another", True), "FENCED"),
        (Closed(Code.RESOURCE_LIMIT, "header bytes of 9, limit 8", True), "MESSAGE_TOO_LARGE"),
        (Closed(Code.RESOURCE_LIMIT, "our own limit", False), None),
        (Closed(Code.RESOURCE_LIMIT, "", True, CloseOrigin.TRANSPORT), None),
        (Closed(CODE_FENCED, "another", False), None),
        (Closed(CODE_FENCED, "", True, CloseOrigin.TRANSPORT), None),
        (Closed(Code.NO_ERROR, "", True), None),
    ],
)
def test_a_producer_that_had_been_accepted(closed: Closed, subclass: str | None) -> None:
    error = refusal_of_producer("host:4433", "p-1", closed)
    assert (error and error.subclass) == subclass


def test_what_is_over_a_limit_of_the_peer_is_not_to_be_sent_again() -> None:
    closed = Closed(Code.RESOURCE_LIMIT, "header bytes of 70003, limit 64000", by_peer=True)
    accepted = over_limit("host:4433", closed)
    assert accepted is not None
    for error in (accepted, refusal("host:4433", closed), ConnectionLost("channel 8", *closed)):
        assert "70003" in error.what
        assert "64000" in error.what
        assert "raise that limit" in error.remedy
        assert "Try again" not in error.remedy
        assert "send them again" not in error.remedy
    assert over_limit("host:4433", Closed(Code.STATE, "", by_peer=True)) is None


def test_who_broke_the_protocol_is_closed_by_us() -> None:
    assert broke_protocol(Closed(Code.ENCODING, "", False))
    assert not broke_protocol(Closed(Code.ENCODING, "", True))
    assert not broke_protocol(Closed(Code.NO_ERROR, "", False))
    assert not broke_protocol(Closed(Code.ENCODING, "", False, CloseOrigin.TRANSPORT))

"""Broken rules of Aqueduct, one by one, on real sockets; row 28 of the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.primitives.varint import encode
from tests.hostile.admitted import ENTRYPOINT, FIRST, attaching, channel, message, route
from tests.hostile.attack import Target
from tests.hostile.good import BULK, GoodProducer
from tests.hostile.measuring import cpu_seconds
from tests.hostile.raw import RawClient, stream
from tests.hostile.verdict import NOISE
from tests.support.intake_process import IntakeProcess, Site
from tests.support.processes import private_bytes

pytestmark = pytest.mark.hostile

AT = route(ENTRYPOINT)
HUGE = encode((1 << 63) - 1)
ANSWERS = 2
"""A channel that the client makes, and on which the server sends."""
ROUNDS = 10


@dataclass(frozen=True)
class Violation:
    """Sequences, each on a stream of its own, and the code with which the connection is closed."""

    code: Code
    sequences: tuple[bytes, ...]
    before_headers: bool = False
    end: bool = False


def first(code: Code, sequence: bytes) -> Violation:
    """Instead of a client's first stream."""
    return Violation(code, (sequence,), before_headers=True)


def later(code: Code, *sequences: bytes, end: bool = False) -> Violation:
    """By a client that was admitted."""
    return Violation(code, sequences, end=end)


VIOLATIONS = {
    "headers before VERSION": first(Code.VERSION, b"\x02\0"),
    "a message before VERSION": first(Code.VERSION, AT + message(0)),
    "another version": first(Code.VERSION, VERSION[:-1] + b"X\x02\0"),
    "headers twice at first": first(Code.HEADERS, VERSION + b"\x02\0\x02\0"),
    "headers once more": later(Code.HEADERS, b"\x02\0"),
    "half of a header": first(Code.ENCODING, VERSION + b"\x02\x02\x01k"),
    "an attachment that the server would make": later(
        Code.CONTEXT, AT + message(0, attached=encode(9) + b"\0")
    ),
    "the entrypoint as an attachment": later(Code.CONTEXT, AT + message(0, attached=b"\0\0")),
    "a channel attached twice at once": later(
        Code.CONTEXT, AT + message(0, attached=attaching([1, 1]))
    ),
    "a channel attached again": later(
        Code.STATE, AT + message(0, attached=attaching([1])) + message(1, attached=attaching([1]))
    ),
    "an ack beyond what was sent": later(
        Code.ACK,
        AT + message(0, attached=encode(ANSWERS) + b"\0"),
        route(ANSWERS) + b"\x08\x02\0\x05",
    ),
    "an ack by the sender": later(Code.CONTEXT, AT + b"\x08\x02\0\x01"),
    "a message to who sends": later(
        Code.CONTEXT, AT + message(0, attached=encode(ANSWERS) + b"\0"), route(ANSWERS) + message(0)
    ),
    "a number twice": later(Code.STATE, AT + message(0), AT + message(0)),
    "a number beyond the finish": later(Code.STATE, AT + b"\x06\x01", AT + message(5)),
    "two finishes": later(Code.STATE, AT + b"\x06\0\x06\0"),
    "a frame that there is not": later(Code.ENCODING, b"\x0d"),
    "a number that is too long": later(Code.ENCODING, b"\x03\x80\0"),
    "a frame that is cut off": later(Code.ENCODING, AT + b"\x04\0", end=True),
    "headers of 2^63 bytes": later(Code.RESOURCE_LIMIT, AT + b"\x04\0" + HUGE),
    "attachments of 2^63 bytes": later(Code.RESOURCE_LIMIT, AT + b"\x04\0\0" + HUGE),
    "a payload of 2^63 bytes": later(Code.RESOURCE_LIMIT, AT + b"\x04\0\0\0" + HUGE),
    "too many headers": later(
        Code.RESOURCE_LIMIT, AT + message(0, headers=encode(600) + b"\0\0" * 300)
    ),
    "too many attachments": later(
        Code.RESOURCE_LIMIT,
        AT
        + b"\x04\0\0"
        + encode(3_950)
        + b"".join(encode(channel(n)) + b"\0" for n in range(1, 1_400)),
    ),
    "a number far ahead": later(Code.RESOURCE_LIMIT, AT + message(1 << 40)),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def intake(site: Site) -> Iterator[IntakeProcess]:
    with site.intake() as running:
        yield running


@pytest.fixture(scope="module")
def good(site: Site, intake: IntakeProcess) -> Iterator[GoodProducer]:
    """Beside all of them; at its end every message of it has its ack."""
    with GoodProducer(intake.url, site.client_tls, lambda: cpu_seconds(intake.pid)) as producer:
        producer.more_acks(BULK)
        yield producer
    assert producer.acked == producer.sent
    assert producer.nacked == 0


def commit(violation: Violation, target: Target) -> RawClient:
    """Break the rule on a new connection, and wait for its end."""
    raw = target.shaken() if violation.before_headers else target.entered()
    number = 2 if violation.before_headers else FIRST
    for sequence in violation.sequences:
        for start in range(0, len(sequence), 1_000):
            piece = sequence[start : start + 1_000]
            last = violation.end and start + 1_000 >= len(sequence)
            raw.packet(stream(number, start, piece, end=last))
        number += 4
    raw.wait_closed()
    raw.close()
    return raw


@pytest.mark.parametrize("name", VIOLATIONS)
def test_fault_28_a_broken_rule_ends_that_connection_and_no_other(
    name: str, intake: IntakeProcess, good: GoodProducer
) -> None:
    host, port = intake.listen.rsplit(":", 1)
    raw = commit(VIOLATIONS[name], Target(host, int(port)))
    lost = raw.lost
    assert lost is not None
    assert (Code(lost.code), lost.origin) == (VIOLATIONS[name].code, CloseOrigin.APPLICATION)
    good.more_acks(5)


def test_fault_28_broken_rules_leave_nothing_behind(
    intake: IntakeProcess, good: GoodProducer
) -> None:
    host, port = intake.listen.rsplit(":", 1)
    target = Target(host, int(port))
    before = private_bytes(intake.pid)
    for _ in range(ROUNDS):
        for violation in VIOLATIONS.values():
            commit(violation, target)
        good.more_acks(5)
    assert private_bytes(intake.pid) - before <= NOISE

"""The states of the sending half, each with every input."""

from __future__ import annotations

import itertools

import pytest

from aqueduct_core.aqueduct.faults import NotAllowed
from aqueduct_core.aqueduct.sender_table import REFUSED, SENDER_TABLE, SenderInput, SenderState
from tests.support.rules import rule
from tests.support.wire import Wire


def in_state(state: SenderState) -> Wire:
    wire = Wire.client()
    wire.engine.send(0, b"a", now=0)
    if state is SenderState.FINISHING:
        wire.engine.finish(0, 0)
    elif state is SenderState.CANCELLING:
        wire.engine.cancel(0, 0)
    return wire.fresh()


def give(wire: Wire, given: SenderInput) -> None:
    match given:
        case SenderInput.SEND:
            wire.engine.send(0, b"b", now=0)
        case SenderInput.FINISH:
            wire.engine.finish(0, 0)
        case SenderInput.CANCEL:
            wire.engine.cancel(0, 0)
        case SenderInput.ACKS:
            wire.stream("030008020001")
        case SenderInput.CLOSE_RECEIVER:
            wire.stream("03000a")


OUTSIDE = {SenderInput.FORGET, SenderInput.LOST}
"""Never on the entrypoint of a client; shown on other channels in test_channels."""


@rule("AQ-SEND-9")
@pytest.mark.parametrize(
    ("state", "given"),
    [pair for pair in itertools.product(SENDER_TABLE, SenderInput) if pair[1] not in OUTSIDE],
    ids=lambda value: value.name,
)
def test_the_table(state: SenderState, given: SenderInput) -> None:
    wire = in_state(state)
    after = SENDER_TABLE[state][given]
    if after is REFUSED:
        with pytest.raises(NotAllowed):
            give(wire, given)
        assert wire.sent() == []
        after = state
    else:
        give(wire, given)
    assert wire.engine.half_open(0) == (after is not SenderState.GONE)
    assert wire.engine.can_send(0) == (after is SenderState.OPEN)


def test_the_table_is_whole() -> None:
    assert set(SENDER_TABLE) == set(SenderState) - {SenderState.GONE}
    for row in SENDER_TABLE.values():
        assert set(row) == set(SenderInput)

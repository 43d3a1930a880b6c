"""Inputs and actions are values."""

from __future__ import annotations

from aqueduct_core.engine import contract
from aqueduct_core.engine.contract import Consumed, StreamBytes, WriteStream


def test_facts_and_orders_are_immutable_tuples() -> None:
    assert StreamBytes(2, b"x", True) == (2, b"x", True)
    assert Consumed(2, 5).count == 5
    assert hash(WriteStream(2, b"", False)) == hash(WriteStream(2, b"", False))


def test_the_contract_names_every_fact_and_order() -> None:
    inputs = {kind.__name__ for kind in contract.Input.__args__}
    actions = {kind.__name__ for kind in contract.Action.__args__}
    assert inputs == {
        "StreamBytes",
        "StreamReset",
        "StreamStopped",
        "Datagram",
        "DatagramRefused",
        "DatagramsLeft",
        "DatagramDelivered",
        "DatagramLost",
        "EarlyReady",
        "EarlyRejected",
        "LinkReady",
        "LinkRoom",
        "LinkRtt",
        "StreamLimit",
        "LinkLost",
    }
    assert actions == {
        "WriteStream",
        "ResetStream",
        "StopStream",
        "SendDatagram",
        "Consumed",
        "Admit",
        "CloseLink",
    }

"""Inputs and actions are values."""

from __future__ import annotations

from aqueduct_core.engine.actions import Action, Consumed, WriteStream
from aqueduct_core.engine.inputs import Input, StreamBytes


def test_inputs_and_actions_are_immutable_tuples() -> None:
    assert StreamBytes(2, b"x", True) == (2, b"x", True)
    assert Consumed(2, 5).count == 5
    assert hash(WriteStream(2, b"", False)) == hash(WriteStream(2, b"", False))


def test_the_contract_names_every_input_and_action() -> None:
    inputs = {kind.__name__ for kind in Input.__args__}
    actions = {kind.__name__ for kind in Action.__args__}
    assert inputs == {
        "StreamBytes",
        "StreamReset",
        "StreamStopped",
        "StreamLeft",
        "Datagram",
        "DatagramLimit",
        "DatagramOutcome",
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

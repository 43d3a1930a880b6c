"""The order of calls that the contract promises, walked on the engine of Aqueduct."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aqueduct_core.aqueduct.config import AckMode, Config
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Closed, End, Ended, Event
from aqueduct_core.aqueduct.faults import ConnectionOver
from aqueduct_core.engine.actions import CloseLink, WriteStream
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine, StorageEngine
from aqueduct_core.engine.inputs import Datagram, LinkLost, LinkReady, StreamBytes
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.support.wire import Wire, unhex

MESSAGE = "0300" + "04000000026869"
"""Message 0 of the entrypoint."""


def storing() -> Wire:
    """A server that acks what is stored, and has one message of its client."""
    wire = Wire.server(Config(auto_accept=True, ack_mode=AckMode.ON_STORED))
    wire.stream(MESSAGE)
    assert [batch.payload for batch in wire.events(MessageBatch)] == [b"hi"]
    wire.fresh()
    return wire


def over(end: str) -> Wire:
    """A server whose connection ended in this way; its actions and events are not taken yet."""
    wire = storing()
    if end == "shutdown":
        wire.engine.shutdown(0, "bye", wire.now)
    elif end == "fault":
        wire.engine.handle(StreamBytes(6, unhex("ff"), False), wire.now)
    else:
        wire.engine.handle(LinkLost(0x3, "too much", True, CloseOrigin.TRANSPORT), wire.now)
    return wire


ENDS = ["shutdown", "fault", "lost"]


def test_an_aqueduct_engine_is_a_storage_engine() -> None:
    storage: StorageEngine[Event] = AqueductEngine(Wire.server().engine.side)
    engine: Engine[Event] = storage  # checked by the type checker
    assert engine.wake_at is not None
    assert storage.closed is None


def test_after_a_command_its_actions_and_events_are_there() -> None:
    wire = storing()
    engine: StorageEngine[Event] = wire.engine
    engine.stored(0, 0, 1, reliable=True, now=wire.now)
    acks = [action for action in engine.actions() if isinstance(action, WriteStream)]
    assert [action.data for action in acks] == [unhex("0300" + "08020001")]
    assert (engine.actions(), engine.events()) == ([], [])


def test_commands_on_a_channel_that_has_ended_are_without_effect() -> None:
    wire = storing()
    wire.engine.close(0, wire.now)
    assert [ended.end for ended in wire.events(Ended)] == [End.CLOSED]
    wire.fresh()
    engine: StorageEngine[Event] = wire.engine
    engine.stored(0, 0, 1, reliable=True, now=wire.now)
    engine.refused(0, 0, 1, wire.now)
    engine.consumed(0, 2, wire.now)
    engine.confirm(0, wire.now)
    assert (engine.actions(), engine.events()) == ([], [])


def test_between_pause_and_resume_streams_wait_and_datagrams_are_lost() -> None:
    wire = storing()
    engine: StorageEngine[Event] = wire.engine
    engine.pause()
    engine.handle(StreamBytes(6, unhex("0300" + "040100000161"), False), wire.now)
    engine.handle(Datagram(unhex("0300" + "040000000162")), wire.now)
    assert (engine.actions(), engine.events()) == ([], [])
    engine.resume(wire.now)
    batches = [event for event in engine.events() if isinstance(event, MessageBatch)]
    assert [(batch.reliable, batch.payload) for batch in batches] == [(True, b"a")]


@pytest.mark.parametrize("end", ENDS)
def test_after_the_end_the_last_actions_and_events_come_once(end: str) -> None:
    engine: StorageEngine[Event] = over(end).engine
    actions = engine.actions()
    if end == "lost":
        assert actions == []
    else:
        close = actions[-1]
        assert isinstance(close, CloseLink)
        assert close.origin is CloseOrigin.APPLICATION
    events = engine.events()
    closed = events[-1]
    assert isinstance(closed, Closed)
    assert closed == engine.closed
    assert [type(event) for event in events[:-1]] == [Ended]
    assert (engine.actions(), engine.events(), engine.wake_at) == ([], [], None)


def test_the_origin_of_the_end_is_kept() -> None:
    lost, given_up = over("lost").engine.closed, over("shutdown").engine.closed
    assert lost is not None
    assert given_up is not None
    assert (lost.code, lost.by_peer, lost.origin) == (0x3, True, CloseOrigin.TRANSPORT)
    assert (given_up.by_peer, given_up.origin) == (False, CloseOrigin.APPLICATION)


@pytest.mark.parametrize("end", ENDS)
def test_after_the_end_inputs_and_what_needs_no_answer_change_nothing(end: str) -> None:
    wire = over(end)
    engine: StorageEngine[Event] = wire.engine
    closed = engine.closed
    engine.actions(), engine.events()
    engine.handle(StreamBytes(10, unhex(MESSAGE), True), wire.now)
    engine.handle(Datagram(unhex(MESSAGE)), wire.now)
    engine.handle(LinkReady(1200), wire.now)
    engine.handle(LinkLost(7, "again", False), wire.now)
    engine.tick(wire.now + 1000)
    engine.pause()
    engine.resume(wire.now)
    engine.consumed(0, 2, wire.now)
    engine.shutdown(9, "again", wire.now)
    assert engine.closed is closed
    assert (engine.actions(), engine.events(), engine.wake_at) == ([], [], None)


COMMANDS: dict[str, Callable[[AqueductEngine], object]] = {
    "accept": lambda engine: engine.accept((), 0),
    "send": lambda engine: engine.send(0, b"", now=0),
    "send_many": lambda engine: engine.send_many(0, [b""], now=0),
    "finish": lambda engine: engine.finish(0, 0),
    "cancel": lambda engine: engine.cancel(0, 0),
    "close": lambda engine: engine.close(0, 0),
    "drop": lambda engine: engine.drop([Attachment(8, ())], 0),
    "stored": lambda engine: engine.stored(0, 0, 1, reliable=True, now=0),
    "refused": lambda engine: engine.refused(0, 0, 1, 0),
    "confirm": lambda engine: engine.confirm(0, 0),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_after_the_end_commands_are_refused(end: str, command: str) -> None:
    engine = over(end).engine
    with pytest.raises(ConnectionOver):
        COMMANDS[command](engine)

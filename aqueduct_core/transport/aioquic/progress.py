"""What has left of datagrams, and for an engine that asks, of streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aqueduct_core.engine.actions import Action, WriteStream
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, Input, StreamLeft
from aqueduct_core.transport.aioquic.streams import StreamSender


class Senders(Protocol):
    """The connection, as far as it is asked here."""

    @property
    def datagrams_left(self) -> int | None:
        """The token of the last datagram that has left."""

    def sender_of(self, stream_id: int) -> StreamSender | None:
        """What is sent on a stream; None: it is over, was given up, or we may not write it."""


class SendProgress:
    """How far the datagrams of a connection have left, and its streams.

    ``of_streams``: the engine asks for them; to be set before anything is written on one.

    Holds: for each stream of which bytes may not have left, how many are known to have.
    """

    __slots__ = ("_connection", "_datagrams", "_leaving", "of_streams")

    def __init__(self, connection: Senders, *, of_streams: bool) -> None:
        self.of_streams = of_streams
        self._connection = connection
        self._datagrams: int | None = None
        self._leaving: dict[int, int] = {}

    def writes(self, actions: Iterable[Action]) -> None:
        """Say what will be written on streams, before that is done."""
        for action in actions:
            if isinstance(action, WriteStream) and action.stream_id not in self._leaving:
                sender = self._connection.sender_of(action.stream_id)
                # Whatever was written on it before has left, and is known to have.
                self._leaving[action.stream_id] = sender.left if sender is not None else 0

    def inputs(self) -> list[Input]:
        """What has left since the last call."""
        inputs: list[Input] = []
        token = self._connection.datagrams_left
        if token is not None and token != self._datagrams:
            self._datagrams = token
            inputs.append(DatagramOutcome(token, DatagramFate.LEFT))
        if self._leaving:
            self._streams(inputs)
        return inputs

    def _streams(self, inputs: list[Input]) -> None:
        for stream_id, known in list(self._leaving.items()):
            sender = self._connection.sender_of(stream_id)
            if sender is None:
                del self._leaving[stream_id]
                continue
            left = sender.left
            if left > known:
                inputs.append(StreamLeft(stream_id, left))
                self._leaving[stream_id] = left
            if left == sender.written:
                del self._leaving[stream_id]

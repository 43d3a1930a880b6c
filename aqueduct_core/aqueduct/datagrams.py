"""Datagram messages that the transport may still refuse as too large (AQ-SEND-5)."""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.aqueduct.news import Attachment, Headers


class DatagramMessage(NamedTuple):
    channel: int
    number: int
    headers: Headers
    attachments: tuple[Attachment, ...]
    payload: bytes


class Refusable:
    """Messages by token, of the orders not taken yet and of the last ones with datagrams.

    A transport refuses while it carries out orders, so older ones cannot come back.
    """

    __slots__ = ("_fresh", "_handed_over")

    def __init__(self) -> None:
        self._fresh: dict[int, DatagramMessage] = {}
        self._handed_over: dict[int, DatagramMessage] = {}

    def add(self, token: int, message: DatagramMessage) -> None:
        self._fresh[token] = message

    def turn(self) -> None:
        """Orders are taken: with new datagrams in them, the earlier ones are past refusal."""
        if self._fresh:
            self._handed_over, self._fresh = self._fresh, {}

    def refused(self, token: int) -> DatagramMessage | None:
        return self._handed_over.pop(token, None)

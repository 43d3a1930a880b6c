"""The channels of one connection that flow to us, and the memory that they take."""

from __future__ import annotations

from aqueduct_core.aqueduct.wire.codec import headers_size
from aqueduct_core.intake.sessions.context import SessionChannel

CHANNEL_BYTES = 1_200
"""A channel with its source, its tally and what is counted of its repeats."""
PAIR_BYTES = 150
"""The objects of a header, beside its bytes."""

MAX_PATH = 256
"""Bytes, as of a name. The path of a channel deeper in the tree begins with an ellipsis, so that a
deep tree costs each channel the same; the number at its end is unique on the connection."""


class OpenChannels(dict[int, SessionChannel]):
    """By number. ``memory``: bytes, about. A number is given once."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = 0

    def __setitem__(self, number: int, channel: SessionChannel) -> None:
        super().__setitem__(number, channel)
        self.memory += _memory(channel)

    def end(self, number: int) -> SessionChannel | None:
        """Take out a channel; None: there is none."""
        channel = self.pop(number, None)
        if channel is not None:
            self.memory -= _memory(channel)
        return channel

    def clear(self) -> None:
        super().clear()
        self.memory = 0


def _memory(channel: SessionChannel) -> int:
    headers = channel.source.channel_headers
    return CHANNEL_BYTES + headers_size(headers) + PAIR_BYTES * len(headers)


def path_below(parent: str, number: int) -> str:
    """The path of channel ``number``, which came in a message on the channel of path ``parent``."""
    path = f"{parent}/{number}"
    return path if len(path.encode()) <= MAX_PATH else f"…/{number}"

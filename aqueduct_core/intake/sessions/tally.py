"""What became of the messages of a channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from aqueduct_core.aqueduct.conventions.dedupe.checksum import Content


@dataclass(slots=True)
class RepeatCount:
    """How many messages of one sequence a connection brought that were stored before.
    ``uncompared``: of those known by their source, so many could not be compared with what is
    stored."""

    messages: int = 0
    uncompared: int = 0


@dataclass(slots=True)
class Tally:
    """What became of the reliable messages of one channel; counted when they are accepted.

    ``first`` and ``last`` are the lowest and the highest logical number of those that were stored
    before; ``repeats`` is what all channels of the same sequence on this connection share.
    ``told``: their event was recorded; ``refused``: they were other ones. ``content`` is of all
    messages of the channel with logical numbers, repeats included, as far as their groups were
    handed to the spool.
    """

    stored: int = 0
    deduped: int = 0
    first: int = 0
    last: int = -1
    content: Content = field(default_factory=Content)
    repeats: RepeatCount = field(default_factory=RepeatCount)
    told: bool = False
    refused: bool = False

    def repeated(self, first: int, stop: int) -> None:
        """Messages with these logical numbers were stored before."""
        self.first = min(self.first, first) if self.deduped else first
        self.last = max(self.last, stop - 1)
        self.deduped += stop - first
        self.repeats.messages += stop - first

"""One stream or datagram of the peer on its way in: its reader, its machine, its credit."""

from __future__ import annotations

from aqueduct_core.aqueduct.channels import Half
from aqueduct_core.aqueduct.credit import DATAGRAM
from aqueduct_core.aqueduct.wire.grammar import SequenceReader


class Inbound:
    """Holds: ``early``, the bytes of the incomplete frame whose credit went back already;
    ``held``, the bytes that wait for the gate. ``cut``: a reset came while frames waited.
    ``counted``: its bytes in the total of what waits; ``queued``: how often it waits for a turn."""

    __slots__ = ("_settled", "counted", "cut", "early", "ended", "half", "held", "queued", "reader",
                 "stream_id")  # fmt: skip

    def __init__(self, stream_id: int, reader: SequenceReader) -> None:
        self.stream_id = stream_id
        self.reader = reader
        self.half: Half | None = None
        self.ended = False
        self.cut = False
        self.early = 0
        self.counted = 0
        self.held = 0
        self.queued = 0
        self._settled = 0

    @property
    def datagram(self) -> bool:
        return self.stream_id == DATAGRAM

    def parsed(self) -> int:
        """Bytes parsed since the last call whose credit did not go back yet."""
        fresh = self.reader.parsed - self._settled
        self._settled = self.reader.parsed
        covered = min(self.early, fresh)
        self.early -= covered
        return fresh - covered

    def waiting(self) -> int:
        """Bytes of the incomplete frame whose credit goes back now, ahead of the frame."""
        more = self.reader.waiting - self.early
        self.early = self.reader.waiting
        return more

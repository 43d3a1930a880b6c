"""Bytes of a stream that arrived and are not parsed yet.

A reader that needs more says how much, and nothing is joined or parsed before that much is
there. So a large frame that comes in small pieces is copied once, not once a piece. Tiny pieces are
joined as they come, and what was read already is let go while the rest waits: memory is about
``size``, in whatever pieces a peer sends.
"""

from __future__ import annotations

TINY = 2048
"""Bytes of a piece that is joined to its neighbours: an object costs about 60 by itself."""


class ByteQueue:
    """``size`` unread bytes: the rest of ``data`` from ``pos``, then pieces not joined yet."""

    __slots__ = ("_pieces", "_want", "data", "pos", "size")

    def __init__(self) -> None:
        self.data = b""
        self.pos = 0
        self.size = 0
        self._pieces: list[bytes | bytearray] = []
        self._want = 1

    def feed(self, piece: bytes) -> None:
        if not piece:
            return
        if self.size == 0:
            self.data = piece
            self.pos = 0
        elif len(piece) >= TINY:
            self._pieces.append(piece)
        elif self._pieces and isinstance(joined := self._pieces[-1], bytearray):
            joined += piece
        else:
            self._pieces.append(bytearray(piece))
        self.size += len(piece)

    def ready(self) -> bool:
        """Whether the wanted bytes are here; if so, all bytes are joined in ``data``."""
        if self.size < self._want:
            return False
        if self._pieces:
            self.data = b"".join([self.data[self.pos :], *self._pieces])
            self.pos = 0
            self._pieces.clear()
        return True

    def want(self, count: int) -> None:
        """Wait until ``count`` unread bytes, at least one, are here."""
        self._want = count
        if self.pos > len(self.data) - self.pos:
            self.data = self.data[self.pos :]
            self.pos = 0

    def take(self, upto: int) -> None:
        """Move on to the position ``upto`` of ``data``."""
        self.size -= upto - self.pos
        self.pos = upto
        self._want = 1
        if self.size == 0:
            self.clear()

    def skip(self, count: int) -> int:
        """Throw away up to ``count`` unread bytes; how many it was."""
        if not count:
            return 0
        if count >= self.size:
            count = self.size
            self.clear()
            return count
        self._want = 1
        self.ready()
        self.take(self.pos + count)
        return count

    def clear(self) -> None:
        self.data = b""
        self.pos = 0
        self.size = 0
        self._pieces.clear()
        self._want = 1

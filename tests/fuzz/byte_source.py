"""Decisions out of bytes: what a fuzzer mutates becomes a choice, a length or a number.

Pure Python, so that a corpus file does the same with and without the fuzzer. Once the bytes are
used up every choice is the first and every length is zero, and ``left`` is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class ByteSource:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def byte(self) -> int:
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def flag(self) -> bool:
        return self.byte() & 1 == 1

    def below(self, count: int) -> int:
        """A number in ``[0, count)``, for a count up to 65 536."""
        if count > 256:
            return (self.byte() << 8 | self.byte()) % count
        return self.byte() % count

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer at the end."""
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def block(self) -> bytes:
        """A length byte and so many bytes."""
        return self.take(self.byte())

    def rest(self) -> bytes:
        return self.take(self.left)

"""Bytes of a stream that come in any order and are given on in theirs.

What waits for a hole to be filled is kept in pieces, each byte once, found by bisection. Neighbours
are joined up to a bound, so that a stranger who sends single bytes, forwards, backwards or at
random, makes us keep little more than what came, and each of them costs about the same.
"""

from __future__ import annotations

from bisect import bisect_right

JOINED = 16 * 1024
"""Neighbours are joined while they have no more bytes together: to join two moves one of them. So
there are no more pieces than ranges, and one for each 8 KiB."""


class TooScattered(Exception):
    """More ranges with holes between them than are kept."""


class Reassembly:
    """What came of a stream; ``ranges`` is how many stretches with holes before them are kept.

    ``position`` is the offset of the next byte to be given on; ``held`` the bytes that wait behind
    a hole. A byte that comes twice is the same (RFC 9000 section 2.2); of a peer that sends others
    either is given on, once.
    """

    __slots__ = ("_limit", "_pieces", "_starts", "held", "position", "ranges")

    def __init__(self, ranges: int, position: int = 0) -> None:
        self.position = position
        self.held = 0
        self.ranges = 0
        self._limit = ranges
        self._starts: list[int] = []
        self._pieces: list[bytearray] = []

    def add(self, start: int, data: bytes) -> bytes:
        """Take ``data``, whose first byte has the offset ``start``; the bytes that come next now.

        Raises:
            TooScattered: it would be one range too many; nothing of it is kept.
        """
        stop = start + len(data)
        position = self.position
        if stop <= position or not data:
            return b""
        if start <= position:
            if start < position:
                data = data[position - start :]
            if not self._starts:
                self.position = stop
                return data
            return self._filled(data, stop)
        self._keep(start, data, stop)
        return b""

    def clear(self) -> None:
        """Forget what waits; the stream ends otherwise."""
        self._starts.clear()
        self._pieces.clear()
        self.held = self.ranges = 0

    def _filled(self, data: bytes, stop: int) -> bytes:
        """The hole at the front is filled up to ``stop``: give on what waits behind it, too."""
        starts, pieces = self._starts, self._pieces
        out = [data]
        count = 0
        for start, piece in zip(starts, pieces, strict=True):
            if start > stop:
                break
            end = start + len(piece)
            if not count or starts[count - 1] + len(pieces[count - 1]) < start:
                self.ranges -= 1
            count += 1
            self.held -= len(piece)
            if end > stop:
                out.append(bytes(memoryview(piece)[stop - start :]))
                stop = end
        del starts[:count], pieces[:count]
        self.position = stop
        return b"".join(out) if count else data

    def _keep(self, start: int, data: bytes, stop: int) -> None:
        starts, pieces = self._starts, self._pieces
        if starts and start == starts[-1] + len(pieces[-1]):
            self._put(len(starts) - 1, start, data)  # the most usual: behind one hole, in order
            return
        # the pieces from ``low`` to before ``high`` touch or overlap it
        low = bisect_right(starts, start)
        if low and starts[low - 1] + len(pieces[low - 1]) >= start:
            low -= 1
        high = bisect_right(starts, stop)
        if low == high:
            if self.ranges >= self._limit:
                raise TooScattered(f"{self.ranges} ranges of a stream wait already")
            self.ranges += 1
            self._put(low - 1, start, data)
            return
        # what lies in the holes between them is new
        self.ranges += 1 - self._stretches(low, high)
        at = start
        view = memoryview(data)
        while at < stop:
            index = bisect_right(starts, at) - 1
            if index >= 0 and at < starts[index] + len(pieces[index]):
                at = starts[index] + len(pieces[index])
                continue
            end = min(stop, starts[index + 1]) if index + 1 < len(starts) else stop
            self._put(index, at, bytes(view[at - start : end - start]))
            at = end

    def _stretches(self, low: int, high: int) -> int:
        """How many ranges the pieces from ``low`` to before ``high`` are parts of."""
        starts, pieces = self._starts, self._pieces
        return 1 + sum(
            starts[index - 1] + len(pieces[index - 1]) < starts[index]
            for index in range(low + 1, high)
        )

    def _put(self, index: int, start: int, data: bytes) -> None:
        """``data`` begins behind the piece ``index``, or where that ends, and ends before the
        next one, or where that begins."""
        starts, pieces = self._starts, self._pieces
        self.held += len(data)
        if (
            index >= 0
            and starts[index] + len(pieces[index]) == start
            and len(pieces[index]) + len(data) <= JOINED
        ):
            pieces[index] += data
        else:
            index += 1
            starts.insert(index, start)
            pieces.insert(index, bytearray(data))
        after = index + 1
        if (
            after < len(starts)
            and starts[index] + len(pieces[index]) == starts[after]
            and len(pieces[index]) + len(pieces[after]) <= JOINED
        ):
            pieces[index] += pieces.pop(after)
            del starts[after]

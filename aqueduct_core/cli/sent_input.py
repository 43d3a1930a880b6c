"""How far ``send`` is: what of its input was read, sent, and has its outcome.

Positions are bytes of the input, delimiters included; outcomes come as counts of messages.
"""

from __future__ import annotations

from collections import deque


class SentInput:
    """Of one run of ``send``; ``delimiter`` is the length of what stands between two messages.

    Attributes:
        settled_bytes: of the input, whose messages have an outcome; counted in whole batches.
        payload_bytes: of the messages that were sent.
        resumable: whether ``--resume`` could go on with it.
    """

    def __init__(self, delimiter: int) -> None:
        self.settled_bytes = 0
        self.payload_bytes = 0
        self.resumable = True
        self._delimiter = delimiter
        self._messages = 0
        self._read = 0
        # After so many messages so many bytes were read: of those without an outcome, oldest first.
        self._pending: deque[tuple[int, int]] = deque()

    def leave_out(self, batch: list[bytes]) -> None:
        """The beginning of the input, which is not sent."""
        self._read += self._length(batch)
        self.settled_bytes = self._read

    def send(self, batch: list[bytes]) -> None:
        """What comes next in the input."""
        self.payload_bytes += sum(map(len, batch))
        self._read += self._length(batch)
        self._messages += len(batch)
        self._pending.append((self._messages, self._read))

    def settle(self, messages: int) -> None:
        """So many messages have an outcome by now."""
        while self._pending and self._pending[0][0] <= messages:
            self.settled_bytes = self._pending.popleft()[1]

    def _length(self, batch: list[bytes]) -> int:
        return sum(map(len, batch)) + len(batch) * self._delimiter

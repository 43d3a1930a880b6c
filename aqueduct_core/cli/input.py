"""The payloads that ``send`` reads (lines of files or of standard input, or whole files), and how
far it is in them.

Payloads are bytes. Standard input may be slow (a terminal, a pipe), so it is read only when
there is something to read, and what came is handed on at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aqueduct_core.errors import InvalidOption

READ_BYTES = 1024 * 1024
STDIN = 0


def check_files(files: Sequence[Path]) -> None:
    """Before anybody is dialled.

    Raises:
        InvalidOption: BAD_VALUE, for the first one that cannot be read; MISSING where standard
            input is wanted and closed: whatever is opened next would be taken for it.
    """
    for path in files or (Path("-"),):
        if str(path) == "-":
            if sys.stdin is None:
                raise InvalidOption("MISSING", "standard input is closed", "Name files to send")
            continue
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            raise InvalidOption(
                "BAD_VALUE",
                f"the file {path} cannot be read: {error.strerror}",
                "Name readable files, or - for standard input",
            ) from None


def input_bytes(files: Sequence[Path]) -> int | None:
    """How much there is to read; None where a pipe, a terminal or a device does not say."""
    total = 0
    for path in files or (Path("-"),):
        status = os.fstat(STDIN) if str(path) == "-" else path.stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        read = os.lseek(STDIN, 0, os.SEEK_CUR) if str(path) == "-" else 0
        total += max(0, status.st_size - read)
    return total


async def payloads(
    files: Sequence[Path], delimiter: bytes, whole: bool
) -> AsyncIterator[list[bytes]]:
    """What to send, in batches as it comes; standard input where there is no file, or for ``-``.

    A delimiter ends a payload: a last one without it counts too, and two in a row have an
    empty payload between them.
    """
    for path in files or (Path("-"),):
        descriptor = STDIN if str(path) == "-" else os.open(path, os.O_RDONLY)
        try:
            rest: list[bytes] = []
            async for piece in _pieces(descriptor):
                if whole:
                    rest.append(piece)
                    continue
                *done, last = piece.split(delimiter)
                if not done and len(delimiter) == 1:
                    rest.append(last)
                    continue
                if rest:
                    *done, last = (b"".join(rest) + piece).split(delimiter)
                if done:
                    yield done
                rest = [last]
            tail = b"".join(rest)
            if whole or tail:
                yield [tail]
        finally:
            if descriptor != STDIN:
                os.close(descriptor)


async def _pieces(descriptor: int) -> AsyncIterator[bytes]:
    waits = stat.S_IFMT(os.fstat(descriptor).st_mode) not in (stat.S_IFREG, stat.S_IFBLK)
    while True:
        if waits and not await _readable(descriptor):
            waits = False
        piece = os.read(descriptor, READ_BYTES)
        if not piece:
            return
        yield piece
        await asyncio.sleep(0)


async def _readable(descriptor: int) -> bool:
    """Wait until something can be read; False where the poller does not take the descriptor."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def arrived() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(descriptor, arrived)
    except OSError:
        return False
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    return True


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

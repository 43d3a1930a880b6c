"""How a spool makes what it wrote durable: a port, and the two ways to do it."""

from __future__ import annotations

import errno
import os
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from aqueduct_core.spool import syncer

_CLOSE_SECONDS = 10.0


class Sync(Protocol):
    """Makes groups durable in the order in which they are requested.

    Call order: ``start`` for each new segment, ``request`` after each group is written,
    ``answered`` whenever ``fileno`` is readable. After an ``OSError`` from ``answered`` nothing
    becomes durable again.
    """

    def start(self, file: int, directory: int) -> None:
        """What is requested from now on is in this file; its name in this directory is made
        durable too."""

    def request(self, group: int) -> None:
        """Make everything up to this group durable. Never blocks."""

    def fileno(self) -> int:
        """Readable when ``answered`` has news."""

    def answered(self) -> int:
        """The newest group that is durable, 0 if none is yet. Never blocks. ``OSError``: the disk
        failed."""

    def close(self) -> None:
        """Let go of everything; requests without an answer are not made durable."""


SyncFactory = Callable[[], Sync]


class InlineSync:
    """Syncs in the caller's thread. For tools and tests: the caller waits for the disk."""

    def __init__(self) -> None:
        self._file = -1
        self._directory = -1
        self._fresh = False
        self._group = 0
        self._failure: OSError | None = None
        self._readable, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def start(self, file: int, directory: int) -> None:
        self._file, self._directory, self._fresh = file, directory, True

    def request(self, group: int) -> None:
        if self._failure is None:
            try:
                self.sync(self._file)
                if self._fresh:
                    self.sync(self._directory)
                    self._fresh = False
                self._group = group
            except OSError as error:
                self._failure = error
        try:
            os.write(self._written, b".")
        except BlockingIOError:
            pass

    def sync(self, fd: int) -> None:
        """One sync of a file or directory."""
        os.fsync(fd)

    def fileno(self) -> int:
        return self._readable

    def answered(self) -> int:
        try:
            os.read(self._readable, 65_536)
        except BlockingIOError:
            pass
        if self._failure is not None:
            raise self._failure
        return self._group

    def close(self) -> None:
        for fd in (self._readable, self._written):
            os.close(fd)


class SyncerProcess:
    """Syncs in a tiny process of its own (`syncer`), which ends with this one.

    A thread would have to win the interpreter lock back after each sync, and a busy event loop
    makes that wait long; a process only shares the file. Many requests become one sync.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = Path(syncer.__file__)
        # -I -S: nothing of the environment or of site-packages; from an archive there is no file
        # to run
        program = [str(path)] if path.is_file() else ["-c", _source()]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", *program, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )
        ours.setblocking(False)
        self._port = ours
        self._outbox: deque[tuple[bytes, list[int]]] = deque()
        self._group = 0
        self._failure: OSError | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, file: int, directory: int) -> None:
        self._outbox.append((syncer.REQUEST.pack(b"o", 0), [file, directory]))
        self._post()

    def request(self, group: int) -> None:
        message = syncer.REQUEST.pack(b"s", group)
        if self._outbox and not self._outbox[-1][1]:
            # the socket is full: one request for the newest group says it all
            self._outbox[-1] = (message, [])
        else:
            self._outbox.append((message, []))
        self._post()

    def fileno(self) -> int:
        return self._port.fileno()

    def answered(self) -> int:
        while self._failure is None:
            try:
                data = self._port.recv(syncer.ANSWER.size)
            except BlockingIOError:
                break
            except ConnectionResetError:  # so it ends where it was killed before it read a request
                data = b""
            except OSError as error:
                self._failure = error
                break
            if not data:
                self._failure = OSError(errno.EIO, "the syncer process of the spool has died")
                break
            group, code = syncer.ANSWER.unpack(data)
            if code:
                self._failure = OSError(code, os.strerror(code))
                break
            self._group = group
        if self._failure is not None:
            raise self._failure
        self._post()
        return self._group

    def close(self) -> None:
        self._port.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            # it hangs in the disk; it ends by itself as soon as the disk answers
            self._process.kill()

    def _post(self) -> None:
        while self._outbox:
            message, fds = self._outbox[0]
            try:
                if fds:
                    socket.send_fds(self._port, [message], fds)
                else:
                    self._port.send(message)
            except BlockingIOError:
                return  # the syncer is behind; its next answer makes us try again
            except OSError:
                return  # the syncer is gone: `answered` finds out and says so
            self._outbox.popleft()


def wait_readable(fd: int, timeout: float | None) -> bool:
    """Block until the descriptor is readable; false when the seconds have passed."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0, int(timeout * 1000))))


def _source() -> str:
    find = getattr(syncer.__loader__, "get_source", None)
    source = find(syncer.__name__) if find else None
    if not isinstance(source, str):
        raise OSError(errno.ENOENT, "the source of the syncer process cannot be found")
    return source

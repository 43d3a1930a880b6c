"""The command line in processes of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryFile
from typing import IO, Any

from aqueduct import connect
from aqueduct_core.cli.main import main
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.forks import Fork
from tests.support.waiting import LONG

TIMEOUT = LONG
TERMINAL_VARIABLES = ("TERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM")
AQUEDUCT = (sys.executable, "-m", "aqueduct_core.cli.main")


def aqueduct(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a verb to its end."""
    words = list(map(str, arguments))
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        command = Fork(main, words, stdin=given, stdout=out, stderr=errors)
        try:
            code = command.wait(TIMEOUT)
        finally:
            command.kill()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), errors.read())


def seen(*arguments: str | Path, **environment: str) -> tuple[int, str]:
    """Run a verb on a terminal of its own: the exit code, and what is written there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    inherited = {key: os.environ[key] for key in os.environ if key not in TERMINAL_VARIABLES}
    process = subprocess.Popen(
        [*AQUEDUCT, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=inherited | environment,
    )
    os.close(theirs)
    shown = bytearray()
    with process, contextlib.suppress(OSError):  # a terminal whose other side is closed
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    return process.wait(TIMEOUT), shown.decode().replace("\r\n", "\n")


def plain(shown: str) -> str:
    """What was drawn, without colours and weights."""
    return re.sub(r"\x1b\[[\d;]*m", "", shown)


class Listener:
    """``aqueduct listen`` in the background; ``url`` is where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], collects: bool) -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        self._out = bytearray()
        assert process.stderr is not None
        self._readers = [threading.Thread(target=self._errors, args=(process.stderr,))]
        if collects:
            assert process.stdout is not None
            self._readers.append(threading.Thread(target=self._outputs, args=(process.stdout,)))
        for reader in self._readers:
            reader.start()
        self.errors: list[str] = []
        self.url = "aqueduct://" + self.line(r"listening on (\S+)")

    def line(self, pattern: str) -> str:
        """Wait for a line of standard error; the group of the pattern."""
        while True:
            try:
                line = self._lines.get(timeout=TIMEOUT)
            except Empty:
                raise AssertionError(f"no line {pattern!r} in {self.errors}") from None
            self.errors.append(line)
            if match := re.match(pattern, line):
                return match[1]

    def end(self) -> tuple[int, bytes]:
        """Wait for the end; exit code and standard output."""
        code = self.process.wait(TIMEOUT)
        self.settle()
        while not self._lines.empty():
            self.errors.append(self._lines.get())
        return code, bytes(self._out)

    def settle(self) -> None:
        """Wait for the readers: the pipes of a process that ended may be closed only after them."""
        for reader in self._readers:
            reader.join(TIMEOUT)

    def rows(self) -> list[dict[str, Any]]:
        """The JSON lines, after a good end; standard output has nothing else."""
        code, out = self.end()
        assert code == 0, self.errors
        return [json.loads(line) for line in out.splitlines()]

    def _errors(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines.put(line.decode().rstrip())

    def _outputs(self, stream: IO[bytes]) -> None:
        while piece := stream.read1(1 << 16):  # type: ignore[attr-defined]
            self._out += piece


@contextmanager
def listening(
    certificates: Path,
    *arguments: str | Path,
    stdout: int | None = subprocess.PIPE,
    address: str = "127.0.0.1:0",
) -> Iterator[Listener]:
    trust: Sequence[str | Path] = ()
    if "--self-signed" not in arguments and "--cert" not in arguments:
        trust = ("--cert", certificates / "cert.pem", "--key", certificates / "key.pem")
    process = subprocess.Popen(
        [*AQUEDUCT, "listen", address, *map(str, (*trust, *arguments))],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
    with process:
        listener: Listener | None = None
        try:
            listener = Listener(process, stdout == subprocess.PIPE)
            yield listener
        finally:
            process.kill()
            if listener is not None:
                listener.settle()


def messages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "message"]


def events(rows: list[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in rows if row["type"] == "event"]


def totals(done: subprocess.CompletedProcess[bytes]) -> dict[str, int]:
    """The last line of ``aqueduct send``."""
    last = done.stdout.decode().splitlines()[-1]
    counts = r"sent=\d+ acked=\d+ nacked=\d+ repeated=\d+ bytes=\d+ seconds=\d+\.\d+"
    assert re.fullmatch(counts, last), last
    return {key: int(float(value)) for key, value in (pair.split("=") for pair in last.split())}


def one_error(done: subprocess.CompletedProcess[bytes], name: str) -> str:
    """The process failed with one readable line of that name."""
    assert done.returncode == 1, done.stderr
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"[{name}] "), lines
    assert "SQLSTATE: " in lines[0]
    return lines[0]


async def send_payloads(url: str, certificates: Path, *payloads: bytes) -> None:
    """Returns when all are acked."""
    async with connect(url, tls=ClientTls(ca_file=certificates / "ca.pem")) as connection:
        await connection.entrypoint.send_many(payloads)
        await connection.entrypoint.finish()


def read_some(descriptor: int) -> bytes:
    """What there is; nothing at the end."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # a terminal whose other side is closed
        return b""


def read_all(descriptor: int) -> bytes:
    got = bytearray()
    while piece := read_some(descriptor):
        got += piece
    return bytes(got)

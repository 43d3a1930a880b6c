"""A terminal does not obey a peer, and a reader that does not read stops nobody but itself."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from tqdm import tqdm

from aqueduct_core.aio import channel, connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import wrap
from aqueduct_core.aio.message import Batch, batch_of
from aqueduct_core.cli.output import JsonLines, Origin, Template
from aqueduct_core.cli.printing import ProgressFile
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.cli.running import Listener, listening
from tests.support.waiting import LONG

FORGED = "bye)\n# disconnected connection 1 (all is well\x1b[8m\u202e\ud800"
ORIGIN = Origin(1, 8, "name\x1b[2J", "p\nq")
RUN = Batch(batch_of((b"a\x1b[2J\xff\n",), 0, True, 100, {0: ((b"k\r", b"\x9b"),)}), 0, {}, wrap)
FORMAT = r"%n:%s|%k|%N|%p\n"

EXACT = b"0:a\x1b[2J\xff\n|k\r=\x9b|name\x1b[2J|p\nq\n"
SHOWN = rb"0:a\x1b[2J\xff\n|k\r=\x9b|name\x1b[2J|p\nq" + b"\n"


@pytest.mark.parametrize(("terminal", "printed"), [(False, EXACT), (True, SHOWN)])
def test_messages_are_escaped_on_a_terminal_only(terminal: bool, printed: bytes) -> None:
    out = io.BytesIO()
    Template(FORMAT, out, io.BytesIO(), terminal=terminal).messages(RUN, 1, ORIGIN, 0.0)
    assert out.getvalue() == printed


@pytest.mark.parametrize("terminal", [False, True])
def test_a_reason_cannot_forge_an_event(terminal: bool) -> None:
    events = io.BytesIO()
    Template("", io.BytesIO(), events, terminal=terminal).event(
        "disconnected", 1, None, FORGED, None
    )
    assert events.getvalue().decode() == (
        r"# disconnected connection 1 (bye)\n# disconnected connection 1 (all is well\x1b[8m"
        "\\u202e\\ud800)\n"
    )


def test_an_event_is_short_and_json_is_exact() -> None:
    events, lines = io.BytesIO(), io.BytesIO()
    reason = FORGED + "x" * 100_000
    Template("", io.BytesIO(), events).event("disconnected", 1, None, reason, None)
    JsonLines(lines).event("disconnected", 1, None, reason, None)
    assert len(events.getvalue()) < 300
    assert json.loads(lines.getvalue())["reason"] == reason
    assert lines.getvalue().isascii()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), rb"a\x1b[2J\nb"),
        (("--raw",), b"a\x1b[2J\nb"),
        (("-J",), rb'"value": "a\u001b[2J\nb"'),
    ],
)
def test_a_terminal_gets_payloads_escaped_unless_it_wants_them_raw(
    certificates: Path, arguments: tuple[str, ...], printed: bytes
) -> None:
    ours, terminal = os.openpty()
    with listening(certificates, "-c", "1", *arguments, stdout=terminal) as listener:
        os.close(terminal)
        asyncio.run(_send(listener.url, certificates, b"a\x1b[2J\nb"))
        assert listener.process.wait(LONG) == 0
        got = b""
        while piece := _read(ours):
            got += piece
    os.close(ours)
    assert printed in got.replace(b"\r\n", b"\n")


def test_a_close_reason_forges_no_line(certificates: Path) -> None:
    forged = "bye)\n# finished connection 1 channel 8 (\x1b[8m"

    async def close_with(url: str) -> None:
        tls = ClientTls(ca_file=certificates / "ca.pem")
        connection = await connect(url, tls=tls)
        connection.abort(forged)
        await connection.wait_closed()

    with listening(certificates) as listener:
        asyncio.run(close_with(listener.url))
        reason = listener.line(r"# disconnected connection 1 \((.*)\)")
    assert reason == r"bye)\n# finished connection 1 channel 8 (\x1b[8m"
    assert not any(line.startswith("# finished") for line in listener.errors)


PIECES = 300
"""Of 1,000 bytes: more than a pipe holds, and fewer than the windows."""


def test_a_full_pipe_stops_no_acks_and_no_interrupt(certificates: Path) -> None:
    """Nobody reads standard output: another connection is served, and Ctrl-C ends it."""
    with unread(certificates) as (listener, _):
        asyncio.run(_send(listener.url, certificates, *(bytes(1_000) for _ in range(PIECES))))
        asyncio.run(_send(listener.url, certificates, b"still there"))
        listener.process.send_signal(signal.SIGINT)
        assert listener.process.wait(LONG) == 130


def test_what_waited_in_a_full_pipe_comes_whole_and_in_order(certificates: Path) -> None:
    """Many times what may wait: the sender stands still until somebody reads, and then goes on."""
    lines = [b"%06d " % i + b"x" * 1_000 for i in range(30_000)]

    async def produce(url: str, reading: asyncio.Event) -> None:
        tls = ClientTls(ca_file=certificates / "ca.pem")
        async with connect(url, tls=tls) as connection:
            sender, receiver = channel("ordered", name="many")
            await connection.entrypoint.send(b"", attach=receiver)
            sending = asyncio.create_task(sender.send_many(lines))
            await _stands_still(connection)
            assert not sending.done()
            reading.set()
            await sending
            await sender.finish()

    async def both(listener: Listener, reads: int) -> bytes:
        reading = asyncio.Event()
        producing = asyncio.create_task(produce(listener.url, reading))
        await reading.wait()
        got = await asyncio.to_thread(_read_all, reads)
        await producing
        return got

    count = str(len(lines) + 1)
    with unread(certificates, "-c", count) as (listener, reads):
        got = asyncio.run(both(listener, reads))
        assert listener.process.wait(LONG) == 0
    assert got.split(b"\n") == [b"", *lines, b""]


class unread:
    """A listener whose standard output is a pipe that only the test reads."""

    def __init__(self, certificates: Path, *arguments: str) -> None:
        self._reads, self._writes = os.pipe()
        self._listening = listening(certificates, *arguments, stdout=self._writes)

    def __enter__(self) -> tuple[Listener, int]:
        listener = self._listening.__enter__()
        os.close(self._writes)
        return listener, self._reads

    def __exit__(self, *error: object) -> None:
        self._listening.__exit__(*error)  # type: ignore[arg-type]
        os.close(self._reads)


def test_a_bar_of_progress_waits_for_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(_read_all(reads)))
    with open(writes, "w") as errors:
        monkeypatch.setattr("sys.stderr", errors)
        with contextlib.closing(ProgressFile()) as file, tqdm(total=1, file=file) as bar:
            for _ in range(10_000):  # many times what a pipe holds
                file.write("x" * 100)
            bar.update()
            reading.start()
    reading.join(LONG)
    assert 1 << 12 < len(got[0]) < 1 << 18
    os.close(reads)


async def _send(url: str, certificates: Path, *payloads: bytes) -> None:
    """Returns when all are acked."""
    async with connect(url, tls=ClientTls(ca_file=certificates / "ca.pem")) as connection:
        await connection.entrypoint.send_many(payloads)
        await connection.entrypoint.finish()


async def _stands_still(connection: ClientConnection) -> None:
    """Nothing more leaves, for several looks in a row: the windows are full."""
    still, before = 0, -1
    while still < 10:
        await asyncio.sleep(0.05)
        now = connection.bytes_delivered
        still = still + 1 if now == before and now > 0 else 0
        before = now


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # a terminal whose other side is closed
        return b""


def _read_all(descriptor: int) -> bytes:
    got = bytearray()
    while piece := _read(descriptor):
        got += piece
    return bytes(got)

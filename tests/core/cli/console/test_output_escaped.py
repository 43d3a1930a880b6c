"""A terminal does not obey a peer, and no line is forged."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path

import pytest

from aqueduct import connect
from aqueduct_core.aio.halves import wrap
from aqueduct_core.aio.message import Batch, batch_of
from aqueduct_core.cli.console.output import JsonLines, Origin, Template
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.cli.running import listening, read_some, send_payloads
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
        asyncio.run(send_payloads(listener.url, certificates, b"a\x1b[2J\nb"))
        assert listener.process.wait(LONG) == 0
        got = b""
        while piece := read_some(ours):
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
    assert reason == r"closed by peer, code 257: bye)\n# finished connection 1 channel 8 (\x1b[8m"
    assert not any(line.startswith("# finished") for line in listener.errors)

"""Signals end a verb in good order."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.core.cli.running import (
    AQUEDUCT,
    TIMEOUT,
    listening,
)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_end_quietly(certificates: Path, name: str, code: int) -> None:
    with listening(certificates, "-J") as listener:
        listener.process.send_signal(getattr(signal, name))
        assert listener.end()[0] == code
        assert [line for line in listener.errors if "listening" not in line] == []


def test_a_sender_that_waits_for_input_ends_quietly_too(certificates: Path) -> None:
    with listening(certificates) as listener:
        command = [*AQUEDUCT, "send", listener.url, "--ca", str(certificates / "ca.pem")]
        with subprocess.Popen(
            [*command, "--channel", "c"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as sending:
            listener.line(r"# (opened).*")
            sending.send_signal(signal.SIGINT)
            out, errors = sending.communicate(timeout=TIMEOUT)
            assert sending.returncode == 130
            assert out.startswith(b"sent=0 acked=0")
            assert errors == b""

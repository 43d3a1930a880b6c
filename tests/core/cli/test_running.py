"""Signals end a verb in good order."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
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


@pytest.mark.parametrize("verb", [["send"], ["send", "--producer", "p"], ["subscribe"]])
def test_a_server_that_does_not_answer_is_told_of_while_it_is_waited_for(verb: list[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"aqueduct://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [*AQUEDUCT, *verb, url, "--insecure", "-"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as waiting:
            assert waiting.stderr is not None
            line = waiting.stderr.readline()
            waiting.terminate()
    assert line == f"waiting for a reply from {url}, 2 s so far\n".encode()


def test_what_messages_wait_for_is_a_plain_line_on_standard_error() -> None:
    """In a process of its own, as it changes how loggers of the library tell."""
    code = (
        "import logging\n"
        "from aqueduct_core.aio import delivery_watch\n"
        "from aqueduct_core.cli.running import show_waits\n"
        "from aqueduct_core.logs.handler import log_to_standard_error\n"
        "log_to_standard_error(logging.ERROR)\n"
        "show_waits()\n"
        "show_waits()\n"
        "logging.getLogger(delivery_watch.__name__).warning('waiting for host:1')\n"
        "logging.getLogger('another').warning('not told')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "waiting for host:1\n")

"""The life of an intake as a process of its own, from its settings to its exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight import faults
from aqueduct_core.intake.service import Intake
from aqueduct_core.intake.settings import IntakeSettings

log = logging.getLogger(__name__)

MAX_SETTINGS = 1 << 20
"""Bytes of the settings line."""


def launched(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Run as launched by a query: settings as one line of JSON on ``stdin``; the exit code.

    ``stdout`` gets one line of JSON: ``{"ready": true, "pid", "listen", "flight", "id", "epoch",
    "starts", "ends", "fingerprint", "warnings"}``, or ``{"ready": false, "error": {…}}``
    (`faults.from_json`).
    After it the process lets go of both, so its launcher may end.
    """

    def report(answer: dict[str, Any]) -> None:
        try:
            stdout.write(json.dumps(answer).encode() + b"\n")
            stdout.flush()
        except OSError:
            log.warning("nobody reads the ready line")
        _detach()

    try:
        settings = IntakeSettings.from_json(stdin.readline(MAX_SETTINGS))
        return run(settings, report)
    except AqueductError as error:
        failure = error
    except Exception as error:
        log.exception("the intake failed")
        failure = IntakeFailed(
            "UNREACHABLE",
            f"the intake failed by a fault of its own: {type(error).__name__}",
            "Read its log, intake.log beside its spool",
        )
    code = _failed(failure)
    report({"ready": False, "error": faults.to_json(failure)})
    return code


def run(settings: IntakeSettings, report: Callable[[dict[str, Any]], None]) -> int:
    """Run an intake until its end and return the exit code; ``report`` is told when it is ready.

    SIGTERM and SIGINT end it in good order; SIGHUP is ignored, because the executor that
    launched it sends one to its process group when it ends. Errors of the start are raised.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return asyncio.run(_run(settings, report))


def leave(code: int) -> NoReturn:
    """End the process at once: a Flight call that its client still holds must not keep it."""
    sys.stderr.flush()
    os._exit(code)


def configure_logging() -> None:
    """To standard error, where nobody may be left to read it."""
    logging.raiseExceptions = False
    logging.getLogger("quic").setLevel(logging.WARNING)  # the QUIC library tells of each handshake
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


async def _run(settings: IntakeSettings, report: Callable[[dict[str, Any]], None]) -> int:
    intake = await Intake.start(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, intake.end, signal.Signals(number).name)
    report(intake.ready())
    try:
        await intake.finished()
    except AqueductError as error:
        return _failed(error)
    return 0


def _failed(error: AqueductError) -> int:
    print(error, file=sys.stderr, flush=True)
    return 1


def _detach() -> None:
    """Standard input and output become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)

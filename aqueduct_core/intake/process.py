"""The life of an intake as a process of its own, from its settings to its exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight import error_codec
from aqueduct_core.intake.adapter import settings_from
from aqueduct_core.intake.service import Intake
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.layout import LOG_FILE
from aqueduct_core.logs.handler import LogHandler, log_to_standard_error, use_format
from aqueduct_core.primitives.garbage_collection import rare_collections

log = logging.getLogger(__name__)

MAX_LOG_BYTES = 16 << 20
"""Size at which the log of a launched intake is put aside as ``intake.log.1``; the two take twice
that at most."""

MAX_DESCRIPTORS = 1 << 16
"""Descriptors that an intake may have, where the system allows so many: 1,024, which is usual, are
for programs that wait with `select`."""

MAX_SETTINGS = 1 << 20
"""Bytes of the settings line."""


def launched(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Run as launched by a query: settings as one line of JSON on ``stdin``; the exit code.

    ``stdout`` gets one line of JSON: ``{"ready": true, "pid", "listen", "flight", "id", "epoch",
    "starts", "ends", "fingerprint", "warnings"}``, or ``{"ready": false, "error": {…}}``
    (`faults.from_json`).
    After it the process lets go of both, so its launcher may end. Standard error is the log
    beside the spool, which the launcher has opened; from here on it is this process that rotates
    it, with or without a launcher.
    """

    def report(answer: dict[str, Any]) -> None:
        try:
            stdout.write(json.dumps(answer).encode() + b"\n")
            stdout.flush()
        except OSError:
            log.warning("nobody reads the ready line")
        _detach()

    try:
        settings = settings_from(stdin.readline(MAX_SETTINGS))
        use_format(settings.log_format)
        for handler in _log_handlers():
            handler.rotates(Path(settings.spool) / LOG_FILE, MAX_LOG_BYTES)
        return run(settings, report)
    except AqueductError as error:
        failure = error
    except Exception as error:
        log.exception("the intake failed")
        failure = IntakeFailed(
            "UNREACHABLE",
            f"the intake failed by a fault of its own: {type(error).__name__}",
            f"Read its log, {LOG_FILE} beside its spool",
        )
    code = _failed(failure)
    report({"ready": False, "error": error_codec.to_json(failure)})
    return code


def run(settings: IntakeSettings, report: Callable[[dict[str, Any]], None]) -> int:
    """Run an intake until its end and return the exit code; ``report`` is called when it is
    ready.

    SIGTERM and SIGINT end it in good order; SIGHUP is ignored, because the executor that
    launched it sends one to its process group when it ends. Errors of the start are raised.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _raise_descriptor_limit()
    with rare_collections():
        return asyncio.run(_run(settings, report))


def leave(code: int) -> NoReturn:
    """End the process at once: a Flight call that its client still holds must not keep it."""
    _flush()
    os._exit(code)


def configure_logging() -> None:
    """To standard error, where nobody may be left to read it."""
    logging.raiseExceptions = False
    logging.getLogger("quic").setLevel(logging.WARNING)  # the QUIC library logs each handshake
    log_to_standard_error(logging.INFO)


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


def _raise_descriptor_limit() -> None:
    """Connections to Flight come in bursts, and a spool that finds no descriptor ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _failed(error: AqueductError) -> int:
    _flush()
    print(error, file=sys.stderr, flush=True)
    return 1


def _flush() -> None:
    for handler in _log_handlers():
        handler.flush()
    sys.stderr.flush()


def _log_handlers() -> list[LogHandler]:
    return [each for each in logging.getLogger().handlers if isinstance(each, LogHandler)]


def _detach() -> None:
    """Standard input and output become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)

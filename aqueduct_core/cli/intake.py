"""``aqueduct intake --config FILE``: an intake that queries name in their option ``intakes``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

from aqueduct_core.primitives.host_port import HostPort

ANY = ("0.0.0.0", "::")

EXAMPLES = [
    (
        "an intake that outlives queries",
        "aqueduct intake --config intake.toml",
    ),
]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "intake",
        help="run a standalone intake",
        description="Stores what producers send (or endpoints that it dials) in a spool, from "
        "which queries read. When it is ready it prints one line that says where, and which "
        "files queries need. It logs to standard error. SIGTERM and Ctrl-C end it in good order: "
        "what was accepted is made durable and acked.",
        examples=EXAMPLES,
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="a TOML file")
    parser.add_argument("-J", dest="json", action="store_true", help="the ready line as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    # gRPC reads it when it is imported; its own lines would bury the one that says what is wrong.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from aqueduct_core.intake import config_file, process
    from aqueduct_core.intake.config_file import write_access
    from aqueduct_core.logs.handler import use_format

    settings, keys = config_file.read(options.config)
    access = write_access(keys, settings.credentials)
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("quic").setLevel(logging.WARNING)
    if settings.log_format == "json":
        use_format("json")

    def report(ready: dict[str, Any]) -> None:
        line = {
            "ready": True,
            "pid": ready["pid"],
            "listen": ready["listen"],
            "fingerprint": ready["fingerprint"],
            "flight": _dialled(HostPort.parse(ready["flight"])),
            "caFile": str(access.ca_file),
            "tokenFile": str(access.token_file),
            "id": ready["id"],
            "epoch": ready["epoch"],
        }
        print(json.dumps(line) if options.json else _text(line), flush=True)

    code = process.run(settings, report)
    sys.stdout.flush()
    process.leave(code)


def _dialled(flight: HostPort) -> str:
    """Where queries dial: one that listens at all addresses of its host is known by its name."""
    return str(flight._replace(host=socket.gethostname()) if flight.host in ANY else flight)


def _text(line: dict[str, Any]) -> str:
    parts = [f"pid={line['pid']}"]
    if line["listen"]:
        parts += [f"listen={line['listen']}", f"fingerprint={line['fingerprint']}"]
    parts += [
        f"intakes={line['flight']}",
        f"tls.caFile={line['caFile']}",
        f"auth.tokenFile={line['tokenFile']}",
    ]
    return f"ready {' '.join(parts)}"

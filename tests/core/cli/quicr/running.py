"""``aqueduct quicr origin`` and ``relay`` in the background."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.core.cli.running import AQUEDUCT, Listener


@contextmanager
def serving(certificates: Path, kind: str, *arguments: str | Path) -> Iterator[Listener]:
    """An origin, or a relay (whose first argument is its upstream); ``url`` is where it listens."""
    own = ("--cert", certificates / "cert.pem", "--key", certificates / "key.pem")
    process = subprocess.Popen(
        [*AQUEDUCT, "quicr", kind, "127.0.0.1:0", *map(str, (*arguments, *own))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        listener: Listener | None = None
        try:
            listener = Listener(process, True)
            listener.url = listener.url.replace("aqueduct://", "quicr://")
            yield listener
        finally:
            process.kill()
            if listener is not None:
                listener.settle()


def trust(certificates: Path) -> tuple[str, Path]:
    return "--ca", certificates / "ca.pem"

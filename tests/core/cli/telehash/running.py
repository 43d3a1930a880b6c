"""``aqueduct telehash listen`` in the background."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.core.cli.running import AQUEDUCT, Listener

CARRIERS = ("telehash", "udp")


@contextmanager
def taking(
    certificates: Path, carrier: str, *arguments: str | Path, host: str = "127.0.0.1"
) -> Iterator[Listener]:
    """``url`` is where it listens."""
    own = ("--cert", certificates / "cert.pem", "--key", certificates / "key.pem")
    process = subprocess.Popen(
        [
            *(*AQUEDUCT, "telehash", "listen", f"{carrier}://{host}:0"),
            *map(str, (*arguments, *(own if carrier == "telehash" else ()))),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        listener: Listener | None = None
        try:
            listener = Listener(process, True)
            listener.url = listener.url.replace("aqueduct://", f"{carrier}://")
            yield listener
        finally:
            process.kill()
            if listener is not None:
                listener.settle()


def trust(certificates: Path) -> tuple[str, Path]:
    return "--ca", certificates / "ca.pem"

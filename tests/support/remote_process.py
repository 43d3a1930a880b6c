"""The remote of ``tests.support.remote`` as a process that can be killed and come back.

Started as ``python -m tests.support.remote_process CERT KEY PORT OPTIONS``, where OPTIONS is a
JSON object with ``scripts`` and what else ``serving`` takes; it prints its ``host:port``.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from aqueduct_core.transport.tls.credentials import ServerTls
from tests.support.remote import START_SECONDS, Scripts, from_json, serving, to_json
from tests.support.waiting import environment


class RemoteProcess:
    """``kill`` is SIGKILL; ``restart`` brings it back at the same address, with other scripts
    where some are given. Ends with the ``with`` block."""

    def __init__(self, directory: Path, scripts: Scripts, **options: Any) -> None:
        tls = ServerTls.self_signed()
        assert tls.cert_pem is not None
        assert tls.key_pem is not None
        self.ca_file = directory / "remote-ca.pem"
        self._key_file = directory / "remote-key.pem"
        self._log = directory / "remote.log"
        self.ca_file.write_bytes(tls.cert_pem)
        self._key_file.write_bytes(tls.key_pem)
        self._scripts = scripts
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = "127.0.0.1:0"

    @property
    def url(self) -> str:
        return f"aqueduct://{self.endpoint}"

    def __enter__(self) -> RemoteProcess:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(START_SECONDS)
            assert process.stdout is not None
            process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        """For SIGSTOP and SIGCONT."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def restart(self, scripts: Scripts | None = None) -> None:
        self.kill()
        self._scripts = scripts or self._scripts
        self._start()

    def _start(self) -> None:
        port = self.endpoint.rpartition(":")[2]
        options = {"scripts": to_json(self._scripts), **self._options}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.remote_process", str(self.ca_file),
                 str(self._key_file), port, json.dumps(options)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=environment(),
            )  # fmt: skip
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline().decode().strip() if readable else ""
        assert line, f"the remote did not start:\n{self._log.read_text()}"
        self.endpoint = line


async def _main(cert: str, key: str, port: str, text: str) -> None:
    options = json.loads(text)
    tls = ServerTls(cert_file=Path(cert), key_file=Path(key))
    scripts = from_json(options.pop("scripts"))
    async with serving(scripts, tls=tls, port=int(port), **options) as remote:
        print(remote.endpoint, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))

"""A real intake process with the settings that a query would give it, and what it stored."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct_core.flight import error_codec
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import IntakeStatus, Ticket
from aqueduct_core.intake.__main__ import main
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.settings.intake import IntakeSettings, TlsSettings
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls
from tests.support.forks import Fork
from tests.support.waiting import LONG, environment

START_SECONDS = LONG
END_SECONDS = LONG


class Site:
    """A spool directory with credentials and a certificate, where intakes come and go."""

    def __init__(self, directory: Path) -> None:
        tls = ServerTls.self_signed()
        assert tls.cert_pem is not None
        assert tls.key_pem is not None
        self.spool = directory / "spool" / "intake-0"
        self.credentials = Credentials.for_spool(directory / "spool")
        self.client_tls = ClientTls(ca_pem=tls.cert_pem)
        self.log = directory / "intake.log"
        self._cert = directory / "cert.pem"
        self._key = directory / "key.pem"
        self._cert.write_bytes(tls.cert_pem)
        self._key.write_bytes(tls.key_pem)

    def settings(self, **given: Any) -> AqueductIntake:
        return AqueductIntake(
            **{
                "spool": str(self.spool),
                "credentials": self.credentials,
                "tls": TlsSettings(str(self._cert), str(self._key)),
                "lease": LONG,
                **({} if "connect" in given else {"listen": "127.0.0.1:0"}),
                **given,
            }
        )

    @contextmanager
    def intake(self, program: Callable[[], int] = main, **given: Any) -> Iterator[IntakeProcess]:
        """A running intake; killed at the end if it is still there."""
        process = IntakeProcess(self, self.settings(**given), program)
        try:
            process.wait_ready()
            yield process
        finally:
            process.kill()


class IntakeProcess:
    def __init__(
        self, site: Site, settings: IntakeSettings, program: Callable[[], int] = main
    ) -> None:
        self.site = site
        its_stdin, ours = os.pipe()
        mine, its_stdout = os.pipe()
        self._stdout = open(mine, "rb")  # noqa: SIM115  # until `kill`
        with (
            open(its_stdin, "rb") as stdin,
            open(its_stdout, "wb") as stdout,
            site.log.open("ab") as log,
        ):
            self._process = Fork(
                program, stdin=stdin, stdout=stdout, stderr=log, environment=environment(), cwd="/"
            )
        with open(ours, "wb") as given:
            given.write(settings.to_json().encode() + b"\n")
        self.ready: dict[str, Any] = {}

    def wait_ready(self) -> None:
        """Raises the error that the intake reports when it cannot start."""
        readable, _, _ = select.select([self._stdout], [], [], START_SECONDS)
        assert readable, f"no ready line; the log:\n{self.site.log.read_text()}"
        line = self._stdout.readline()
        assert line, f"the intake died; the log:\n{self.site.log.read_text()}"
        self.ready = json.loads(line)
        if not self.ready["ready"]:
            error = error_codec.from_json(self.ready["error"])
            assert error is not None
            raise error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"aqueduct://{self.ready['listen']}"

    @property
    def listen(self) -> str:
        address: str = self.ready["listen"]
        return address

    def client(self) -> IntakeClient:
        return IntakeClient(self.ready["flight"], self.site.credentials.for_clients())

    def status(self) -> IntakeStatus:
        with self.client() as client:
            return client.status()

    def rows(self, metadata: bool = False) -> list[dict[str, Any]]:
        """Everything that is durable, as users see it."""
        with self.client() as client:
            status = client.status()
            return [
                row
                for partition, (start, end) in enumerate(
                    zip(status.starts, status.ends, strict=True)
                )
                for row in _rows(client, status.id, partition, start, end, metadata)
            ]

    def events(self) -> list[dict[str, Any]]:
        """Every event that is durable and still stored, as users see it."""
        with self.client() as client:
            status = client.status()
            offset, end = status.events
            found: list[dict[str, Any]] = []
            log = len(status.ends)
            for batch in client.read(Ticket(status.id, log, offset, end)):
                found += ROWS.expand_events(batch, log, offset).to_pylist()
                offset += batch.num_rows
            return found

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = END_SECONDS) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(END_SECONDS)
        self._stdout.close()


def _rows(
    client: IntakeClient, spool: str, partition: int, start: int, end: int, metadata: bool
) -> Iterator[dict[str, Any]]:
    offset = start
    for batch in client.read(Ticket(spool, partition, start, end)):
        yield from ROWS.expand(batch, partition, offset, metadata, metadata).to_pylist()
        offset += batch.num_rows

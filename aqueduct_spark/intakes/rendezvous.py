"""Where tasks and planner find intakes: a small Flight service inside the planner's process.

It knows no payload and keeps nothing on disk: after a restart of the query it starts empty, and
intakes that outlived the driver are found through the address in the offset.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight.authenticated import AuthenticatedServer, authorized, dial
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.source import Dial, Listen
from aqueduct_spark.planning.launches import LaunchReport, PendingLaunch

log = logging.getLogger(__name__)

MAX_HOSTS, MAX_HOST = 256, 256
"""Hosts that are remembered for one intake, and characters of the name of one."""

CALL_TIMEOUT = 10.0
"""Seconds for one call of a task; the service answers from memory."""

_ANY = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Registration:
    """An intake that serves a query.

    ``at`` is its Flight address; ``fingerprint`` the SHA-256 of the listener's certificate, empty
    for an intake that ran already. ``started``: it was started for this run of the query.
    """

    intake: int
    id: str
    epoch: int
    at: str
    pid: int
    listen: str
    fingerprint: str
    started: bool = False

    @classmethod
    def of(cls, intake: int, at: str, status: IntakeStatus) -> Registration:
        """Of an intake that was found running."""
        return cls(
            intake, status.id, status.epoch, at, status.pid, status.listen or "", fingerprint=""
        )

    def same_process(self, other: Registration) -> bool:
        """Whether both are of one life of an intake, whatever else they know of it."""
        return (self.id, self.epoch, self.at) == (other.id, other.epoch, other.at)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Registration:
        return cls(
            int(data["intake"]),
            str(data["id"]),
            int(data["epoch"]),
            str(data["at"]),
            int(data["pid"]),
            str(data["listen"]),
            str(data["fingerprint"]),
            bool(data["started"]),
        )


def winner(
    held: Registration | None, offered: Registration, gone: Registration | None = None
) -> Registration:
    """Which of two registrations of one number stands.

    ``gone`` is the one that the offerer found dead. The spool counts its owners (``epoch``) and
    has one at a time, so of two registrations of the same spool the older one is of a process
    that is gone or fenced. Of two spools the first stays: two tasks that were launched for one
    number, on two hosts, made one each, and what was read from the first must stay readable.
    """
    if held is None or held == gone:
        return offered
    if held.id != offered.id:
        return held
    return offered if offered.epoch > held.epoch else held


class Rendezvous(AuthenticatedServer):
    """The service. It answers from the moment it is made, until ``shutdown``.

    ``host`` is bound with any free port, for those who have the token of the spool.
    """

    def __init__(self, host: str, credentials: Credentials) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, Registration] = {}
        self._absent: dict[int, dict[str, str | None]] = {}
        self._pending: dict[int, PendingLaunch] = {}
        super().__init__(host, 0, credentials)

    def registered(self) -> dict[int, Registration]:
        with self._lock:
            return dict(self._held)

    def take_absent(self) -> dict[int, dict[str, str | None]]:
        """The hosts that said since the last call that the spool of an intake is not there, each
        with the spool that it has in that place, None where it has none."""
        with self._lock:
            absent, self._absent = self._absent, {}
        return absent

    def register(self, offered: Registration, gone: Registration | None = None) -> Registration:
        """Make an intake known to all tasks; returns the registration that stands.

        ``gone`` is the one that the caller has found dead; it does not stand in the way.
        """
        with self._lock:
            held = self._held.get(offered.intake)
            stands = winner(held, offered, gone)
            self._held[offered.intake] = stands
            self._pending.pop(offered.intake, None)
        if stands is not held:
            log.info(
                "intake %d %s (pid %d, spool %s, epoch %d%s)",
                stands.intake,
                f"listens on {stands.listen}" if stands.listen else "runs",
                stands.pid,
                stands.id,
                stands.epoch,
                f", certificate SHA-256 {stands.fingerprint}" if stands.fingerprint else "",
            )
        return stands

    def order(self, intakes: Iterable[int], now: float) -> None:
        """Tasks are about to be given the launch of these intakes; nobody else is waited for."""
        with self._lock:
            self._pending = {intake: PendingLaunch(now) for intake in intakes}

    def pending(self) -> dict[int, PendingLaunch]:
        """The launches that are waited for."""
        with self._lock:
            return dict(self._pending)

    def report(self, intake: int, report: LaunchReport, now: float) -> None:
        with self._lock:
            self._pending[intake] = PendingLaunch(now, report)

    def answer(self, action: fl.Action) -> list[bytes]:
        body = json.loads(action.body.to_pybytes())
        if action.type == "report":
            cause = body["cause"] and ErrorForm.from_json(body["cause"])
            host = str(body["host"])[:MAX_HOST]
            report = LaunchReport(host, int(body["pid"]), cause, bool(body["failed"]))
            self.report(int(body["intake"]), report, time.monotonic())
            return [b"{}"]
        if action.type == "register":
            gone = body["gone"] and Registration.from_json(body["gone"])
            stands = self.register(Registration.from_json(body["offered"]), gone)
            return [json.dumps(stands.to_json()).encode()]
        if action.type == "absent":
            with self._lock:
                hosts = self._absent.setdefault(int(body["intake"]), {})
                if len(hosts) < MAX_HOSTS:
                    found = body["found"]
                    host = str(body["host"])[:MAX_HOST]
                    hosts[host] = None if found is None else str(found)[:MAX_HOST]
            return [b"{}"]
        if action.type == "lookup":
            held = self.registered().get(int(body["intake"]))
            return [json.dumps(held.to_json() if held else None).encode()]
        raise fl.FlightServerError("no such action")


class RendezvousClient:
    """What tasks say to the rendezvous at ``address``.

    Each call ends within `CALL_TIMEOUT` and raises IntakeFailed.UNREACHABLE when the planner is
    gone: then the query is over, and so is the task.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._address = address
        self._options = authorized(credentials, CALL_TIMEOUT)
        self._client = dial(address, credentials)

    def __enter__(self) -> RendezvousClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def register(self, offered: Registration, gone: Registration | None = None) -> Registration:
        """Make an intake known; returns the registration that stands, which may be another.

        ``gone`` is the one that was found dead here.
        """
        body = {"offered": offered.to_json(), "gone": gone.to_json() if gone else None}
        return Registration.from_json(self._call("register", body))

    def report_absent(self, intake: int, host: str, found: str | None) -> None:
        """The spool of the intake is not on ``host``; in its place there is the one ``found``."""
        self._call("absent", {"intake": intake, "host": host, "found": found})

    def report(
        self, intake: int, cause: AqueductError | None = None, *, failed: bool = False
    ) -> None:
        """This process starts the intake; or why it cannot, yet or for good (``failed``)."""
        form = None if cause is None else ErrorForm.of(cause).to_json()
        body = {"intake": intake, "host": socket.gethostname(), "pid": os.getpid()}
        self._call("report", body | {"cause": form, "failed": failed})

    def lookup(self, intake: int) -> Registration | None:
        answer = self._call("lookup", {"intake": intake})
        return None if answer is None else Registration.from_json(answer)

    def _call(self, name: str, body: dict[str, Any]) -> Any:
        try:
            action = fl.Action(name, json.dumps(body).encode())
            answers = list(self._client.do_action(action, self._options))
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            raise IntakeFailed(
                "UNREACHABLE",
                f"the planner of the query does not answer at {self._address} "
                f"({type(error).__name__})",
                "Check that executors can reach the driver on that address, and that the query "
                "still runs",
            ) from None
        return json.loads(answers[0].body.to_pybytes())


def outside_of(source: Listen | Dial) -> HostPort:
    """The address by which a query shows how far it reaches: where it listens, or whom it dials.

    With everything it dials on loopback, all of it is on this machine.
    """
    if isinstance(source, Listen):
        return source.address
    addresses = source.endpoint.addresses
    return addresses[0] if all(a.loopback for a in addresses) else HostPort(_ANY[0], 0)


def reachable_host(outside: HostPort) -> str:
    """The host by which others reach a process on this machine.

    A query on loopback has everything on this machine, so loopback it is. Else the address that
    the listener binds, or Spark's own choice (SPARK_LOCAL_IP), or that of the route out.
    """
    if outside.loopback:
        return "127.0.0.1"
    if outside.host not in _ANY and ":" not in outside.host:  # inner services speak IPv4
        return outside.host
    return os.environ.get("SPARK_LOCAL_IP") or _address_of_route()


def bind_host(outside: HostPort) -> str:
    """The host to bind an inner service to: never wider than the query itself."""
    return "127.0.0.1" if outside.loopback else "0.0.0.0"


def _address_of_route() -> str:
    # Connecting a UDP socket sends nothing; it only makes the system choose the local address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return host

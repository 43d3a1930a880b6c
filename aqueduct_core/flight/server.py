"""Serves the rows and the status of one spool to clients that hold its credentials."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight import faults
from aqueduct_core.flight.client import MAX_WAIT
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import Commit, IntakeStatus, Ticket

log = logging.getLogger(__name__)

BATCH_BYTES = 512 * 1024
"""Stored batches are joined until they have that many bytes: a group of 20 ms may hold a few
rows only, and a reader of tiny batches is ten times slower. Larger ones go out as they are."""

Result = TypeVar("Result")


class Host(Protocol):
    """What is served. Methods are called from the threads of the server, several at a time."""

    @property
    def schema(self) -> pa.Schema: ...

    def status(self) -> IntakeStatus: ...

    def wait(self, beyond: Sequence[int], timeout: float) -> IntakeStatus:
        """Hold the answer until a partition is durable past ``beyond``; at most ``timeout``."""

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]: ...

    def commit(self, commit: Commit) -> None: ...

    def renew(self, seconds: float | None) -> None: ...

    def drain(self) -> None: ...


class FlightHost(fl.FlightServerBase):  # type: ignore[misc]
    """The Flight server of one `Host`; it answers from the moment it is made.

    TLS with a certificate of the spool's authority; each call has to carry the bearer token.
    ``host`` and ``port`` are where it listens (port 0: any). Ends with `shutdown`, which waits
    for the calls under way.

    Raises:
        IntakeFailed: UNREACHABLE when the address cannot be bound.
    """

    def __init__(self, host: str, port: int, credentials: Credentials, served: Host) -> None:
        identity = credentials.server_identity()
        where = f"[{host}]" if ":" in host else host
        try:
            super().__init__(
                f"grpc+tls://{where}:{port}",
                tls_certificates=[(identity.certificate, identity.key)],
                middleware={"token": TokenCheck(credentials.token)},
            )
        except (pa.ArrowException, OSError):
            raise IntakeFailed(
                "UNREACHABLE",
                f"the Flight address {where}:{port} cannot be bound",
                "Choose another address or port for Flight, or stop what listens there",
            ) from None
        self._served = served

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        def opened() -> Iterator[pa.RecordBatch]:
            return joined(self._served.read(Ticket.from_bytes(ticket.ticket)))

        # A generator stream, not a reader: only it carries our errors from the middle of a read.
        return fl.GeneratorStream(self._served.schema, _guarded_rows(_guarded(opened)))

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> list[bytes]:
        body = action.body.to_pybytes() if action.body is not None else b""
        answer = _guarded(lambda: self._act(action.type, json.loads(body or b"{}")))
        return [json.dumps(answer).encode()]

    def list_actions(self, context: fl.ServerCallContext) -> list[tuple[str, str]]:
        return [
            ("status", "how far the intake is"),
            ("wait", "the same, once there is more"),
            ("commit", "a cursor is done with rows"),
            ("renew", "keep the intake running"),
            ("drain", "end the intake in good order"),
        ]

    def _act(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "status":
            return self._served.status().to_json()
        if name == "wait":
            timeout = max(0.0, min(float(body["timeout"]), MAX_WAIT))
            beyond = [int(end) for end in body["beyond"]]
            return self._served.wait(beyond, timeout).to_json()
        if name == "commit":
            self._served.commit(Commit.from_json(body))
        elif name == "renew":
            lease = body.get("lease")
            self._served.renew(None if lease is None else float(lease))
        elif name == "drain":
            self._served.drain()
        else:
            raise ValueError(f"no action {name[:40]!r}")
        return {}


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small neighbours joined to about `BATCH_BYTES`."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= BATCH_BYTES:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)


def _guarded(call: Callable[[], Result]) -> Result:
    """Errors of ours go out with their class; of others the peer learns only their type."""
    try:
        return call()
    except AqueductError as error:
        raise fl.FlightServerError(str(error), extra_info=faults.pack(error)) from None
    except fl.FlightError:
        raise
    except Exception as error:
        log.exception("a Flight call failed")
        raise fl.FlightServerError(f"internal error {type(error).__name__}") from None


def _guarded_rows(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        batch = _guarded(lambda: next(rows, None))
        if batch is None:
            return
        yield batch


class TokenCheck(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses each call without the right bearer token before anything else is looked at."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[str | bytes]]) -> None:
        given = [
            value
            for key, values in headers.items()
            for value in values
            if key.lower() == "authorization"
        ]
        if not given:
            raise fl.FlightUnauthenticatedError("a bearer token is required")
        value = given[0].encode() if isinstance(given[0], str) else given[0]
        if not hmac.compare_digest(value, self._expected):
            raise fl.FlightUnauthenticatedError("the bearer token is not the right one")

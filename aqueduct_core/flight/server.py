"""Serves the rows and the status of one spool to clients that hold its credentials."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight import error_codec
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.authenticated import AuthenticatedServer
from aqueduct_core.flight.client import MAX_WAIT
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket, View, view_of
from aqueduct_core.spool import Location, Stretch, coalesced

log = logging.getLogger(__name__)

Result = TypeVar("Result")
FlightAction: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]


class IntakeHost(Protocol):
    """What is served. Methods are called from the threads of the server, several at a time."""

    @property
    def schema(self) -> pa.Schema: ...

    def status(self) -> IntakeStatus: ...

    def observe(self, query: ChannelQuery) -> IntakeStatus:
        """The status with all that goes on, as far as the query asks for it."""

    def wait(self, beyond: Sequence[int], timeout: float, view: View) -> IntakeStatus:
        """Hold the answer until a log of ``view`` is durable past ``beyond``, or ``timeout``."""

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]: ...

    def locations(self, ticket: Ticket) -> list[Location]: ...

    def stretches(self, ticket: Ticket) -> list[Stretch]: ...

    def skip(self, order: GiveUp) -> None: ...

    def sizes(self, partition: int, start: int, end: int, step: int) -> list[tuple[int, int]]: ...

    def locate(self, microseconds: int, view: View) -> list[int]: ...

    def commit(self, commit: Commit) -> None: ...

    def hold(self, hold: Hold) -> None: ...

    def release(self, cursor: str, owner: str) -> None: ...

    def drop_cursor(self, cursor: str, query: str | None) -> None: ...

    def give_cursor(self, cursor: str) -> None: ...

    def reset_cursor(self, order: Reset) -> CursorReset: ...

    def renew(self, seconds: float | None) -> None: ...

    def drain(self) -> None: ...


class IntakeServer(AuthenticatedServer):
    """The Flight server of one `IntakeHost`, as `AuthenticatedServer`."""

    def __init__(
        self,
        host: str,
        port: int,
        credentials: Credentials,
        served: IntakeHost,
        refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._served = served
        self._actions = self._actions_of(served)
        super().__init__(host, port, credentials, refused)

    def stream(self, ticket: fl.Ticket) -> fl.FlightDataStream:
        def opened() -> Iterator[pa.RecordBatch]:
            return coalesced(self._served.read(Ticket.from_bytes(ticket.ticket)))

        # A generator stream, not a reader: only it carries our errors from the middle of a read.
        return fl.GeneratorStream(self._served.schema, _guarded_rows(_guarded(opened)))

    def answer(self, action: fl.Action) -> list[bytes]:
        body = action.body.to_pybytes() if action.body is not None else b""
        answer = _guarded(lambda: self._act(action.type, json.loads(body or b"{}")))
        return [json.dumps(answer).encode()]

    def actions(self) -> list[tuple[str, str]]:
        return [(name, text) for name, (text, _) in self._actions.items()]

    def _act(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name not in self._actions:
            raise ValueError(f"no action {name[:40]!r}")
        return self._actions[name][1](body) or {}

    def _actions_of(self, host: IntakeHost) -> dict[str, tuple[str, FlightAction]]:
        def wait(body: dict[str, Any]) -> dict[str, Any]:
            timeout = max(0.0, min(float(body["timeout"]), MAX_WAIT))
            beyond = [int(end) for end in body["beyond"]]
            return host.wait(beyond, timeout, view_of(body.get("view"))).to_json()

        def renew(body: dict[str, Any]) -> None:
            lease = body.get("lease")
            host.renew(None if lease is None else float(lease))

        def sizes(body: dict[str, Any]) -> dict[str, Any]:
            asked = (int(body[key]) for key in ("partition", "start", "end", "step"))
            return {"marks": host.sizes(*asked)}

        return {
            "status": ("how far the intake is", lambda _: host.status().to_json()),
            "observe": (
                "how far it is, and all that goes on",
                lambda body: host.observe(ChannelQuery.from_json(body).bounded()).to_json(),
            ),
            "wait": ("the same, once there is more", wait),
            "hold": ("claim a cursor for a while", lambda body: host.hold(Hold.from_json(body))),
            "release": (
                "give a cursor back",
                lambda body: host.release(str(body["cursor"]), str(body["owner"])),
            ),
            "commit": (
                "a cursor is done with rows",
                lambda body: host.commit(Commit.from_json(body)),
            ),
            "drop": (
                "forget a cursor that nobody holds",
                lambda body: host.drop_cursor(str(body["cursor"]), body.get("query")),
            ),
            "give": (
                "let a cursor that nobody holds go to the next query",
                lambda body: host.give_cursor(str(body["cursor"])),
            ),
            "reset": (
                "have the query of a cursor that nobody holds go on elsewhere",
                lambda body: host.reset_cursor(Reset.from_json(body)).to_json(),
            ),
            "sizes": ("how many bytes rows take", sizes),
            "locate": (
                "the first offsets at or after a time",
                lambda body: {
                    "offsets": host.locate(int(body["microseconds"]), view_of(body.get("view")))
                },
            ),
            "pieces": (
                "where rows lie on the disk",
                lambda body: {
                    "pieces": host.locations(Ticket.from_bytes(str(body["ticket"]).encode()))
                },
            ),
            "stretches": (
                "which rows are stored, skipped or gone",
                lambda body: {
                    "stretches": host.stretches(Ticket.from_bytes(str(body["ticket"]).encode()))
                },
            ),
            "skip": (
                "give damaged rows up",
                lambda body: host.skip(GiveUp.from_json(body)),
            ),
            "renew": ("keep the intake running", renew),
            "drain": ("end the intake in good order", lambda _: host.drain()),
        }


def _guarded(call: Callable[[], Result]) -> Result:
    """Errors of ours go out with their class; of others the peer learns only their type."""
    try:
        return call()
    except AqueductError as error:
        raise fl.FlightServerError(str(error), extra_info=error_codec.pack(error)) from None
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

"""What an intake that dials says of the channels that it asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight import error_codec


class Failure(NamedTuple):
    """A channel that ended otherwise than by finish: its name or path, the end (``cancelled``,
    ``lost``, ``connection lost``, ``overflow``, ``closed``, ``incomplete``), and why."""

    channel: str
    end: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndpointState:
    """One endpoint as the intake sees it now.

    ``error`` is why it is not connected; None while it is, or before the first attempt ended.
    ``refused``: the endpoint answered and does not want us, or cannot be trusted (token,
    certificate, version). The intake tries again all the same, as these may change.
    """

    address: str
    connected: bool = False
    attempts: int = 0
    error: AqueductError | None = None
    refused: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "connected": self.connected,
            "attempts": self.attempts,
            "error": None if self.error is None else error_codec.to_json(self.error),
            "refused": self.refused,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        error = data.get("error")
        return cls(
            data["address"],
            data.get("connected", False),
            data.get("attempts", 0),
            None if error is None else error_codec.from_json(error),
            data.get("refused", False),
        )


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """The channels that were to be asked for, over all endpoints of the intake.

    ``requested`` = ``open`` + ``finished`` + those that wait to be asked for (again) or have
    failed for good. A channel is ``finished`` when its sender finished, and so did all channels
    below it that flow to us, with every message stored. ``failed`` names the newest failures, of
    channels below included, at most `FAILURES` of them; ``failures`` counts all.
    ``settled``: nothing is open, nothing will be asked for any more, and no connection is left.
    ``claims`` are the endpoints that stay with this intake of a query, dialled now or not.
    """

    requested: int = 0
    open: int = 0
    finished: int = 0
    failed: tuple[Failure, ...] = ()
    failures: int = 0
    endpoints: tuple[EndpointState, ...] = ()
    settled: bool = False
    claims: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "requested": self.requested,
            "open": self.open,
            "finished": self.finished,
            "failed": [list(failure) for failure in self.failed],
            "failures": self.failures,
            "endpoints": [endpoint.to_json() for endpoint in self.endpoints],
            "settled": self.settled,
            "claims": list(self.claims),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            data.get("requested", 0),
            data.get("open", 0),
            data.get("finished", 0),
            tuple(Failure(*map(str, failure)) for failure in data.get("failed", ())),
            data.get("failures", 0),
            tuple(map(EndpointState.from_json, data.get("endpoints", ()))),
            data.get("settled", False),
            tuple(data.get("claims", ())),
        )


FAILURES = 100
"""Failures that are kept; a stream that runs for years may meet many."""

"""What an intake that dials says of the channels that it asked for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.error_codec import ErrorForm
from aqueduct_core.primitives.json_file import JsonForm


class Failure(NamedTuple):
    """A channel that ended otherwise than by finish: its name or path, the end (``cancelled``,
    ``lost``, ``connection lost``, ``overflow``, ``closed``, ``incomplete``, ``too large``), and
    why."""

    channel: str
    end: str
    reason: str


class EndpointState(JsonForm, frozen=True):
    """One endpoint as the intake sees it now.

    ``failure`` is why it is not connected; None while it is, or before the first attempt ended.
    ``refused``: the endpoint answered and does not want us, or cannot be trusted (token,
    certificate, version). The intake tries again all the same, as these may change. ``over``:
    nothing is wanted of it any more.
    """

    address: str
    connected: bool = False
    attempts: int = 0
    failure: ErrorForm | None = msgspec.field(name="error", default=None)
    refused: bool = False
    over: bool = False

    @property
    def error(self) -> AqueductError | None:
        """The same as an error; None also for one of a newer release."""
        return None if self.failure is None else self.failure.error


class SubscriptionStatus(JsonForm, frozen=True):
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


FAILURES = 100
"""Failures that are kept; a stream that runs for years may meet many."""

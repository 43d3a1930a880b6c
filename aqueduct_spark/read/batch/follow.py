"""Reads what an intake brings as it becomes durable, until the end of a read has come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from aqueduct_core.errors import AqueductError, ChannelEnded, DataLoss, FinishTimeout, InvalidOption
from aqueduct_core.escape import escaped
from aqueduct_core.flight.client import MAX_WAIT, IntakeClient
from aqueduct_core.flight.stalls import StallLog
from aqueduct_core.flight.tickets import Ticket, View
from aqueduct_spark.options.until import UntilFinish, UntilIdle
from aqueduct_spark.read.gaps import stored_rows
from aqueduct_spark.read.shaping import RowShaper

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_core.flight.status import IntakeStatus
    from aqueduct_core.flight.subscription_status import Failure, SubscriptionStatus
    from aqueduct_spark.formats.description import RowMapping
    from aqueduct_spark.model.partitions import FollowPartition
    from aqueduct_spark.options.read import BatchReadOptions

log = logging.getLogger(__name__)

COMMIT_BYTES = 16 << 20
"""Rows that were read are given back after that many bytes, so that the spool stays small."""

MAX_ATTEMPTS = 3
"""Attempts to reach a remote that was never reached before the read fails. A connection that
breaks later is made again for as long as the read may take."""

MAX_NAMES = 10
"""Channels that an error names."""

_SUBCLASS = {"cancelled": "CANCELLED", "overflow": "OVERFLOW", "too large": "TOO_LARGE"}
_REMEDIES = {"too large": "Raise 'maxMessageBytes' of the intake, or have smaller objects sent"}


class Follower:
    """Follows one intake. Made for one read; `rows` is called once.

    Args:
        names: the channels that were asked for, for errors; empty where others wanted.
        done_with: called with how far rows were handed on; what is before may be truncated.
    """

    def __init__(
        self,
        client: IntakeClient,
        options: BatchReadOptions,
        mapping: RowMapping,
        *,
        names: Sequence[str] = (),
        done_with: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._view = cast(View, options.rows.view)
        self._names = names
        self._done_with = done_with
        self._mapping = mapping
        self._shaper = RowShaper(mapping, options.rows)
        self._reached: set[str] = set()
        self._stalls = StallLog()
        self._reported = 0

    def rows(self, starts: Sequence[int] | None, deadline: float) -> Iterator[pa.RecordBatch]:
        """The rows from ``starts`` (None: the earliest) to the end of the read, in batches.

        Waits until ``deadline`` (monotonic seconds) for it.

        Raises:
            ChannelEnded: a channel did not end by finish; CANCELLED only with onCancel=fail.
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch: the remote cannot be had.
            FinishTimeout: the end has not come, with the channels that are open.
            IntakeFailed: UNREACHABLE.
        """
        status = self._client.status()
        spool = status.id
        low, _ = self._bounds(status)
        at = list(low if starts is None else starts)
        first_log = len(status.ends) if self._view == "events" else 0
        quiet = time.monotonic()
        while True:
            self._tell(status)
            self._check(status)
            if status.id != spool:
                raise _replaced(spool, status)
            _, ends = self._bounds(status)
            if any(end > have for end, have in zip(ends, at, strict=True)):
                for log_number, end in enumerate(ends):
                    ticket = Ticket(spool, first_log + log_number, at[log_number], end)
                    yield from self._read(ticket, at, log_number)
                self._give_back(at)
                quiet = time.monotonic()
            elif self._over(status, quiet):
                return
            elif time.monotonic() > deadline:
                raise self._timeout(status)
            if not self._settled_or_connected(status.subscriptions):
                quiet = time.monotonic()
            status = self._client.wait(at, MAX_WAIT, view=self._view)

    def _tell(self, status: IntakeStatus) -> None:
        """What the intake waits for, in the log of the task. Who has not come yet is not what a
        read of what it dials, or has, waits for."""
        stalls = [stall for stall in status.stalls if not stall.row.normal]
        for _, text in self._stalls.observe(stalls, time.monotonic()):
            log.warning("%s", text)  # nothing else of a task is seen

    def _read(self, ticket: Ticket, at: list[int], log_number: int) -> Iterator[pa.RecordBatch]:
        unreturned = 0
        for first, batch in stored_rows(
            self._client,
            ticket,
            self._mapping.stored_schema,
            leave_out=self._shaper.leave_out,
        ):
            yield from self._shaper.rows(batch, ticket.partition, first, ticket.spool)
            at[log_number] = first + batch.num_rows
            unreturned += batch.nbytes
            if unreturned >= COMMIT_BYTES:
                self._give_back(at)
                unreturned = 0
        at[log_number] = ticket.end

    def _give_back(self, at: Sequence[int]) -> None:
        if self._done_with is not None:
            self._done_with(at)

    def _bounds(self, status: IntakeStatus) -> tuple[Sequence[int], Sequence[int]]:
        if self._view == "events":
            return status.events[:1], status.events[1:]
        return status.starts, status.ends

    def _over(self, status: IntakeStatus, quiet: float) -> bool:
        """Whether the end has come; all that ``status`` knows to be durable was read."""
        match self._options.until:
            case UntilIdle(seconds):
                return time.monotonic() - quiet >= seconds
            case UntilFinish():
                wanted = status.subscriptions
                if wanted is None:
                    raise InvalidOption(
                        "CONFLICT",
                        f"until=finish, and the intake at {self._client.address} accepts "
                        "producers: it asked for no channels that could finish",
                        "Set until=idle:<duration> or until=offset",
                    )
                if status.complete:
                    return True
                # A cancelled channel that is kept never completes, but nothing more comes of it.
                return wanted.settled and not status.held_bytes and self._keeps_all(wanted)
        raise ValueError(f"nothing to wait for: {self._options.until}")

    def _keeps_all(self, wanted: SubscriptionStatus) -> bool:
        return all(self._kept(failure) for failure in wanted.failed)

    def _kept(self, failure: Failure) -> bool:
        return failure.end == "cancelled" and self._options.on_cancel == "keep"

    def _check(self, status: IntakeStatus) -> None:
        wanted = status.subscriptions
        if wanted is None:
            return
        for failure in wanted.failed:
            if not self._kept(failure):
                raise _channel_ended(failure)
        if wanted.failures > self._reported:
            for failure in wanted.failed[self._reported - wanted.failures :]:
                log.warning(
                    "onCancel=keep: channel '%s': %s",
                    escaped(failure.channel),
                    escaped(failure.reason),
                )
            self._reported = wanted.failures
        for endpoint in wanted.endpoints:
            if endpoint.connected:
                self._reached.add(endpoint.address)
            elif endpoint.error is not None and (
                endpoint.refused
                or (endpoint.address not in self._reached and endpoint.attempts >= MAX_ATTEMPTS)
            ):
                raise endpoint.error

    def _settled_or_connected(self, wanted: SubscriptionStatus | None) -> bool:
        """A remote that is not there is no remote that is silent."""
        if wanted is None or wanted.settled:
            return True
        return all(endpoint.connected for endpoint in wanted.endpoints)

    def _timeout(self, status: IntakeStatus) -> FinishTimeout:
        waited = f"untilTimeout={self._options.until_timeout:g}s"
        wanted = status.subscriptions
        broken = [e.error for e in wanted.endpoints if e.error] if wanted else []
        if isinstance(self._options.until, UntilIdle):
            what = f"{waited} is over, and messages still come"
        else:
            names = self._open_channels(status)
            shown = ", ".join(repr(name) for name in names[:MAX_NAMES])
            more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
            what = f"{waited} is over, and channels have not finished: {shown}{more}"
        if broken:
            what += f"; the remote cannot be reached: {broken[0].what}"
        return FinishTimeout("", what, "Raise 'untilTimeout', or see what the remote waits for")

    def _open_channels(self, status: IntakeStatus) -> list[str]:
        """As the log of events says it; where that cannot be read, those that were asked for."""
        log_number = len(status.ends)
        ticket = Ticket(status.id, log_number, *status.events)
        stored = stored_rows(self._client, ticket, self._mapping.stored_schema)
        try:
            events = (self._mapping.events(batch, log_number, at) for at, batch in stored)
            return self._mapping.open_channels(events, self._names)
        except AqueductError:
            return list(self._names)


def followed_rows(
    partition: FollowPartition, options: BatchReadOptions, mapping: RowMapping
) -> Iterator[pa.RecordBatch]:
    """The rows of an intake that runs on its own, from where the plan says to the end."""
    deadline = time.monotonic() + (options.until_timeout or 0.0)
    with IntakeClient(
        partition.at, partition.access.for_clients(), read_timeout=options.fetch_timeout
    ) as client:
        yield from Follower(client, options, mapping).rows(partition.starts, deadline)


def _channel_ended(failure: Failure) -> ChannelEnded:
    return ChannelEnded(
        _SUBCLASS.get(failure.end, "LOST"),
        f"channel {failure.channel!r} did not finish ({failure.end}): {failure.reason}",
        _REMEDIES.get(failure.end, "Ask the remote for it again; what came of it is not complete"),
    )


def _replaced(spool: str, status: IntakeStatus) -> DataLoss:
    return DataLoss(
        "SPOOL_REPLACED",
        f"the intake served spool {spool} and serves {status.id} now",
        "Load the frame anew",
    )

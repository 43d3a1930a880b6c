"""Talks to one intake over Flight: its status, its rows, and the few orders it takes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as fl
from msgspec import structs

from aqueduct_core.errors import AqueductError, AuthFailed, IntakeFailed, TlsFailed
from aqueduct_core.flight import error_codec
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.authenticated import authorized, dial, has_another_token
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket, View
from aqueduct_core.spool import Location, Stretch

MAX_WAIT = 1.0
"""Longest time in seconds that an intake holds back the answer to `IntakeClient.wait`."""

READ_AHEAD = 4 * 1024 * 1024
"""Bytes that are on their way to a read; twice as many, and a batch, may wait for its caller.
A path of 10 ms carries 400 MB/s with that."""


UNKNOWN = "internal error ValueError"
"""What an intake of an earlier release says of an action that it does not know."""


class IntakeClient:
    """A client of the intake at ``address`` (``host:port``).

    Dialling happens with the first call, and again by itself after the connection broke.
    Every call ends within its timeout and raises

    * ``IntakeFailed.UNREACHABLE``: nobody answers there, or not in time;
    * ``AuthFailed``: the intake has another token; ``TlsFailed.UNKNOWN_CA``: another authority;
    * any error that the intake itself raised, as the same class.

    May be used from several threads. End it with `close`, or use it as a context manager.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        action_timeout: float = 10.0,
        read_timeout: float = 120.0,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self._action_timeout = action_timeout
        self._read_timeout = read_timeout
        self._spool: str | None = None
        self._epoch: int | None = None
        self._owed: dict[int, float] = {}
        with self._translated(action_timeout):
            self._client = dial(
                address,
                credentials,
                # else gRPC doubles the window as long as the path has room, without a bound that
                # we know: a read that pauses would hold a hundred megabytes
                [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", READ_AHEAD)],
            )

    def __repr__(self) -> str:
        return f"<IntakeClient {self.address}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def status(self) -> IntakeStatus:
        """How far the intake is, now."""
        return self._learn(self._action("status"))

    def observe(self, query: ChannelQuery | None = None) -> IntakeStatus:
        """The same with what goes on, and the channels that the query asks for. Of an intake of an
        earlier release, which knows nothing of it, the status."""
        try:
            return self._learn(self._action("observe", (query or ChannelQuery()).to_json()))
        except IntakeFailed as error:
            if UNKNOWN not in error.what:
                raise
            return self.status()

    def wait(
        self, beyond: Sequence[int], timeout: float, *, view: View = "messages"
    ) -> IntakeStatus:
        """The status as soon as any log of ``view`` is durable past ``beyond``, or after
        ``timeout``.

        ``timeout`` in seconds is cut to `MAX_WAIT`; the intake answers at once when the number
        of logs differs or it is about to end.
        """
        timeout = max(0.0, min(timeout, MAX_WAIT))
        order = {"beyond": list(beyond), "timeout": timeout, "view": view}
        return self._learn(self._action("wait", order, extra=timeout))

    def hold(
        self,
        cursor: str,
        owner: str,
        *,
        view: View = "messages",
        seconds: float = 5.0,
        query: str = "",
        where: str = "",
        given_out: Sequence[int] = (),
    ) -> None:
        """Claim ``cursor`` for ``seconds`` from now, or renew the claim of this ``owner``.

        A cursor that does not exist is made durably at the earliest rows that are stored, so that
        nothing is trimmed behind it. With the id of a ``query``, which must be in its checkpoint
        by then, it belongs to that query for good; ``where`` tells people where it runs. Where the
        logs end before what was ``given_out``, the intake takes no more rows, and ends.

        Raises:
            SpoolFailed: CURSOR_IN_USE where it belongs to another query, while another owner holds
                it, or after one took it over.
            InvalidOption: BAD_VALUE when the cursor reads another view.
            DataLoss: SPOOL_REPLACED when the spool is not the one of the last status; OFFSET_AHEAD.
        """
        known = tuple(given_out)
        order = Hold(cursor, owner, seconds, view, self._spool, query, where, known)
        self._action("hold", order.to_json())

    def release(self, cursor: str, owner: str) -> None:
        """Give a hold back at once; without effect where this ``owner`` has none."""
        self._action("release", {"cursor": cursor, "owner": owner})

    def drop_cursor(self, cursor: str, *, query: str | None = None) -> None:
        """Forget a cursor: it holds nothing back any more. Without effect where there is none.

        ``query``: which query wants it, "" for one without an id; None: an operator does, and it
        does not matter to whom it belongs.

        Raises:
            SpoolFailed: CURSOR_IN_USE while somebody holds it, or where it belongs to another
                query.
        """
        self._action("drop", {"cursor": cursor, "query": query})

    def give_cursor(self, cursor: str) -> None:
        """Let a cursor, as it stands, go to the next query that claims it: an operator's act.

        Raises:
            SpoolFailed: CURSOR_IN_USE while somebody holds it.
        """
        self._action("give", {"cursor": cursor})

    def reset_cursor(self, cursor: str, to: Sequence[int]) -> CursorReset:
        """Have the query of a cursor go on at ``to`` when it comes again: an operator's act. What
        it was ordered: offsets that are not stored become the next ones that are.

        Raises:
            SpoolFailed: CURSOR_IN_USE while somebody holds it; FULL, IO.
            InvalidOption: BAD_VALUE where there is no such cursor, or it reads another number of
                logs.
            DataLoss: SPOOL_REPLACED when the spool is not the one of the last status.
        """
        order = Reset(cursor, tuple(to), self._spool)
        return CursorReset.from_json(self._action("reset", order.to_json()))

    def sizes(self, partition: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        """How many stored bytes the rows from ``start`` on take: ``(offset, bytes)``, ascending,
        about ``step`` bytes apart, the last one ``(end, total)``. From the index, so it is cheap.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD.
        """
        order = {"partition": partition, "start": start, "end": end, "step": step}
        return [(offset, size) for offset, size in self._action("sizes", order)["marks"]]

    def locate(self, microseconds: int, *, view: View = "messages") -> tuple[int, ...]:
        """For each log of ``view`` the first offset whose timestamp is at or after the given one
        (microseconds since 1970, UTC); its end when there is none."""
        return tuple(
            self._action("locate", {"microseconds": microseconds, "view": view})["offsets"]
        )

    def locations(self, ticket: Ticket) -> list[Location]:
        """Where the rows of ``ticket`` lie, in order and without a gap, for `read_locations` of the
        spool where `are_here` says that they can be seen.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD or SPOOL_REPLACED.
        """
        answer = self._action("pieces", {"ticket": ticket.to_bytes().decode()})
        return [Location(*piece) for piece in answer["pieces"]]

    def stretches(self, ticket: Ticket) -> list[Stretch]:
        """What became of the rows of ``ticket``, in order and without a gap: stored, skipped or
        gone.

        Raises:
            DataLoss: OFFSET_AHEAD or SPOOL_REPLACED.
            SpoolFailed: IO when the intake cannot see its directory.
        """
        answer = self._action("stretches", {"ticket": ticket.to_bytes().decode()})
        return [Stretch(*each) for each in answer["stretches"]]

    def skip(self, ticket: Ticket, reason: str) -> None:
        """Give the rows of ``ticket`` up for good, none of which can be read. They are told as an
        event; durable when this returns, and without effect where it is done already.

        Raises:
            DataLoss: OFFSET_AHEAD when they begin behind the end; SPOOL_REPLACED.
            InvalidOption: CONFLICT when any of them can be read.
            SpoolFailed: FULL, IO.
        """
        self._action("skip", GiveUp(ticket, reason).to_json())

    def commit(
        self,
        cursor: str,
        ends: Sequence[int],
        *,
        spool: str | None = None,
        epoch: int | None = None,
        owner: str | None = None,
        view: View = "messages",
        query: str = "",
        reset: str = "",
    ) -> None:
        """``cursor`` is done with all rows below ``ends``; repeating it changes nothing.

        ``ends`` has an entry for each log of ``view``. ``spool`` and ``epoch`` default to those of
        the last status: an intake that is another one by now refuses with DataLoss.SPOOL_REPLACED
        or IntakeFailed.UNREACHABLE. ``reset`` is the id of the last one that the query has obeyed:
        where there is another one by now, the cursor does not go on beyond it.

        Raises:
            SpoolFailed: CURSOR_IN_USE when the cursor belongs to another query, or another one
                than ``owner`` holds it or took it over in the meantime.
            InvalidOption: BAD_VALUE when the cursor reads another view.
        """
        order = Commit(
            cursor,
            tuple(ends),
            self._spool if spool is None else spool,
            self._epoch if epoch is None else epoch,
            owner,
            view,
            query,
            reset,
        )
        self._action("commit", order.to_json())

    def renew(self, lease_seconds: float | None = None) -> None:
        """Keep the intake running for that long from now (None: for its own lease)."""
        self._action("renew", {"lease": lease_seconds})

    def drain(self) -> None:
        """Ask the intake to end in good order; returns when it has begun to."""
        self._action("drain")

    def read(self, ticket: Ticket) -> Generator[pa.RecordBatch, None, None]:
        """Exactly the rows of ``ticket`` as they are stored, in order, in batches near 1 MB.

        ``read_timeout`` bounds the silence of the intake, not the pace of the caller: a read
        that got rows goes on behind them with a new call. Of what the caller has not taken, no more
        than twice `READ_AHEAD` and a batch have left the intake.
        """
        position = ticket.start
        options = self._options(self._read_timeout)
        with self._translated(self._read_timeout):
            while position < ticket.end:
                begun = position
                asked = fl.Ticket(structs.replace(ticket, start=begun).to_bytes())
                try:
                    for chunk in self._client.do_get(asked, options):
                        position += chunk.data.num_rows
                        yield chunk.data
                except fl.FlightTimedOutError:
                    if position == begun:
                        raise
                    continue
                if position != ticket.end:
                    raise self._unreachable(f"ended the read of {ticket} at offset {position}")

    def silent(self, now: float) -> float:
        """For how many seconds the intake owes an answer to a call that is under way, at monotonic
        ``now``; 0.0 when it owes none."""
        return max([0.0, *(now - since for since in self._owed.copy().values())])

    def close(self) -> None:
        self._client.close()

    def _learn(self, answer: dict[str, Any]) -> IntakeStatus:
        status = IntakeStatus.from_json(answer)
        self._spool, self._epoch = status.id, status.epoch
        return status

    def _action(
        self, name: str, body: dict[str, Any] | None = None, extra: float = 0.0
    ) -> dict[str, Any]:
        timeout = self._action_timeout + extra
        caller = threading.get_ident()
        self._owed[caller] = time.monotonic() + extra
        try:
            with self._translated(timeout):
                action = fl.Action(name, json.dumps(body or {}).encode())
                answers = list(self._client.do_action(action, self._options(timeout)))
        finally:
            self._owed.pop(caller, None)
        if not answers:
            return {}
        value: dict[str, Any] = json.loads(answers[0].body.to_pybytes())
        return value

    def _options(self, timeout: float) -> fl.FlightCallOptions:
        return authorized(self._credentials, timeout)

    @contextmanager
    def _translated(self, timeout: float) -> Iterator[None]:
        try:
            yield
        except fl.FlightTimedOutError:
            raise self._unreachable(f"did not answer within {timeout:g} s") from None
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> AqueductError:
        own = error_codec.unpack(getattr(error, "extra_info", None))
        if own is not None:
            return own
        if has_another_token(error):
            return AuthFailed(
                "REJECTED",
                f"the intake at {self.address} did not accept the token of this query",
                "Read with the credentials of the spool that the intake serves",
            )
        text = str(error)
        if "handshake failed" in text:
            return TlsFailed(
                "UNKNOWN_CA",
                f"the certificate of the intake at {self.address} is not of this spool's authority",
                "Another intake has that address, or the authority is of another spool: check the "
                "port, and options spool or tls.caFile",
            )
        if isinstance(error, fl.FlightUnavailableError):
            return self._unreachable(f"does not answer: {_cause(text)}")
        return self._unreachable(f"failed the call: {_cause(text)}")

    def _unreachable(self, why: str) -> IntakeFailed:
        return IntakeFailed(
            "UNREACHABLE",
            f"the intake at {self.address} {why}",
            "Check that it runs and that its Flight port can be reached from here",
        )


_GRPC_PREFIX = re.compile(
    r"(Flight returned \w+ error, with message: )?(UNKNOWN: )?(ipv[46]:[^ ]+: )?"
)
"""The class of a failure, which we name ourselves, and the address, which stands before it."""


def _cause(text: str) -> str:
    """The telling end of gRPC's chain of reasons, on one line."""
    line = text.strip().splitlines()[0] if text.strip() else "no reason given"
    last = line.split("last error: ")[-1].removesuffix(". Detail: Failed")
    return _GRPC_PREFIX.sub("", last)[:200].rstrip(". ")

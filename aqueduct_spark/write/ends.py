"""What ended at the addresses of an attempt: every wait of the attempt ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy

from aqueduct_core.aio.outcomes import ConnectionLost


class AttemptEnds:
    """What ended at the connections of one attempt.

    A channel that ended with messages not acked ends the attempt. A lost connection ends what the
    attempt waits for, wherever that is; it counts until `mended`.
    """

    def __init__(self) -> None:
        self._failure: Exception | None = None
        self._lost: ConnectionLost | None = None
        self._waits: dict[asyncio.Timeout, bool] = {}

    def note(self, outcome: Exception) -> None:
        """A channel ended with that error of the sink, or a connection is lost."""
        if isinstance(outcome, ConnectionLost):
            self._lost = outcome
        elif self._failure is None:
            self._failure = outcome
        for wait, whole in self._waits.items():
            if not wait.expired() and (self._failure is not None or not whole):
                wait.reschedule(asyncio.get_running_loop().time())

    def mended(self) -> None:
        """What lost connections had not acked waits to be sent again."""
        self._lost = None

    def check(self, *, whole: bool = False) -> None:
        """Raise what ended. A receiver that closed is that, also where it goes on to end the
        connection. ``whole``: see `watched`.

        Raises: SinkFailed, ConnectionLost.
        """
        if self._failure is not None:
            raise copy(self._failure)  # a stored one would gather the traces of all who met it
        if self._lost is not None and not whole:
            raise copy(self._lost)

    @asynccontextmanager
    async def watched(
        self, until: float | None, *, whole: bool = False
    ) -> AsyncIterator[asyncio.Timeout]:
        """Wait in the block until something ended, or until this time of the loop (None: for ever).

        Args:
            whole: what the block does must not stay half done, so a connection that is lost
                elsewhere does not end it.

        Raises: as `check`; TimeoutError when it is too late.
        """
        self.check(whole=whole)
        wait = asyncio.timeout_at(until)
        try:
            async with wait:
                self._waits[wait] = whole
                yield wait
        except TimeoutError:
            self.check(whole=whole)
            raise
        finally:
            self._waits.pop(wait, None)

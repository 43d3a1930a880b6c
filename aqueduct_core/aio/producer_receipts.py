"""What the server of a producer says is committed: the receiving end of receipts."""

from __future__ import annotations

from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost, LostInTransit, Overflowed
from aqueduct_core.aio.signal import Signal
from aqueduct_core.aqueduct.conventions.receipts import BadReceipt, from_payload, receipts_header
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.ranges import RangeSet

MAX_RANGES = 1_000_000
"""Ranges kept over all channels: a bound on what a server can make us hold."""


class ProducerReceipts:
    """The committed messages of each channel of a producer, over all its connections.

    Asks for receipts once somebody wants them, and again on each new connection, where the
    server begins anew with all that it knows. ``refused`` says why the present connection gives
    none.
    """

    def __init__(self, changed: Signal) -> None:
        self.wanted = False
        self.refused: str | None = None
        self._changed = changed
        self._heard = False
        self._size = 0
        self._committed: dict[str, RangeSet] = {}

    def want(self) -> None:
        if not self.wanted:
            self.wanted = True
            self._changed.fire()

    def committed(self, name: str) -> RangeSet:
        """Logical numbers of this channel. Live: read it, do not change it."""
        return self._committed.get(name) or RangeSet()

    def check(self) -> None:
        """Raises: SinkFailed.NO_RECEIPTS when there are none to wait for."""
        if self.refused is not None:
            raise SinkFailed(
                "NO_RECEIPTS",
                f"the server gives no receipts of what is committed: {self.refused}",
                "Wait for stored messages instead, or send to an intake",
            )

    def remedy(self) -> str:
        """What to do when receipts do not come in time."""
        if self._heard:
            return "Check that the queries of the intake run, and that each cursor has one"
        return "The server has not answered the request for receipts: it may be no intake"

    async def hear(self, connection: ClientConnection) -> None:
        """Take in receipts until the connection ends or the server gives no more."""
        self.refused, self._heard = None, False
        try:
            sender, receiver = channel(headers=(receipts_header(),))
            async with receiver:
                await connection.entrypoint.send(b"", attach=sender)
                await self._take(receiver)
                self.refused = "it finished the receipts channel"
        except ConnectionLost:
            self.refused = None
        except (Cancelled, LostInTransit, Overflowed) as error:
            self.refused = error.what
        except BadReceipt as error:
            self.refused = str(error)
        self._changed.fire()

    async def _take(self, receiver: Receiver) -> None:
        async for message in receiver:
            self._heard = True
            for entry in from_payload(message.payload):
                if not entry.reliable or entry.id is not None:
                    continue  # not numbers of ours
                known = self._committed.setdefault(entry.channel, RangeSet())
                before = len(known)
                for first, stop in entry.ranges:
                    known.add(first, stop)
                self._size += len(known) - before
            if self._size + len(self._committed) > MAX_RANGES:
                raise BadReceipt("they are in too many pieces")
            self._changed.fire()

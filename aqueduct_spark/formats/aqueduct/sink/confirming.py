"""Is what the receivers have stored what this attempt sent? Asked when all of it is acked.

A row that is sent again under its number is acked and not stored again. That is right only where it
is the same row: an attempt that computes other rows, fewer or more of them, or in another order,
would otherwise lose them without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from aqueduct_core.aio.halves import oneshot
from aqueduct_core.aio.outcomes import ConnectionLost, Outcome
from aqueduct_core.aqueduct.conventions.dedupe.numbering import space
from aqueduct_core.aqueduct.conventions.dedupe.questions import (
    MAX_CHANNELS,
    Answer,
    Asked,
    BadQuestion,
    KnownNumbers,
    Question,
    question_header,
)
from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE
from aqueduct_core.engine.checksum import Content, of_payloads
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.formats.aqueduct.options import AqueductWrite
from aqueduct_spark.formats.aqueduct.sink.connection import AqueductConnection
from aqueduct_spark.formats.aqueduct.sink.identity import RowIdentity
from aqueduct_spark.options.values import Endpoint
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.ends import AttemptEnds
from aqueduct_spark.write.sink import WriteIdentity


class SentRows:
    """What an attempt has taken in for each destination whose rows have numbers; and, after `ask`,
    what the receivers said of it.

    ``repeated`` and ``unchecked`` are those of `SentCounts`. Where rows of the batch go to an
    address by their channel, always, no address must have channels that this attempt has not, and
    all of them are asked.
    """

    def __init__(self, identity: RowIdentity, options: WriteOptions) -> None:
        self.repeated = 0
        self._identity = identity
        self._endpoint: Endpoint = options.endpoint
        self._timeout = options.ack_timeout
        own: AqueductWrite = options.own
        self._trusts = own.trusts_superseded
        self._keyed = options.idempotence == "headers"
        self._alone = options.one_way and options.idempotence in ("auto", "headers")
        self._contents: dict[Destination, Content] = {}
        self._places: dict[Destination, HostPort] = {}
        self._moved: set[Destination] = set()
        self._checked: set[Destination] = set()
        self._answering: dict[HostPort, None] = {}
        self._asked: set[HostPort] = set()

    @property
    def unchecked(self) -> int:
        return len(self._contents) - len(self._checked)

    @property
    def unasked(self) -> list[HostPort]:
        """Addresses that answer and were not asked yet, whatever became of connections."""
        whole = {place for to, place in self._places.items() if to.source or to not in self._moved}
        return [
            address
            for address in self._answering
            if address not in self._asked and (self._alone or address in whole)
        ]

    def add(self, batch: RowBatch, first: int) -> None:
        """Take messages in, of which the first is row ``first`` of its destination."""
        to, identity = batch.destination, self._identity
        if not (identity.numbered and to.reliable):
            return
        if batch.numbers is not None:  # compared one by one, by the receiver
            self._contents.setdefault(to, Content())
            return
        headers = identity.headers(batch, self._keyed)
        number = identity.number(to.reliability, first)
        content = of_payloads(batch.payloads, number, headers)
        self._contents[to] = self._contents.get(to, Content()).plus(content)

    def meets(self, connection: AqueductConnection) -> None:
        """There is a connection to one of the addresses."""
        if connection.answers:
            self._answering[connection.address] = None

    def goes(self, batch: RowBatch, address: HostPort) -> None:
        """Rows go to this address. Where others of their destination went to another one, neither
        has all, and they are not compared."""
        to = batch.destination
        if to not in self._contents or not batch.payloads:
            return
        if self._places.get(to, address) != address:
            self._moved.add(to)
        self._places[to] = address

    def loses(self, address: HostPort) -> None:
        """A connection to it is lost, and with it what was found of rows of sources on it."""
        if address not in self._asked:
            self._moved |= {to for to, at in self._places.items() if to.source and at == address}

    def passes(self, address: HostPort) -> None:
        """It cannot be asked."""
        self._asked.add(address)

    async def ask(self, connection: AqueductConnection, ends: AttemptEnds) -> None:
        """Compare what was sent to one address; all of it must be acked.

        Raises:
            ConnectionLost: before all answers came; ask again.
            SinkFailed: NOT_REPEATABLE; ACK_TIMEOUT when an answer takes longer than ``ackTimeout``;
                what ended at another address.
        """
        wanted = [
            to
            for to in self._contents
            if self._places.get(to) == connection.address and (to.source or to not in self._moved)
        ]
        if not connection.answers:  # any more
            wanted = []
        among = self._identity.numbers if self._alone and connection.answers else None
        for part in _parts(wanted, least=int(among is not None)):
            answer = await self._answer(connection, part, among, ends)
            if answer is None or len(answer.channels) != len(part):
                continue
            for to, known in zip(part, answer.channels, strict=True):
                self._compare(connection, to, known)
            if among is not None and answer.channels_among is not None:
                self._compare_channels(
                    connection, {to.channel for to in wanted}, answer.channels_among
                )
            among = None
        self._asked.add(connection.address)

    async def _answer(
        self,
        connection: AqueductConnection,
        part: Sequence[Destination],
        among: tuple[int, int] | None,
        ends: AttemptEnds,
    ) -> Answer | None:
        """None: the receiver gave none that can be used."""
        identity = self._identity
        source = part[0].source if part else ""
        if source:
            question = Question([Asked(to.channel, 0, MAX_SEQUENCE) for to in part], source=source)
        else:
            spaces = [Asked(to.channel, *space(identity.number(to.reliability, 0))) for to in part]
            question = Question(spaces, identity.partition, among)
        sender, receiver = oneshot()
        try:
            async with ends.watched(asyncio.get_running_loop().time() + self._timeout):
                await connection.connection.entrypoint.send(
                    question.to_payload(), headers=(question_header(),), attach=sender
                )
                async for message in receiver:
                    return Answer.from_payload(message.payload)
        except ConnectionLost:
            ends.check()
            raise
        except TimeoutError:
            raise SinkFailed(
                "ACK_TIMEOUT",
                f"{self._endpoint.url(connection.address)} did not say within {self._timeout:g} s "
                "what it has stored",
                "Check the receiver, or raise 'ackTimeout'",
            ) from None
        except (BadQuestion, Outcome):
            return None
        return None

    def _compare(
        self, connection: AqueductConnection, to: Destination, known: KnownNumbers
    ) -> None:
        self.repeated += known.repeated
        if to.source:
            if known.uncompared == 0 and to not in self._moved:
                self._checked.add(to)
            return
        mine, stored = self._contents[to], known.content
        doubted = self._identity.rising or (stored is None and not self._trusts)
        if known.later and stored != mine and doubted:
            where = f"channel {to.channel!r} at {self._endpoint.url(connection.address)}"
            raise superseded(self._identity, where)
        if stored is None:
            return
        self._checked.add(to)
        if stored != mine:
            what = "other ones" if stored.messages == mine.messages else f"{stored.messages}"
            raise not_repeatable(
                self._identity,
                f"this attempt has {mine.messages} rows for channel {to.channel!r} "
                f"({to.reliability}), {self._endpoint.url(connection.address)} has stored {what} "
                f"under their numbers; it recognised {known.repeated} as repeated",
            )

    def _compare_channels(
        self, connection: AqueductConnection, mine: set[str], stored: int
    ) -> None:
        if stored > len(mine):
            raise not_repeatable(
                self._identity,
                f"this attempt has rows for {len(mine)} channels, "
                f"{self._endpoint.url(connection.address)} has stored rows of {stored} channels",
            )


def not_repeatable(identity: WriteIdentity, what: str) -> SinkFailed:
    """An earlier attempt sent other rows under the same numbers."""
    return SinkFailed(
        "NOT_REPEATABLE",
        f"An earlier attempt sent other rows for batch {identity.batch}, partition "
        f"{identity.partition} of writer {identity.writer!r}: {what}",
        "Make the input repeatable (sort it, or write it to storage first), identify rows by "
        "columns, or set idempotence=none to send them at least once",
    )


def other_row(what: str) -> SinkFailed:
    """A receiver has refused a row, as another one from the same place of its source is stored."""
    return SinkFailed(
        "NOT_REPEATABLE",
        f"Two rows for a channel come from one place of their source, or one was computed in "
        f"another way before: {what}",
        "With idempotence=source give each source row one row for each channel, computed from it "
        "alone (of an exploded row each part its own channel), or leave 'idempotence' out: then "
        "rows are known by their places in the batch",
    )


def superseded(identity: WriteIdentity, where: str) -> SinkFailed:
    """What is sent of a batch when a later one is stored would be lost, unless it is stored."""
    what = (
        f"A later batch than {identity.batch} of writer {identity.writer!r} is stored on {where}: "
        "rows of this one are taken for repeats and not stored"
    )
    if identity.rising:
        return SinkFailed(
            "NOT_REPEATABLE",
            f"{what}. Another query, or this one with another checkpoint, has sent under this "
            "writerId",
            "Give the query a writerId of its own, or leave the option out",
        )
    return SinkFailed(
        "NOT_REPEATABLE",
        f"{what}, and what is stored of it cannot be compared any more",
        "Give a batch that was never written a 'batchId' above all others; for one of which all "
        "rows are stored already set supersededBatch=trust",
    )


def _parts(destinations: Sequence[Destination], least: int) -> Iterator[Sequence[Destination]]:
    """Those of each source by themselves. At least so many; one of none asks only whether there are
    others."""
    if len(destinations) < least:
        yield destinations
    by_source = attrgetter("source")
    for _, group in groupby(sorted(destinations, key=by_source), by_source):
        of_one = list(group)
        for first in range(0, len(of_one), MAX_CHANNELS):
            yield of_one[first : first + MAX_CHANNELS]

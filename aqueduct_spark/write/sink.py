"""What a format has to bring to be written to: the port of sinks.

`Sink` is all that the writers know. A protocol whose endpoints have addresses, channels and acks
gets routes, retries and conservation of rows from `Delivery`, to which it brings `SinkProtocol`
and `AttemptConnection`; another one may make a delivery of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from aqueduct_core.errors import SinkFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from aqueduct_core.aio.outcomes import ConnectionLost
    from aqueduct_core.primitives.host_port import HostPort
    from aqueduct_spark.options.write import WriteOptions
    from aqueduct_spark.write.batches import Destination, RowAccount, RowBatch, RowRun
    from aqueduct_spark.write.ends import AttemptEnds
    from aqueduct_spark.write.pool import Pool


@dataclass(frozen=True)
class SentCounts(WriterCommitMessage):
    """Totals of one task. ``sent`` = ``acked`` + ``nacked``; only unreliable ones are nacked.

    ``bytes`` are those of the payloads, ``seconds`` from the first row to the last ack. Of what was
    acked ``repeated`` were stored before, as far as the receivers say; of ``unchecked`` channels no
    receiver said whether the content that it stores is that of this attempt. ``whole``: channels
    that the task has to have alone.
    """

    partition: int
    channels: int
    sent: int
    acked: int
    nacked: int
    bytes: int
    seconds: float = 0.0
    endpoints: tuple[str, ...] = ()
    repeated: int = 0
    unchecked: int = 0
    whole: tuple[str, ...] = ()

    @classmethod
    def none(cls, partition: int) -> SentCounts:
        """Of a task without rows."""
        return cls(partition, 0, 0, 0, 0, 0)


def summary(writer: str, tasks: Iterable[SentCounts]) -> str:
    """One line for the log."""
    done = list(tasks)
    total = {
        name: sum(getattr(task, name) for task in done)
        for name in ("sent", "acked", "nacked", "repeated", "bytes", "channels", "unchecked")
    }
    counts = " ".join(f"{name}={count}" for name, count in total.items())
    seconds = max((task.seconds for task in done), default=0.0)
    endpoints = ",".join(sorted({endpoint for task in done for endpoint in task.endpoints}))
    return (
        f"writer {writer}: tasks={len(done)} {counts} seconds={seconds:.3f} "
        f"endpoints={endpoints or 'none'}"
    )


def check_whole(tasks: Iterable[SentCounts]) -> None:
    """Whether no two tasks had rows of a channel that one has to have alone.

    Raises:
        SinkFailed: ROW_REPEATED: then rows of the one were sent under numbers of the other.
    """
    owners: dict[str, int] = {}
    for task in tasks:
        for channel in task.whole:
            other = owners.setdefault(channel, task.partition)
            if other != task.partition:
                raise SinkFailed(
                    "ROW_REPEATED",
                    f"Rows of '{channel}' were in the tasks {other} and {task.partition}, and each "
                    "has numbered its own from the first on: the receiver keeps those that came "
                    "first",
                    "Repartition by it before the write, and write it again under another name",
                )


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """Who the rows of a task attempt are: the same in every attempt, as far as ``numbered`` says.

    Args:
        writer: the scope of the other numbers.
        batch: of the writer.
        partition: the number of the task.
        numbered: False: the rows of two attempts are not the same ones, and nothing is said that
            would make them so.
        rising: no batch is done again once a later one has begun, as in a stream.
    """

    writer: str
    batch: int
    partition: int
    numbered: bool = True
    rising: bool = False


class RowSplitter(Protocol):
    """Makes messages of the rows of one task, whatever the batches they come in."""

    def split(self, batch: pa.RecordBatch) -> Iterator[list[RowBatch]]:
        """The messages of a batch. Raises: SchemaMismatch, SinkFailed."""

    def rest(self) -> Iterator[list[RowBatch]]:
        """What was kept for messages that are not full, when no more rows come."""


class AttemptDelivery(Protocol):
    """The way of one task attempt. All calls belong to one event loop, and follow each other."""

    async def open(self) -> None:
        """Connect. Raises ConnectFailed and its like before anything is sent."""

    async def send(self, batches: Sequence[RowBatch]) -> None:
        """Return when the messages are on their way. Raises: SinkFailed."""

    async def complete(self) -> SentCounts:
        """Return when every message has its outcome. Raises: SinkFailed."""

    async def give_up(self) -> None:
        """The attempt has failed: have receivers drop what it sent. Never raises."""


class Sink(ABC):
    """Where a format writes to. Without state, so it travels to tasks as the name of its class."""

    @abstractmethod
    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        """Refuse a frame that cannot be sent, before any task runs.

        Raises:
            SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
        """

    @abstractmethod
    def table_schema(self, options: WriteOptions) -> StructType:
        """The columns of a table of the catalog that is written to with these options. One of them
        has a type that no frame has, such as VARCHAR: only then Spark always fits what is inserted
        to the table, and its options come along (`aqueduct_spark.options.catalog`).

        Raises:
            SchemaMismatch: REQUIRED where only the user knows them.
        """

    @abstractmethod
    def splitter(self, options: WriteOptions) -> RowSplitter:
        """For the rows of one task."""

    @abstractmethod
    def delivery(
        self, options: WriteOptions, identity: WriteIdentity, pool: Pool, token: str | None
    ) -> AttemptDelivery:
        """For one attempt of a task; ``pool`` is that of its worker process."""


class AttemptConnection(Protocol):
    """A connection while one attempt has it.

    Every wait is bounded, and ends with whatever ended at any address of the attempt
    (`AttemptEnds`); it may be begun anew then. Ends by `finish` or `cancel`; when the connection is
    lost, by `abandon`.
    """

    @property
    def address(self) -> HostPort: ...

    @property
    def lost(self) -> ConnectionLost | None:
        """How the connection ended, if it did."""

    @property
    def stale(self) -> bool:
        """It was kept from an earlier attempt, and nothing shows that the peer still knew it."""

    @property
    def open_most(self) -> int:
        """Destinations that one call of `open` takes."""

    async def open(self, starts: Mapping[Destination, int]) -> None:
        """Be ready for rows of these destinations, each from its first row on."""

    async def room(self, size: int) -> None:
        """Return when so many more bytes may be in flight."""

    async def send(self, run: RowRun) -> None:
        """Send a run; from the call on `abandon` answers for it.

        Raises:
            ConnectionLost: the connection is over.
            SinkFailed: why rows could not be delivered.
        """

    async def settled(self) -> None:
        """Return when every message has its outcome."""

    async def confirm(self) -> None:
        """Have the receiver say that what it has stored is what was sent."""

    async def finish(self, *, channels: bool) -> None:
        """End the attempt after `settled`; with ``channels`` the receivers know of the end."""

    async def cancel(self) -> None:
        """Give up: the receivers may drop what they have not read of this attempt."""

    async def close(self, seconds: float) -> None:
        """End the connection in good order; at once when that takes longer."""

    def abandon(self) -> list[RowRun]:
        """The connection is lost: what is to be sent elsewhere, in order for each destination."""


class SinkProtocol(ABC):
    """What `Delivery` needs of a protocol for one attempt of a task."""

    @abstractmethod
    async def connect(
        self, address: HostPort, accounts: Mapping[Destination, RowAccount], ends: AttemptEnds
    ) -> AttemptConnection:
        """A connection for this attempt, new or kept from an earlier one.

        Raises:
            ConnectFailed, TlsFailed, AuthFailed, VersionMismatch, ProtocolViolation: the endpoint
                cannot be used.
        """

    @abstractmethod
    async def release(self, connection: AttemptConnection) -> None:
        """The attempt has succeeded: keep the connection for the next one, or end it."""

    @abstractmethod
    def lost(self, connection: AttemptConnection, lost: ConnectionLost) -> SinkFailed:
        """A connection is lost: the error of the attempt, should it not go on. One that is
        NOT_REPEATABLE ends it."""

    def take(self, batch: RowBatch, first: int) -> None:
        """These rows were taken in; the first is row ``first`` of their destination."""
        return

    @property
    def unconfirmed(self) -> list[HostPort]:
        """Addresses at which `AttemptConnection.confirm` has to be called still."""
        return []

    def pass_over(self, address: HostPort) -> None:
        """It cannot be asked: what is stored there counts as unchecked."""
        return

    @property
    def repeated(self) -> int:
        """As in `SentCounts`."""
        return 0

    @property
    def unchecked(self) -> int:
        """As in `SentCounts`."""
        return 0

"""A bounded read of an endpoint: an intake of its own for each address, for as long as a task.

Each attempt of a task starts anew, with a new intake and an empty spool, so its rows are those
that the remote sends to it and no others. Neither process nor directory outlives the attempt,
however it ends: the intake ends itself when nobody renews its lease, and what started it then
removes the directory.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from pyspark.sql.datasource import InputPartition

from aqueduct_core.errors import AqueductError, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.primitives.atomic_file import make_directories
from aqueduct_spark.intakes.launch_settings import connect_settings
from aqueduct_spark.intakes.process import Started, start_intake
from aqueduct_spark.model.partitions import DialPartition
from aqueduct_spark.read.batch.follow import Follower

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_core.flight.tickets import View
    from aqueduct_spark.formats.description import FormatDescription
    from aqueduct_spark.options.read import BatchReadOptions
    from aqueduct_spark.options.source import Dial

log = logging.getLogger(__name__)

LEASE = 10.0
"""Seconds after which an intake whose task is gone ends itself."""

START_SECONDS = 60.0
"""For the intake to be ready; the time of the read itself is up to the user."""

END_SECONDS = 10.0
"""For the intake to end in good order and its directory to vanish; then it is killed."""

CURSOR = "read"


def dial_partitions(
    options: BatchReadOptions, description: FormatDescription
) -> Sequence[InputPartition]:
    """One task for each address of the endpoint."""
    source = cast("Dial", options.source)
    return [
        DialPartition(
            intake,
            connect_settings(description, options, (address,), bounded=True),
            description.requested(options.rows.own),
            parent=source.spool,
        )
        for intake, address in enumerate(source.endpoint.addresses)
    ]


def dialled_rows(
    partition: DialPartition, options: BatchReadOptions, description: FormatDescription
) -> Iterator[pa.RecordBatch]:
    """What the remote sends until its channels have finished, or the read ends otherwise.

    Raises what `Follower.rows` raises, and why the intake could not be started.
    """
    deadline = time.monotonic() + (options.until_timeout or 0.0)
    view: View = "events" if options.rows.view == "events" else "messages"
    with _directory(partition.parent) as directory:
        settings = _settings(partition, options, directory, description)
        access = settings.credentials.for_clients()
        with (
            _running(settings, directory) as started,
            IntakeClient(started.flight, access, read_timeout=options.fetch_timeout) as client,
            _renewed(client),
        ):

            def done_with(ends: Sequence[int]) -> None:
                client.commit(CURSOR, ends, view=view)

            yield from Follower(
                client,
                options,
                description.rows(),
                names=partition.names,
                done_with=done_with,
            ).rows(None, deadline)


def _settings(
    partition: DialPartition,
    options: BatchReadOptions,
    directory: Path,
    description: FormatDescription,
) -> IntakeSettings:
    return description.intake_settings(
        options.rows.own,
        spool=str(directory),
        credentials=Credentials.fresh(),
        partitions=1,
        listen=None,
        connect=partition.connect,
        flight="127.0.0.1:0",
        lease=LEASE,
        name=f"read-{partition.intake}",
        **msgspec.structs.asdict(options.intake),
    )


@contextmanager
def _directory(parent: str | None) -> Iterator[Path]:
    """A new directory; it is gone afterwards, also when nothing was started in it."""
    try:
        if parent is not None:
            make_directories(Path(parent))
        directory = Path(tempfile.mkdtemp(prefix="aqueduct-read-", dir=parent))
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"no directory can be made in {parent or tempfile.gettempdir()}: {error.strerror}",
            "Set 'spool' to a directory that executors can write to",
        ) from None
    try:
        yield directory
    finally:
        _gone(directory, END_SECONDS)


def _gone(directory: Path, seconds: float) -> bool:
    """Whether the directory vanishes in time; what the intake left there, its keeper removes."""
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        with suppress(OSError):
            directory.rmdir()  # where no intake was started it is empty
        if not directory.exists():
            return True
        if time.monotonic() > limit:
            return False
        pause.wait(0.02)


@contextmanager
def _running(settings: IntakeSettings, directory: Path) -> Iterator[Started]:
    started = start_intake(settings, START_SECONDS, vanish=True)
    try:
        yield started
    finally:
        _end(started, settings, directory)


def _end(started: Started, settings: IntakeSettings, directory: Path) -> None:
    """Return when the intake and its directory are gone."""
    try:
        with IntakeClient(started.flight, settings.credentials.for_clients()) as client:
            client.drain()
    except AqueductError as error:
        log.info("the intake of this read is not asked to end: %s", error)
    if not _gone(directory, END_SECONDS):
        log.warning("the intake of this read did not end within %g s", END_SECONDS)
        with suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGKILL)


@contextmanager
def _renewed(client: IntakeClient) -> Iterator[None]:
    """Keep the intake running while Spark takes its time with the rows."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(LEASE / 5):
            try:
                client.renew()
            except IntakeFailed as error:
                log.info("the lease is not renewed: %s", error)

    thread = threading.Thread(target=renew, daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

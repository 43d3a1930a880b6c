"""Queries of format ``telehash`` while things die; rows 1, 3, 4 and 11 of the matrix. What a sender
knows to be acked is in the table, each row once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from aqueduct_core.errors import AqueductError
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.worker import BackgroundLoop
from tests.faults.tables import SinkTable
from tests.spark.formats.telehash.sink.attempts import Attempt, counted, options
from tests.spark.formats.telehash.sink.taker import Taker
from tests.spark.scene import PATIENCE, Scene
from tests.support.ports import free_port
from tests.support.waiting import LONG, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROWS = 60
"""Of a batch of the sender: more than a window."""


class Sender:
    """Task attempts, batch after batch, each done again until it has succeeded.

    ``acked``: batches that did. ``missing``: rows that the table did not have when they were acked,
    where that is looked at.
    """

    def __init__(self, scheme: str, port: int, rows: Callable[[], list[int]] | None) -> None:
        peer = Taker(udp=scheme == "udp")
        peer.url = f"{scheme}://127.0.0.1:{port}"
        self.acked = 0
        self.again = 0
        self.missing: list[int] = []
        self._rows = rows
        self._wanted = options(peer, stream=True, connectTimeout=f"{LONG:.0f}s")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """After the batch that is under way."""
        self._over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a batch has not come to its end"

    def more(self, batches: int) -> None:
        """Return when so many more are acked."""
        wanted = self.acked + batches
        wait_until(lambda: self.acked >= wanted, PATIENCE, f"{batches} batches more")

    def _run(self) -> None:
        with BackgroundLoop() as loop:
            pool = Pool()
            while not self._over.is_set():
                loop.run(self._batch(self.acked, pool))
                self.acked += 1
                if self._rows is not None:
                    due = range(ROWS * (self.acked - 1), ROWS * self.acked)
                    self.missing += set(due).difference(self._rows())
            loop.run(pool.close())

    async def _batch(self, number: int, pool: Pool) -> None:
        while True:
            try:
                await Attempt(self._wanted, batch=number, pool=pool).run(
                    counted(ROWS, ROWS * number)
                )
            except AqueductError:
                self.again += 1
            else:
                return


def values(scene: Scene) -> list[int]:
    """What the file sink has committed, as numbers."""
    files = SinkTable(scene.table).files()
    return [int(value) for file in files for value in pq.read_table(file)["value"].to_pylist()]


@contextmanager
def sending(scene: Scene, scheme: str, *, committed: bool) -> Iterator[Sender]:
    """A query that listens, and who sends to it; at the end each row is in the table once."""
    port = free_port()
    scene.format = "telehash"
    scene.options = {"listen": f"{scheme}://127.0.0.1:{port}"}
    if committed:
        scene.options["ackLevel"] = "committed"
    query = scene.start()
    scene.intake()
    sender = Sender(scheme, port, (lambda: values(scene)) if committed else None)
    sender.start()
    try:
        yield sender
    finally:
        sender.finish()
    due = ROWS * sender.acked
    wait_until(lambda: len(values(scene)) >= due, PATIENCE, f"{due} rows")
    assert sorted(values(scene)) == list(range(due))
    assert sender.missing == []
    query.stop()


@pytest.mark.parametrize("scheme", ["telehash", "udp"])
def test_fault_01_an_intake_is_killed_while_rows_come(scene: Scene, scheme: str) -> None:
    with sending(scene, scheme, committed=False) as sender:
        for _ in range(3):
            sender.more(3)
            scene.kill(scene.intake()["pid"])
        sender.more(3)


def test_fault_03_11_a_query_ends_before_it_has_noted_its_batch(scene: Scene) -> None:
    """With ackLevel=committed nothing is acked that the table has not, whatever ends when."""
    with sending(scene, "udp", committed=True) as sender:
        for kills in range(4):
            sender.more(2)
            for query in scene.spark.streams.active:
                query.stop()
            noted = sorted((scene.checkpoint / "commits").glob("[0-9]*"), key=lambda f: int(f.name))
            if kills % 2:
                noted[-1].unlink()
            else:
                scene.kill(scene.intake()["pid"])
            scene.start()
        sender.more(2)

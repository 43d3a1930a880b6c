"""How often a payload is copied on its way from an engine to the disk."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.storage.pending import PendingBatch
from aqueduct_core.spool.disk import Disk
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run

SIZE = 4 << 20
LITTLE = SIZE // 8
"""All else that a group needs meanwhile."""


def most_memory(store: Bench, batches: list[MessageBatch], monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that were taken to make these durable in one group: at once of Python, and of Arrow
    while they are written."""
    peer, channel = Peer(), AqueductSource("c", "p", "cafe", 8)
    of_arrow = [before := pa.total_allocated_bytes()]
    write = Disk.write

    def watched(disk: Disk, fd: int, buffers: Sequence[bytes | memoryview], at: int) -> int:
        of_arrow.append(pa.total_allocated_bytes())
        return write(disk, fd, buffers, at)

    monkeypatch.setattr(Disk, "write", watched)
    tracemalloc.start()
    try:
        for batch in batches:
            store.groups.add(PendingBatch(peer, batch, channel, True, 1_000))
        store.settle()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(peer.acked) == len(batches)
    return taken + max(of_arrow) - before


@pytest.mark.parametrize("messages", [1, 64])
@pytest.mark.parametrize("batches", [1, 4])
def test_payloads_of_a_group_are_joined_and_never_copied_again(
    batches: int, messages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a single batch are written from where the engine has put them."""
    payload = bytes(SIZE // batches // messages)
    made = [run([payload] * messages, first=i * messages) for i in range(batches)]
    copies = 1 if batches > 1 else 0
    with bench(tmp_path, group_bytes=2 * SIZE) as store:
        taken = most_memory(store, made, monkeypatch)
    assert copies * SIZE <= taken < copies * SIZE + LITTLE

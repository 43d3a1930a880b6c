"""Operations are carried out by threads, and their ends are seen by a descriptor."""

from __future__ import annotations

import threading
import time

from aqueduct_core.spool.objects.store import (
    CreateObject,
    ObjectExists,
    ObjectStored,
    Operation,
    StoreOutcome,
    StoreUnavailable,
)
from aqueduct_core.spool.objects.uploads import Uploads
from aqueduct_core.spool.sync import wait_readable
from tests.support.objects.memory_store import MemoryStore

SOON = 10.0


def ended(uploads: Uploads, number: int) -> dict[int, StoreOutcome]:
    found: dict[int, StoreOutcome] = {}
    while len(found) < number:
        assert wait_readable(uploads.fileno(), SOON)
        found.update(uploads.ended())
    return found


def test_each_operation_has_its_outcome() -> None:
    uploads = Uploads(MemoryStore({"k": (b"", "t")}), 3)
    uploads.submit(1, CreateObject("k", b"1"))
    uploads.submit(2, CreateObject("l", b"2"))
    found = ended(uploads, 2)
    assert isinstance(found[1], ObjectExists)
    assert isinstance(found[2], ObjectStored)
    uploads.close()


class MeetingStore:
    """Answers when as many wait as should; fails with an error of its own for one key."""

    def __init__(self, number: int) -> None:
        self.barrier = threading.Barrier(number)

    def carry_out(self, operation: Operation) -> StoreOutcome:
        assert isinstance(operation, CreateObject)
        self.barrier.wait(SOON)
        if operation.key == "2":
            raise RuntimeError("secret")
        return ObjectStored("t")


def test_operations_are_carried_out_at_once_and_errors_are_no_answer() -> None:
    uploads = Uploads(MeetingStore(4), 4)
    for number in range(1, 5):
        uploads.submit(number, CreateObject(str(number), b""))
    assert ended(uploads, 4)[2] == StoreUnavailable("RuntimeError")
    uploads.close()


def test_a_time_to_wake_makes_it_readable() -> None:
    uploads = Uploads(MemoryStore(), 1)
    at = time.monotonic() + 0.02
    uploads.wake(at)
    uploads.wake(at + 3600)  # later than what is known
    assert wait_readable(uploads.fileno(), SOON)
    assert time.monotonic() >= at
    assert uploads.ended() == []
    assert not wait_readable(uploads.fileno(), 0)
    uploads.close()
    uploads.submit(1, CreateObject("k", b""))  # without effect
    uploads.notify()

"""FAULTS 13: a group is on the disk, and there is no space to note that it was reported."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.intake.service import Intake
from aqueduct_core.spool import Disk
from tests.support.intake_process import Site
from tests.support.waiting import LONG


def test_fault_13_an_ack_waits_for_the_mark_and_comes_without_more_traffic(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Disk.write
    refused = asyncio.Event()
    full = True

    def crowded(self: Disk, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        name = os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2]
        if full and name.startswith("owner"):
            refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, fd, pieces, at)

    async def scenario() -> None:
        nonlocal full
        intake = await Intake.start(site.settings())
        ended = asyncio.create_task(intake.finished())
        monkeypatch.setattr(Disk, "write", crowded)
        url = f"aqueduct://{intake.ready()['listen']}"
        async with asyncio.timeout(LONG), connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="rows")
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send(b"row")
            await refused.wait()
            assert intake.ready()["ends"] == [0, 0]
            assert sender.statistics.acked == 0
            full = False
            await sender.finish()  # returns when all is acked
            assert sum(intake.ready()["ends"]) == 2
            assert sender.statistics.acked == 1
        intake.end("the test is over")
        await ended

    asyncio.run(scenario())

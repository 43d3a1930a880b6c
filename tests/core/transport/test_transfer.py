"""Bytes get through, both ways, whole and in order."""

from __future__ import annotations

import hashlib
import os

from tests.core.transport.ends import dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import eventually
from tests.support.virtual_loop import run_virtually


def test_twenty_megabytes_there_and_back() -> None:
    block = os.urandom(1 << 20)

    async def main() -> None:
        async with serving(make=lambda: Probe(client=False, echoes=True)) as server:
            driver, probe = await dialled(server)
            stream = probe.open()
            digest = hashlib.sha256()
            for i in range(20):
                probe.write(stream, block, end=i == 19)
                digest.update(block)
                driver.kick()
                await driver.writable()
                assert driver.unsent < 4 << 20
            await eventually(lambda: 3 in probe.ended)
            assert probe.streams == {3: 20 << 20}
            assert probe.digests[3].digest() == digest.digest()
            await eventually(lambda: driver.unsent == 0)
            await ended(driver)

    run_virtually(main())
